//! The statistics of a comparison: medians over rounds, bootstrap intervals, ratios and ties.
//!
//! A round is the unit: the requests of one run are not independent of each other, so they are never pooled
//! as if they were.

mod exact;
mod sum;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::results::Estimate;

pub(crate) use sum::ratio_of_sum;

use self::exact::choose;

/// Fewest rounds that have an interval: one tells nothing of how much they differ.
const FEWEST: usize = 2;

/// Resamples of a bootstrap of many values; that of few is counted, not drawn.
const RESAMPLES: usize = 10_000;

/// The middle value; the mean of the two middle ones of an even number. `None` without values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    median_of_scratch(&mut values.to_vec())
}

/// The median with its 95 % percentile-bootstrap interval (Efron and Tibshirani 1993, chapter 13).
///
/// The interval can reach no further than the smallest and the largest round, and up to five rounds it is
/// just their range. A range of n rounds covers the true median in 1 - 2^(1-n) of all experiments: 75 % with
/// three rounds, 94 % with five. So three rounds show whether a figure is steady, and five are needed for what
/// the interval says. One round has no interval.
pub(crate) fn estimate(values: &[f64], seed: u64) -> Option<Estimate> {
    estimate_by(RESAMPLES, values, seed)
}

fn estimate_by(resamples: usize, values: &[f64], seed: u64) -> Option<Estimate> {
    if values.len() < FEWEST {
        return alone(median(values)?);
    }
    if let Some(medians) = exact::medians(values) {
        return counted(median(values)?, medians);
    }
    let mut resample = Resample::of(values);
    interval(resamples, seed, median(values)?, |random| resample.median(random))
}

/// The ratio of the medians of two sets of rounds with its 95 % interval. Both sets are resampled, each on its
/// own: the runs of a round are minutes apart and each has a fresh server, so they are not pairs. Where either is one round
/// there is no interval.
pub(crate) fn ratio(numerator: &[f64], denominator: &[f64], seed: u64) -> Option<Estimate> {
    ratio_by(RESAMPLES, numerator, denominator, seed)
}

fn ratio_by(resamples: usize, numerator: &[f64], denominator: &[f64], seed: u64) -> Option<Estimate> {
    let middle = median(numerator)? / median(denominator)?;
    if numerator.len().min(denominator.len()) < FEWEST {
        return alone(middle);
    }
    if let (Some(above), Some(below)) = (exact::medians(numerator), exact::medians(denominator)) {
        let over = |(a, p): (f64, f64)| below.iter().map(move |(b, q)| (a / b, p * q));
        return counted(middle, above.into_iter().flat_map(over).collect());
    }
    let (mut above, mut below) = (Resample::of(numerator), Resample::of(denominator));
    interval(resamples, seed, middle, |random| Some(above.median(random)? / below.median(random)?))
}

/// Whether a ratio may as well be 1: neither side can be told from the other, by its interval or for want of one.
pub(crate) fn tied(ratio: &Estimate) -> bool {
    ratio.interval().is_none_or(|(low, high)| (low..=high).contains(&1.0))
}

/// Spread of the rounds (coefficient of variation): the standard deviation over the mean. `None` with fewer
/// than two rounds.
pub(crate) fn variation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    Some((squares / (values.len() - 1) as f64).sqrt() / mean)
}

fn median_of_scratch(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[half]),
        _ => Some((values[half - 1] + values[half]) / 2.0),
    }
}

/// Draws from a set of values with replacement, as many as there are, again and again in the same memory.
struct Resample<'a> {
    values: &'a [f64],
    drawn: Vec<f64>,
}

impl<'a> Resample<'a> {
    fn of(values: &'a [f64]) -> Self {
        Resample { values, drawn: values.to_vec() }
    }

    fn median(&mut self, random: &mut ChaCha8Rng) -> Option<f64> {
        let count = self.values.len();
        self.drawn.iter_mut().for_each(|slot| *slot = self.values[random.random_range(0..count)]);
        median_of_scratch(&mut self.drawn)
    }
}

/// The middle 95 % of what is drawn around `median`. `None` where a value is no number.
fn interval(
    resamples: usize,
    seed: u64,
    median: f64,
    mut draw: impl FnMut(&mut ChaCha8Rng) -> Option<f64>,
) -> Option<Estimate> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut drawn: Vec<f64> = (0..resamples).filter_map(|_| draw(&mut random)).collect();
    drawn.sort_unstable_by(f64::total_cmp);
    let at = |p: f64| drawn.get(((drawn.len() as f64 - 1.0) * p).round() as usize).copied();
    finite(Estimate { median, low: Some(at(0.025)?), high: Some(at(0.975)?) })
}

/// The middle 95 % of values that are known with how likely each is.
fn counted(median: f64, values: Vec<(f64, f64)>) -> Option<Estimate> {
    let (low, high) = exact::middle(values)?;
    finite(Estimate { median, low: Some(low), high: Some(high) })
}

/// A figure of which nobody knows how much it varies.
fn alone(median: f64) -> Option<Estimate> {
    finite(Estimate { median, low: None, high: None })
}

fn finite(found: Estimate) -> Option<Estimate> {
    let Estimate { median, low, high } = found;
    [Some(median), low, high].into_iter().flatten().all(f64::is_finite).then_some(found)
}

/// Most regroupings that are looked at one by one; of more than that as many are drawn.
const REGROUPINGS: usize = 5000;

/// Whether every regrouping of sets of these sizes is looked at.
fn is_exact(size: usize, other: usize) -> bool {
    size + other < 20 && choose(size + other, size) <= REGROUPINGS as f64
}

/// The smallest chance that [`permutation_p`] can give for sets of these sizes: that of one grouping out of all, and of its mirror
/// image where both sets are as large.
pub(crate) fn least_p(size: usize, other: usize) -> f64 {
    let (extreme, all) = match (size, other) {
        (0, _) | (_, 0) => (1.0, 1.0),
        (size, other) if !is_exact(size, other) => (1.0, REGROUPINGS as f64 + 1.0),
        (size, other) => (if size == other { 2.0 } else { 1.0 }, choose(size + other, size)),
    };
    extreme / all
}

/// How likely a difference of means at least as large is if both sets are alike: a permutation test, exact for small sets. Where
/// regroupings are drawn, that which was seen counts as one of them (Phipson and Smyth: Permutation P-values Should Never Be Zero,
/// 2010).
pub(crate) fn permutation_p(first: &[f64], second: &[f64], seed: u64) -> f64 {
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    let (count, size) = (all.len(), first.len());
    if size == 0 || second.is_empty() {
        return 1.0;
    }
    let total: f64 = all.iter().sum();
    let apart = |sum: f64| (sum / size as f64 - (total - sum) / (count - size) as f64).abs();
    let seen = apart(first.iter().sum()) * (1.0 - 1e-12);
    let (mut as_far, mut looked_at) = (0usize, 0usize);
    let mut look = |sum: f64| {
        looked_at += 1;
        as_far += usize::from(apart(sum) >= seen);
    };
    if is_exact(size, count - size) {
        for set in (0..1u32 << count).filter(|set| set.count_ones() as usize == size) {
            look((0..count).filter(|at| set >> at & 1 == 1).map(|at| all[at]).sum());
        }
    } else {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut shuffled = all.clone();
        for _ in 0..REGROUPINGS {
            shuffled.shuffle(&mut random);
            look(shuffled[..size].iter().sum());
        }
        look(first.iter().sum());
    }
    as_far as f64 / looked_at as f64
}

/// Which of these chances are small enough for all of them together, so that at most a share of what is called different
/// is so by chance (Benjamini and Hochberg: Controlling the False Discovery Rate, 1995).
pub(crate) fn rejected(chances: &[f64], share: f64) -> Vec<bool> {
    let mut sorted = chances.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let count = chances.len() as f64;
    let largest = (1..).zip(&sorted).filter(|(rank, p)| **p <= share * f64::from(*rank) / count).last();
    let bound = largest.map_or(-1.0, |(_, p)| *p);
    chances.iter().map(|p| *p <= bound).collect()
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
    fn up_to_five_rounds_give_their_range_and_a_seed_gives_the_same_again() {
        let range = |values: &[f64]| estimate(values, 7).map(|seen| (seen.median, seen.interval()));
        assert_eq!(range(&[10.0, 12.0]), Some((11.0, Some((10.0, 12.0)))));
        assert_eq!(range(&[10.0, 12.0, 11.0]), Some((11.0, Some((10.0, 12.0)))));
        assert_eq!(range(&[10.0, 12.0, 11.0, 13.0, 14.0]), Some((12.0, Some((10.0, 14.0)))));
        assert_eq!(estimate(&[10.0, 12.0, 11.0], 7), estimate(&[10.0, 12.0, 11.0], 7));
        assert_eq!(estimate(&[], 7), None);
    }

    #[test]
    fn one_round_has_no_interval_and_is_told_from_nothing() {
        assert_eq!(estimate(&[10.0], 7), Some(Estimate { median: 10.0, low: None, high: None }));
        for (above, below) in [(&[20.0][..], &[10.0, 11.0][..]), (&[20.0, 21.0], &[10.0]), (&[20.0], &[10.0])]
        {
            let seen = ratio(above, below, 7).unwrap();
            assert!(seen.median > 1.8 && seen.interval().is_none() && tied(&seen), "{seen:?}");
        }
        assert_eq!(estimate(&[f64::NAN], 7), None);
    }

    #[test]
    fn seven_rounds_leave_out_an_outlier() {
        // Exactly: the median of a resample is the largest of 7 with probability 0.0101, below 2.5 %.
        let seen = estimate(&[10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 99.0], 3).unwrap();
        assert_eq!((seen.median, seen.high), (13.0, Some(15.0)));
    }

    #[test]
    fn a_ratio_of_clearly_different_sets_excludes_one_and_of_alike_ones_does_not() {
        let apart = ratio(&[20.0, 21.0, 22.0], &[10.0, 10.5, 11.0], 1).unwrap();
        assert!(!tied(&apart) && (apart.median - 2.0).abs() < 1e-9, "{apart:?}");
        // Extremes of both sides together are drawn often enough to be the bounds: 20 / 11 and 22 / 10.
        let (low, high) = apart.interval().unwrap();
        assert!((low - 20.0 / 11.0).abs() < 1e-9 && (high - 2.2).abs() < 1e-9, "{apart:?}");
        assert!(tied(&ratio(&[10.0, 11.0, 12.0], &[11.0, 10.5, 11.5], 1).unwrap()));
    }

    #[test]
    fn a_ratio_to_nothing_is_no_ratio() {
        assert_eq!(ratio(&[1.0], &[0.0], 1), None);
        assert_eq!(ratio(&[1.0], &[], 1), None);
        assert_eq!(ratio(&[1.0, 1.0, 1.0], &[1.0, 1.0, 0.0], 1), None);
    }

    /// Resamples of a simulated experiment: enough for the ends of an interval over a few rounds.
    const FEWER: usize = 400;

    /// Of 500 experiments with skewed noise, like that of a busy host, how many have the truth in the interval.
    fn covered(rounds: usize, truth: f64, find: impl Fn(&[f64], u64) -> Estimate) -> usize {
        let covers = |seed: u64| {
            let mut random = ChaCha8Rng::seed_from_u64(1000 + seed);
            // Exponential noise below a ceiling; its median is 100.
            let draw = |random: &mut ChaCha8Rng| {
                100.0 + 5.0 * (std::f64::consts::LN_2 + (1.0 - random.random::<f64>()).ln())
            };
            let values: Vec<f64> = (0..2 * rounds).map(|_| draw(&mut random)).collect();
            let seen = find(&values, seed);
            let (low, high) = seen.interval().unwrap();
            (low..=high).contains(&truth)
        };
        (0..500).filter(|seed| covers(*seed)).count()
    }

    #[test]
    fn the_interval_covers_the_true_median_as_often_as_its_description_says() {
        let of = |rounds: usize| {
            covered(rounds, 100.0, |values, seed| estimate_by(FEWER, &values[..rounds], seed).unwrap()) as f64
                / 500.0
        };
        // The bounds are three standard errors of 500 draws around 75 %, 93.75 % and the 93 to 96.5 % that a
        // percentile bootstrap of 15 values comes to.
        assert!((0.692..=0.808).contains(&of(3)), "{}", of(3));
        assert!((0.905..=0.970).contains(&of(5)), "{}", of(5));
        assert!((0.900..=0.990).contains(&of(15)), "{}", of(15));
    }

    #[test]
    fn alike_sets_are_found_different_in_no_more_than_one_of_ten_experiments() {
        let alike = |rounds: usize| {
            covered(rounds, 1.0, |values, seed| {
                ratio_by(FEWER, &values[..rounds], &values[rounds..], seed).unwrap()
            })
        };
        // Exactly, three rounds are apart without overlap in 2 of 20 orders.
        assert!((425..=475).contains(&alike(3)), "{}", alike(3));
        assert!((460..=500).contains(&alike(5)), "{}", alike(5));
    }

    #[test]
    fn a_permutation_test_is_exact_for_small_sets_and_close_for_large_ones() {
        // Of 20 ways to choose 3 of 6, two are as far apart as this.
        assert_eq!(permutation_p(&[1.0, 2.0, 3.0], &[10.0, 11.0, 12.0], 1), 0.1);
        assert_eq!(permutation_p(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0], 1), 1.0);
        let (low, high): (Vec<f64>, Vec<f64>) =
            ((0..15).map(f64::from).collect(), (5..20).map(f64::from).collect());
        let p = permutation_p(&low, &high, 1);
        // By the normal approximation: 5 over 4.47 * sqrt(2 / 15) is 3.06 standard errors.
        assert!((0.0005..0.01).contains(&p), "{p}");
    }

    #[test]
    fn no_difference_is_impossible_by_chance() {
        let far = |n: u32, m: u32| {
            let (low, high): (Vec<f64>, Vec<f64>) =
                ((0..n).map(f64::from).collect(), (0..m).map(|value| 1e6 + f64::from(value)).collect());
            permutation_p(&low, &high, 1)
        };
        // Drawn: none of 5,000 of the 1.6e8 ways is as far apart as this.
        assert_eq!(far(15, 15), 1.0 / 5001.0);
        for (n, m) in [(1, 1), (1, 4), (3, 3), (2, 5), (5, 5), (7, 7), (15, 15), (30, 5)] {
            assert_eq!(far(n, m), least_p(n as usize, m as usize), "{n} and {m}");
        }
        assert_eq!(least_p(0, 5), 1.0);
    }

    #[test]
    fn many_comparisons_find_no_more_by_chance_than_was_said() {
        assert_eq!(rejected(&[0.01, 0.04, 0.03, 0.5], 0.05), [true, false, false, false]);
        assert_eq!(rejected(&[0.01, 0.02, 0.03, 0.04], 0.05), [true; 4]);
        assert_eq!(rejected(&[], 0.05), [false; 0]);
        // 1,000 experiments of 20 cells without any difference: one in ten finds something.
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let mut draw = || (0..20).map(|_| random.random::<f64>()).collect::<Vec<_>>();
        let wrong = (0..1000).filter(|_| rejected(&draw(), 0.1).contains(&true)).count();
        assert!((70..130).contains(&wrong), "{wrong}");
    }

    #[test]
    fn variation_is_relative() {
        assert_eq!(variation(&[5.0]), None);
        assert!((variation(&[9.0, 10.0, 11.0]).unwrap() - 0.1).abs() < 1e-12);
    }
}
