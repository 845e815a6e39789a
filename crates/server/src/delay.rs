//! When requests have waited too long to be worth their work: controlled delay on the queue of a pool.
//!
//! A queue that is emptied now and then only evens out bursts, however long it gets; one whose shortest wait over a while is
//! too long is standing, and only makes everybody late. Then whoever has waited too long is turned away, so that those behind
//! are answered in time (Nichols and Jacobson: Controlling Queue Delay, 2012; with a bound in place of the growing drop rate,
//! as in Facebook's: Maurer, Fail at Scale, 2015).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long a while is.
const INTERVAL: Duration = Duration::from_millis(100);

/// Fewest requests of a while that say anything.
const FEWEST: u64 = 2;

/// The wait of a pool's requests.
pub(crate) struct QueueDelay {
    target: Duration,
    begun: Instant,
    /// When the present while ends, in microseconds since the beginning.
    ends: AtomicU64,
    /// The shortest wait of it, and how many there were.
    shortest: AtomicU64,
    seen: AtomicU64,
    /// The shortest wait of the last while was longer than the target.
    standing: AtomicBool,
}

impl QueueDelay {
    /// Keeps waits near a target.
    pub(crate) fn new(target: Duration) -> Self {
        QueueDelay {
            target,
            begun: Instant::now(),
            ends: AtomicU64::new(INTERVAL.as_micros() as u64),
            shortest: AtomicU64::new(u64::MAX),
            seen: AtomicU64::new(0),
            standing: AtomicBool::new(false),
        }
    }

    /// Whether a request that has waited so long is to be turned away now. To be asked for each.
    pub(crate) fn turns_away(&self, waited: Duration, now: Instant) -> bool {
        self.at(waited, now.saturating_duration_since(self.begun))
    }

    fn at(&self, waited: Duration, now: Duration) -> bool {
        let now = now.as_micros() as u64;
        let ends = self.ends.load(Relaxed);
        let next = now + INTERVAL.as_micros() as u64;
        // One of the workers ends the while; what others add in between counts for one of the two.
        if now >= ends && self.ends.compare_exchange(ends, next, Relaxed, Relaxed).is_ok() {
            let (shortest, seen) = (self.shortest.swap(u64::MAX, Relaxed), self.seen.swap(0, Relaxed));
            let standing = seen >= FEWEST && shortest > self.target.as_micros() as u64;
            self.standing.store(standing, Relaxed);
        }
        self.shortest.fetch_min(waited.as_micros() as u64, Relaxed);
        self.seen.fetch_add(1, Relaxed);
        self.standing.load(Relaxed) && waited > 2 * self.target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A queue in front of one worker that takes 5 ms for each request, over 10 seconds, where one request comes every so
    /// often: how many were answered, how many turned away, and the longest wait of those answered in the last half.
    fn simulate(every: Duration, burst: impl Fn(u32) -> u32) -> (u32, u32, Duration) {
        let delay = QueueDelay::new(5 * MS);
        let (mut free, mut answered, mut away, mut longest) = (Duration::ZERO, 0, 0, Duration::ZERO);
        for nth in 0.. {
            let came = every * nth;
            if came > Duration::from_secs(10) {
                break;
            }
            for _ in 0..burst(nth) {
                let begins = free.max(came);
                if delay.at(begins - came, begins) {
                    away += 1;
                    continue;
                }
                free = begins + 5 * MS;
                answered += 1;
                if came > Duration::from_secs(5) {
                    longest = longest.max(begins - came);
                }
            }
        }
        (answered, away, longest)
    }

    #[test]
    fn a_load_that_can_be_carried_is_carried() {
        let (answered, away, longest) = simulate(6 * MS, |_| 1);
        assert_eq!((answered, away, longest), (1667, 0, Duration::ZERO));
    }

    #[test]
    fn a_burst_that_is_worked_off_is_no_reason_to_turn_anybody_away() {
        // Ten at once, and then nothing for 100 ms: twice what comes is left over.
        let (answered, away, _) = simulate(100 * MS, |_| 10);
        assert_eq!((answered, away), (1010, 0));
    }

    #[test]
    fn twice_what_can_be_carried_keeps_the_worker_busy_and_the_wait_short() {
        let (answered, away, longest) = simulate(Duration::from_micros(2500), |_| 1);
        // 200 per second for 10 seconds, and as many are turned away.
        assert!((1900..=2100).contains(&answered), "{answered}");
        assert!(away > 1500, "{away}");
        // Without it the last would wait for 10 seconds.
        assert!(longest < 250 * MS, "{longest:?}");
    }

    #[test]
    fn ten_times_as_much_changes_nothing_for_those_who_are_let_in() {
        let (answered, _, longest) = simulate(Duration::from_micros(500), |_| 1);
        assert!((1900..=2100).contains(&answered), "{answered}");
        assert!(longest < 250 * MS, "{longest:?}");
    }
}
