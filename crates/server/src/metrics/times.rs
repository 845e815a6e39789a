//! How long something took, each time: counts by powers of two, as a snapshot has them.

use engine::histogram::{BOUNDS, Distribution, bound};
use serde::Serialize;

/// A distribution of times.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum_seconds: f64,
    /// How many were at most so many seconds; cumulative.
    pub at_most_seconds: Vec<(f64, u64)>,
}

impl From<Distribution> for Times {
    fn from(distribution: Distribution) -> Self {
        let mut sum = 0;
        let mut cumulative = |bucket: usize| {
            sum += distribution.buckets[bucket];
            (bound(bucket).as_secs_f64(), sum)
        };
        Times {
            count: distribution.count(),
            sum_seconds: distribution.sum.as_secs_f64(),
            at_most_seconds: (0..BOUNDS).map(&mut cumulative).collect(),
        }
    }
}
