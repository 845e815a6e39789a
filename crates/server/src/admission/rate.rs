//! How many requests in a second a client may make of a route: a bucket for each client that fills at a rate.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::client::{Client, Clients, PARTS};

/// Clients that are remembered for a route. Of more, those whose buckets are full are forgotten, which changes nothing for them;
/// while none is, new ones share a bucket.
const MOST_CLIENTS: usize = 65_536;

/// Time between two looks for full buckets, so that a crowd of clients costs little.
const SWEEP: Duration = Duration::from_millis(20);

/// A bound on the rate of each client's requests, by the generic cell rate algorithm (ITU-T I.371): the moment from which a
/// client's bucket is full again is all that has to be known of it.
#[derive(Debug)]
pub(super) struct RateLimit {
    /// Time in which one request more may be made, in nanoseconds.
    each_ns: u64,
    /// How far ahead of the rate a client may be, in nanoseconds.
    burst_ns: u64,
    epoch: Instant,
    /// When full buckets were looked for last in each part, in nanoseconds since the epoch.
    swept: [AtomicU64; PARTS],
    /// For each client, when its bucket is full again, in nanoseconds since the epoch.
    full_at: Clients<u64>,
}

impl RateLimit {
    /// So many requests per second, and at most so many at once, at least one. With a rate of nothing there are no more than
    /// those: a bucket takes 292 years to fill, which is the longest, so that moments do not run over.
    pub(super) fn new(per_second: f64, burst: u32) -> Self {
        let burst = u64::from(burst.max(1));
        // What is no number, or less than nothing, is nothing.
        let each_ns = (1e9 / per_second.max(f64::MIN_POSITIVE)) as u64;
        let each_ns = each_ns.clamp(1, i64::MAX as u64 / burst);
        let burst_ns = each_ns * (burst - 1);
        RateLimit {
            each_ns,
            burst_ns,
            epoch: Instant::now(),
            swept: Default::default(),
            full_at: Clients::default(),
        }
    }

    /// Counts a request, or says how long to wait until the next one may come.
    pub(super) fn take(&self, mut client: Client, now: Instant) -> Result<(), Duration> {
        let now = now.saturating_duration_since(self.epoch).as_nanos() as u64;
        let index = self.full_at.index(client);
        let mut part = self.full_at.nth_part(index);
        if part.len() >= MOST_CLIENTS / PARTS && !part.contains_key(&client) {
            if now.saturating_sub(self.swept[index].load(Relaxed)) >= SWEEP.as_nanos() as u64 {
                self.swept[index].store(now, Relaxed);
                part.retain(|_, full_at| *full_at > now);
            }
            if part.len() >= MOST_CLIENTS / PARTS {
                client = Client::Others;
            }
        }
        let full_at = part.entry(client).or_insert(now);
        let ahead = full_at.saturating_sub(now);
        if ahead > self.burst_ns {
            return Err(Duration::from_nanos(ahead - self.burst_ns));
        }
        *full_at = (*full_at).max(now) + self.each_ns;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_its_rate_and_a_burst_and_others_do_not_suffer() {
        let limit = RateLimit::new(10.0, 5);
        let start = limit.epoch;
        let at = |ms| start + Duration::from_millis(ms);
        let taken = (0..100).filter(|_| limit.take(Client::V4(1), at(0)).is_ok()).count();
        assert_eq!(taken, 5);
        assert!(limit.take(Client::V4(2), at(0)).is_ok());
        let wait = limit.take(Client::V4(1), at(0)).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        // One every 100 ms from then on, whatever is asked for.
        let taken = (1..=1000).filter(|ms| limit.take(Client::V4(1), at(*ms)).is_ok()).count();
        assert_eq!(taken, 10);
        // After a pause the burst is back, and no more than that.
        let taken = (0..100).filter(|_| limit.take(Client::V4(1), at(60_000)).is_ok()).count();
        assert_eq!(taken, 5);
    }

    #[test]
    fn a_rate_of_nothing_lets_nobody_in_after_the_burst() {
        for per_second in [0.0, -0.0, -1.0, f64::NAN, f64::MIN_POSITIVE] {
            for burst in [1, 5, 1000] {
                let limit = RateLimit::new(per_second, burst);
                let hour = |n: u64| limit.epoch + Duration::from_secs(3600 * n);
                let let_in = (0..burst + 10).filter(|_| limit.take(Client::V4(1), hour(0)).is_ok()).count();
                assert_eq!(let_in, burst as usize, "{per_second}");
                assert!(limit.take(Client::V4(1), hour(2)).is_err(), "{per_second} {burst}");
            }
        }
    }

    #[test]
    fn clients_are_forgotten_before_there_are_too_many() {
        let limit = RateLimit::new(1000.0, 1);
        for n in 0..200_000 {
            // Each bucket is full again after a millisecond.
            let now = limit.epoch + Duration::from_micros(100 * u64::from(n));
            assert!(limit.take(Client::V4(n), now).is_ok());
        }
        assert!(limit.full_at.len() <= MOST_CLIENTS + PARTS);
    }

    #[test]
    fn a_crowd_that_cannot_be_told_apart_is_not_let_in_for_nothing() {
        let limit = RateLimit::new(0.01, 1);
        let let_in = (0..200_000).filter(|n| limit.take(Client::V4(*n), limit.epoch).is_ok()).count();
        assert!(let_in <= MOST_CLIENTS + PARTS, "{let_in}");
    }
}
