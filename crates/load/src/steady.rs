//! From when a load was steady: the rule MSER-5 on its rate over time.
//!
//! The rate of every 100 ms is averaged in fives; the cut is where the squared standard error of the mean of what remains
//! is least (White: An Effective Truncation Heuristic for Bias Reduction in Simulation Output, 1997; MSER-5: Spratt 1998).

use std::time::Instant;

use crate::outcome::Steady;
use crate::progress::{Phase, Progress, TICK};

/// Rates in an average.
const BATCH: usize = 5;

/// Most rates that are kept: an hour's. When there are more, each two become one.
const MOST: usize = 36_000;

/// Fewest averages that say anything: 5 seconds.
const FEWEST: usize = 10;

/// The rate over time.
#[derive(Default)]
pub(crate) struct Rates {
    /// Requests per second of each tick.
    rates: Vec<f64>,
    /// How many looks make a tick, once it was too long a time to keep them all.
    coarse: u32,
    last: Option<(Instant, u64)>,
}

impl Rates {
    /// Looks at a load.
    pub(crate) fn look(&mut self, progress: &Progress) {
        let now = Instant::now();
        if progress.phase != Phase::Measuring {
            return;
        }
        let Some((then, before)) = self.last else {
            self.last = Some((now, progress.requests));
            return;
        };
        let past = now - then;
        if past < TICK * (1 << self.coarse) {
            return;
        }
        self.rates.push((progress.requests - before) as f64 / past.as_secs_f64());
        self.last = Some((now, progress.requests));
        if self.rates.len() > MOST {
            self.rates = self.rates.chunks(2).map(|two| two.iter().sum::<f64>() / two.len() as f64).collect();
            self.coarse += 1;
        }
    }

    /// From when on the load was steady; `None` where it was too short to say.
    pub(crate) fn steady(&self) -> Option<Steady> {
        let means = self.rates.chunks_exact(BATCH).map(|five| five.iter().sum::<f64>() / BATCH as f64);
        let means: Vec<f64> = means.collect();
        if means.len() < FEWEST {
            return None;
        }
        let cut = mser(&means);
        let seconds = (TICK * (1 << self.coarse)).as_secs_f64() * BATCH as f64;
        let after = mean(&means[cut..]);
        Some(Steady {
            from_s: cut as f64 * seconds,
            share: cut as f64 / means.len() as f64,
            requests_per_second: after,
            change: change(&means[cut..]),
        })
    }
}

/// How many of these to cut off: at most half.
fn mser(means: &[f64]) -> usize {
    let error = |cut: usize| {
        let rest = &means[cut..];
        let mean = mean(rest);
        rest.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (rest.len() as f64).powi(2)
    };
    (0..=means.len() / 2).min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or_default()
}

/// How far the mean of the first half is from that of the second, relative to both.
fn change(values: &[f64]) -> f64 {
    let (first, second) = values.split_at(values.len() / 2);
    let both = mean(values);
    if both > 0.0 { (mean(first) - mean(second)) / both } else { 0.0 }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn steady(rates: Vec<f64>) -> Option<Steady> {
        Rates { rates, ..Rates::default() }.steady()
    }

    /// Rates with a standard deviation of 5 %, as they are on a noisy host.
    fn noisy(dice: &mut ChaCha8Rng, count: usize, level: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut noise = || (0..12).map(|_| dice.random::<f64>()).sum::<f64>() - 6.0;
        (0..count).map(|at| level(at) * (1.0 + 0.05 * noise())).collect()
    }

    #[test]
    fn a_slow_start_is_cut_off() {
        let mut dice = ChaCha8Rng::seed_from_u64(1);
        // The rate climbs for 2 seconds of 10.
        let found = steady(noisy(&mut dice, 100, |at| 1000.0 * (at as f64 / 20.0).clamp(0.1, 1.0))).unwrap();
        assert!((1.0..=3.0).contains(&found.from_s), "{found:?}");
        assert!((found.requests_per_second / 1000.0 - 1.0).abs() < 0.03, "{found:?}");
        assert!(!found.never());
    }

    #[test]
    fn a_rate_that_climbs_to_the_end_never_settles_and_a_noisy_one_does() {
        let mut dice = ChaCha8Rng::seed_from_u64(2);
        let found = steady(noisy(&mut dice, 100, |at| 500.0 + 5.0 * at as f64)).unwrap();
        assert!(found.never(), "{found:?}");
        // How often noise alone looks like that.
        let alarms = (0..1000).filter(|_| steady(noisy(&mut dice, 100, |_| 1000.0)).unwrap().never()).count();
        assert!(alarms < 20, "{alarms} of 1000");
    }

    #[test]
    fn a_short_load_says_nothing() {
        assert_eq!(steady(vec![1.0; 49]), None);
    }
}
