//! The statistics of a comparison: medians over rounds, bootstrap intervals, ratios and ties.
//!
//! A round is the unit: the requests of one run are not independent of each other, so they are never pooled
//! as if they were.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::results::Estimate;

/// Resamples of a bootstrap.
const RESAMPLES: usize = 10_000;

/// The middle value; the mean of the two middle ones of an even number. `None` without values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

/// The median with its 95 % percentile-bootstrap interval (Efron and Tibshirani 1993, chapter 13).
///
/// With the few rounds of an experiment the interval can reach no further than the smallest and the largest
/// value: of three rounds it is just their range, and covers less than 95 %.
pub(crate) fn estimate(values: &[f64], seed: u64) -> Option<Estimate> {
    let middle = median(values)?;
    let (low, high) = interval(seed, |random| median(&resample(values, random)))?;
    Some(Estimate { median: middle, low, high })
}

/// The ratio of the medians of two sets of rounds, with its 95 % interval; both are resampled.
pub(crate) fn ratio(numerator: &[f64], denominator: &[f64], seed: u64) -> Option<Estimate> {
    let of = |a: &[f64], b: &[f64]| Some(median(a)? / median(b)?).filter(|ratio| ratio.is_finite());
    let middle = of(numerator, denominator)?;
    let (low, high) =
        interval(seed, |random| of(&resample(numerator, random), &resample(denominator, random)))?;
    Some(Estimate { median: middle, low, high })
}

/// Spread of the rounds: the standard deviation over the mean. `None` with fewer than two rounds.
pub(crate) fn variation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    Some((squares / (values.len() - 1) as f64).sqrt() / mean)
}

fn resample(values: &[f64], random: &mut ChaCha8Rng) -> Vec<f64> {
    (0..values.len()).map(|_| values[random.random_range(0..values.len())]).collect()
}

fn interval(seed: u64, mut draw: impl FnMut(&mut ChaCha8Rng) -> Option<f64>) -> Option<(f64, f64)> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut drawn: Vec<f64> = (0..RESAMPLES).filter_map(|_| draw(&mut random)).collect();
    drawn.sort_by(f64::total_cmp);
    let at = |p: f64| drawn.get(((drawn.len() as f64 - 1.0) * p).round() as usize).copied();
    Some((at(0.025)?, at(0.975)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn three_rounds_give_their_range_and_a_seed_gives_the_same_again() {
        let seen = estimate(&[10.0, 12.0, 11.0], 7).unwrap();
        assert_eq!((seen.low, seen.median, seen.high), (10.0, 11.0, 12.0));
        assert_eq!(estimate(&[10.0, 12.0, 11.0], 7), Some(seen));
    }

    #[test]
    fn a_ratio_of_clearly_different_sets_excludes_one_and_of_alike_ones_does_not() {
        let apart = ratio(&[20.0, 21.0, 22.0], &[10.0, 10.5, 11.0], 1).unwrap();
        assert!(apart.low > 1.7 && apart.high < 2.3 && (apart.median - 2.0).abs() < 1e-9, "{apart:?}");
        let alike = ratio(&[10.0, 11.0, 12.0], &[11.0, 10.5, 11.5], 1).unwrap();
        assert!(alike.low < 1.0 && alike.high > 1.0, "{alike:?}");
        assert_eq!(ratio(&[1.0], &[0.0], 1), None);
    }

    #[test]
    fn the_interval_covers_the_true_median_about_as_often_as_it_says() {
        // 300 experiments of 15 rounds with uniform noise around 100. The percentile bootstrap of a median
        // covers a little differently from 95 % on small samples; this catches a wrong one, not a fine point.
        let covered = (0..300u64)
            .filter(|&seed| {
                let mut random = ChaCha8Rng::seed_from_u64(1000 + seed);
                let rounds: Vec<f64> = (0..15).map(|_| 90.0 + 20.0 * random.random::<f64>()).collect();
                let seen = estimate(&rounds, seed).unwrap();
                (seen.low..=seen.high).contains(&100.0)
            })
            .count();
        assert!((270..=300).contains(&covered), "{covered} of 300");
    }

    #[test]
    fn variation_is_relative() {
        assert_eq!(variation(&[5.0]), None);
        assert!((variation(&[9.0, 10.0, 11.0]).unwrap() - 0.1).abs() < 1e-12);
    }
}
