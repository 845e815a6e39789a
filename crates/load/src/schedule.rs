//! When requests are due in an open loop: a rate that changes over time, turned into moments; the same ones for the same
//! seed.
//!
//! The number of requests due by a time is the integral of the rate. A request is due where that reaches its number (for
//! constant spacing), or the sum of as many exponential draws (for a Poisson process whose rate changes over time:
//! Çinlar, Introduction to Stochastic Processes, 1975, 4.7).

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::plan::{LONGEST_S, Rate, Spacing};

/// A stretch of time in which the rate changes evenly, in requests per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Segment {
    seconds: f64,
    from: f64,
    to: f64,
}

impl Segment {
    fn steady(rate: f64, seconds: f64) -> Self {
        Segment { seconds, from: rate, to: rate }
    }

    /// Requests that are due in it.
    fn requests(&self) -> f64 {
        if self.from == self.to && self.from == 0.0 {
            0.0
        } else {
            self.seconds * (self.from + self.to) / 2.0
        }
    }

    /// The time into it by which so many are due.
    fn time_of(&self, requests: f64) -> f64 {
        let slope = (self.to - self.from) / self.seconds;
        if slope.abs() < f64::EPSILON {
            return requests / self.from;
        }
        // from t + slope t^2 / 2 = requests, in the form that does not cancel.
        if requests == 0.0 {
            return 0.0;
        }
        let root = (self.from * self.from + 2.0 * slope * requests).max(0.0).sqrt();
        (2.0 * requests / (self.from + root)).min(self.seconds)
    }
}

/// The moments at which the requests of one thread are due, from the start of the load.
pub(crate) struct Schedule {
    segments: Box<dyn Iterator<Item = Segment> + Send>,
    segment: Segment,
    /// When the segment began, and how many of the thread's requests of it are given out.
    began: f64,
    given: f64,
    /// The thread's part of the rate.
    part: f64,
    spacing: Gaps,
}

/// What lies between a request and the next, in requests.
enum Gaps {
    /// The first gap, and then 1.
    Constant(f64),
    Poisson(Box<ChaCha8Rng>),
}

impl Schedule {
    /// The requests of the `index`-th of `threads` threads.
    pub(crate) fn new(rate: &Rate, spacing: Spacing, seed: u64, index: u32, threads: u32) -> Self {
        let spacing = match spacing {
            // The threads take turns.
            Spacing::Constant => Gaps::Constant(f64::from(index) / f64::from(threads)),
            Spacing::Poisson => {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                // Stream 0 is for the states of the rate, which all threads share.
                rng.set_stream(u64::from(index) + 1);
                Gaps::Poisson(Box::new(rng))
            }
        };
        let mut segments = segments(rate, seed);
        let segment = segments.next().unwrap_or(Segment::steady(0.0, f64::INFINITY));
        Schedule { segments, segment, began: 0.0, given: 0.0, part: 1.0 / f64::from(threads), spacing }
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let mut gap = match &mut self.spacing {
            Gaps::Constant(gap) => std::mem::replace(gap, 1.0),
            Gaps::Poisson(rng) => exponential(rng),
        };
        loop {
            let left = self.segment.requests() * self.part - self.given;
            if gap < left {
                self.given += gap;
                return Duration::try_from_secs_f64(
                    self.began + self.segment.time_of(self.given / self.part),
                )
                .ok();
            }
            gap -= left;
            self.began += self.segment.seconds;
            self.given = 0.0;
            // Bursts of next to nothing may have no request for ages; no load takes that long.
            if self.began > LONGEST_S {
                return None;
            }
            self.segment = self.segments.next()?;
        }
    }
}

/// A draw from the exponential distribution with mean 1.
fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    -(1.0 - rng.random::<f64>()).ln()
}

/// A rate as stretches of time.
fn segments(rate: &Rate, seed: u64) -> Box<dyn Iterator<Item = Segment> + Send> {
    match rate.clone() {
        Rate::Steady { rate } => Box::new(std::iter::once(Segment::steady(rate, f64::INFINITY))),
        Rate::Ramp { from, to, seconds } => {
            Box::new([Segment { seconds, from, to }, Segment::steady(to, f64::INFINITY)].into_iter())
        }
        Rate::Steps { rates, each_s } => {
            let last = rates.last().copied().unwrap_or_default();
            let steps = rates.into_iter().map(move |rate| Segment::steady(rate, each_s));
            Box::new(steps.chain([Segment::steady(last, f64::INFINITY)]))
        }
        Rate::OnOff { rate, on_s, off_s } => {
            Box::new([Segment::steady(rate, on_s), Segment::steady(0.0, off_s)].into_iter().cycle())
        }
        Rate::TwoState { low, high, low_s, high_s } => {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let states = [(low, low_s), (high, high_s)].into_iter().cycle();
            Box::new(states.map(move |(rate, mean_s)| Segment::steady(rate, mean_s * exponential(&mut rng))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(rate: Rate, spacing: Spacing, index: u32, threads: u32, until: f64) -> Vec<f64> {
        let times = Schedule::new(&rate, spacing, 7, index, threads).map(|at| at.as_secs_f64());
        times.take_while(|at| *at < until).collect()
    }

    #[test]
    fn threads_take_turns_at_a_constant_rate() {
        let steady = Rate::Steady { rate: 1000.0 };
        let mut all: Vec<f64> =
            (0..3).flat_map(|index| times(steady.clone(), Spacing::Constant, index, 3, 1.0)).collect();
        all.sort_by(f64::total_cmp);
        assert_eq!(all.len(), 1000);
        assert!(all.iter().enumerate().all(|(at, time)| (time - at as f64 / 1000.0).abs() < 1e-6));
    }

    #[test]
    fn a_poisson_process_has_the_rate_and_the_spread_of_one() {
        let times = times(Rate::Steady { rate: 10_000.0 }, Spacing::Poisson, 0, 1, 10.0);
        assert!((times.len() as f64 - 100_000.0).abs() < 5.0 * 100_000f64.sqrt(), "{}", times.len());
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // The coefficient of variation of an exponential distribution is 1.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02);
    }

    #[test]
    fn the_same_seed_is_the_same_load() {
        let rate = Rate::TwoState { low: 100.0, high: 5000.0, low_s: 0.5, high_s: 0.1 };
        let load = || times(rate.clone(), Spacing::Poisson, 1, 2, 20.0);
        assert!(load() == load() && load().len() > 100);
    }

    #[test]
    fn rates_change_as_they_should() {
        let count = |rate: Rate, from: f64, until: f64| {
            times(rate, Spacing::Constant, 0, 1, until).iter().filter(|at| **at >= from).count()
        };
        let ramp = Rate::Ramp { from: 0.0, to: 1000.0, seconds: 10.0 };
        for (from, until, expected) in [(0.0, 5.0, 1250), (5.0, 10.0, 3750), (10.0, 11.0, 1000)] {
            assert!(count(ramp.clone(), from, until).abs_diff(expected) <= 1, "{from} to {until}");
        }
        let steps = Rate::Steps { rates: vec![100.0, 0.0, 300.0], each_s: 2.0 };
        for (from, until, expected) in [(0.0, 2.0, 200), (2.0, 4.0, 0), (4.0, 6.0, 600), (6.0, 8.0, 600)] {
            assert!(count(steps.clone(), from, until).abs_diff(expected) <= 1, "{from} to {until}");
        }
        let bursts = Rate::OnOff { rate: 1000.0, on_s: 0.5, off_s: 1.5 };
        for (from, until, expected) in [(0.0, 0.5, 500), (0.5, 2.0, 0), (2.0, 2.5, 500)] {
            assert!(count(bursts.clone(), from, until).abs_diff(expected) <= 1, "{from} to {until}");
        }
    }

    #[test]
    fn a_rate_of_next_to_nothing_ends_and_does_not_hang() {
        let bursts = Rate::OnOff { rate: 1e-300, on_s: 60.0, off_s: 60.0 };
        assert_eq!(Schedule::new(&bursts, Spacing::Constant, 1, 1, 2).next(), None);
    }
}
