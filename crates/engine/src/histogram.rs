//! Durations counted in buckets that double: written by one thread, read by any.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::counter::add;

/// Buckets with an upper bound: 1 us, 2 us, 4 us and so on up to 2^25 us, which is 33.6 s.
pub const BOUNDS: usize = 26;

/// A histogram of durations. A single thread writes it, so no locked instruction is needed.
#[derive(Debug, Default)]
pub struct Histogram {
    /// One more than the bounds: the last is for all that is longer.
    buckets: [AtomicU64; BOUNDS + 1],
    sum_ns: AtomicU64,
}

/// What a histogram, or several together, held at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How many durations were at most [`bound`] and more than the bound before it; the last has no bound.
    pub buckets: [u64; BOUNDS + 1],
    /// Their sum.
    pub sum: Duration,
}

/// The upper bound of a bucket.
pub fn bound(bucket: usize) -> Duration {
    Duration::from_micros(1 << bucket)
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&self, duration: Duration) {
        let ns = duration.as_nanos() as u64;
        // The bits of the number of started microseconds, less one: 1 us is in bucket 0, 1.001 us in bucket 1.
        let bucket = (u64::BITS - (ns.saturating_sub(1) / 1000).leading_zeros()) as usize;
        add(&self.buckets[bucket.min(BOUNDS)], 1);
        add(&self.sum_ns, ns);
    }
}

impl Distribution {
    /// All that several histograms hold together.
    pub fn of<'a>(histograms: impl IntoIterator<Item = &'a Histogram>) -> Self {
        let mut all = Distribution::default();
        for histogram in histograms {
            for (sum, bucket) in all.buckets.iter_mut().zip(&histogram.buckets) {
                *sum += bucket.load(Ordering::Relaxed);
            }
            all.sum += Duration::from_nanos(histogram.sum_ns.load(Ordering::Relaxed));
        }
        all
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_whose_bound_it_does_not_pass() {
        let ns = Duration::from_nanos;
        for (duration, bucket) in [
            (ns(0), 0),
            (ns(1000), 0),
            (ns(1001), 1),
            (ns(2000), 1),
            (ns(2001), 2),
            (Duration::from_millis(30), 15),
            (bound(BOUNDS - 1), BOUNDS - 1),
            (Duration::from_secs(3600), BOUNDS),
        ] {
            let histogram = Histogram::default();
            histogram.record(duration);
            let seen = Distribution::of([&histogram]);
            assert_eq!(seen.buckets.iter().position(|n| *n == 1), Some(bucket), "{duration:?}");
            assert_eq!((seen.count(), seen.sum), (1, duration));
            assert!(bucket == BOUNDS || duration <= bound(bucket));
        }
    }
}
