//! Where a curve bends, and how sure that is.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::stats::median;

/// Resamples behind an interval.
const RESAMPLES: usize = 200;

/// A knee, over all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bend {
    /// The load from which more of it brings less than in proportion.
    pub at: f64,
    /// The 95 % interval of that; `None` where a level has one round.
    pub interval: Option<(f64, f64)>,
    /// Share of the resamples that bend anywhere, 0 to 1; 1 where there are none.
    pub share: f64,
}

/// The knee of the medians of rounds at each level, in ascending order, with its percentile-bootstrap interval: the rounds of
/// each level are drawn anew, and the knee of their medians is looked for again. `None` where the medians do not bend.
pub fn bend(levels: &[(f64, Vec<f64>)], seed: u64) -> Option<Bend> {
    let medians: Vec<(f64, f64)> =
        levels.iter().filter_map(|(level, rounds)| Some((*level, median(rounds)?))).collect();
    let at = knee(&medians)?;
    if levels.iter().any(|(_, rounds)| rounds.len() < 2) {
        return Some(Bend { at, interval: None, share: 1.0 });
    }
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let mut drawn = |(level, rounds): &(f64, Vec<f64>)| {
        let again: Vec<f64> = rounds.iter().map(|_| rounds[dice.random_range(0..rounds.len())]).collect();
        Some((*level, median(&again)?))
    };
    let mut resample = || knee(&levels.iter().filter_map(&mut drawn).collect::<Vec<_>>());
    let mut knees: Vec<f64> = (0..RESAMPLES).filter_map(|_| resample()).collect();
    knees.sort_by(f64::total_cmp);
    let end = |p: f64| knees.get(((knees.len() as f64 - 1.0) * p).round() as usize).copied();
    Some(Bend { at, interval: end(0.025).zip(end(0.975)), share: knees.len() as f64 / RESAMPLES as f64 })
}

/// The knee of a curve that rises and bends (Satopaa, Albrecht, Irwin, Raghavan: Finding a "Kneedle" in a Haystack, 2011):
/// the load from which more of it brings less than in proportion. `None` where it never bends.
pub fn knee(points: &[(f64, f64)]) -> Option<f64> {
    const SENSITIVITY: f64 = 1.0;
    let (first, last) = (points.first()?, points.last()?);
    let most = points.iter().map(|(_, x)| *x).fold(f64::MIN, f64::max);
    let least = points.iter().map(|(_, x)| *x).fold(f64::MAX, f64::min);
    // What changes by less than a fifth is flat, and has no knee but that of its noise.
    if points.len() < 3 || last.0 <= first.0 || most - least < 0.2 * most {
        return None;
    }
    let scaled: Vec<(f64, f64)> = points
        .iter()
        .map(|(n, x)| ((n - first.0) / (last.0 - first.0), (x - least) / (most - least)))
        .collect();
    let above: Vec<f64> = scaled.iter().map(|(n, x)| x - n).collect();
    let step = scaled.windows(2).map(|pair| pair[1].0 - pair[0].0).sum::<f64>() / (scaled.len() - 1) as f64;
    let (at, highest) = above.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    // A straight line is above itself by nothing.
    let threshold = highest - SENSITIVITY * step;
    let falls = above[at..].iter().any(|distance| *distance < threshold);
    (highest > 0.05 && falls).then(|| points[at].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_where_a_curve_bends() {
        // Rises to 1000 at a load of 20, and is flat from there on.
        let bent: Vec<(f64, f64)> = (1..=50).map(|n| (f64::from(n), f64::from(n.min(20)) * 50.0)).collect();
        assert_eq!(knee(&bent), Some(20.0));
        let straight: Vec<(f64, f64)> = (1..=50).map(|n| (f64::from(n), f64::from(n) * 50.0)).collect();
        assert_eq!(knee(&straight), None);
        let flat: Vec<(f64, f64)> =
            (1..=50).map(|n| (f64::from(n), 1000.0 + f64::from(n % 7) * 10.0)).collect();
        assert_eq!((knee(&flat), knee(&[])), (None, None));
    }

    /// Rates that rise to 1000 at a load of 20 and stay, with noise, over some rounds.
    fn levels(noise: f64, rounds: u32, seed: u64) -> Vec<(f64, Vec<f64>)> {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        let mut noisy = |rate: f64| rate * (1.0 + noise * (2.0 * dice.random::<f64>() - 1.0));
        let level = |n: i32| f64::from(n) * 2.0;
        (1..=20)
            .map(|n| (level(n), (0..rounds).map(|_| noisy(level(n).min(20.0) * 50.0)).collect()))
            .collect()
    }

    #[test]
    fn the_interval_of_a_knee_has_the_true_one_and_is_wider_with_more_noise() {
        let found = |noise: f64| -> Vec<(f64, f64)> {
            (0..30).filter_map(|seed| bend(&levels(noise, 5, seed), seed)?.interval).collect()
        };
        let width =
            |ends: &[(f64, f64)]| ends.iter().map(|(low, high)| high - low).sum::<f64>() / ends.len() as f64;
        let (calm, noisy) = (found(0.03), found(0.2));
        let held = calm.iter().filter(|(low, high)| (*low..=*high).contains(&20.0)).count();
        assert!(calm.len() == 30 && held >= 27, "{held} of {}", calm.len());
        assert!(width(&noisy) > 2.0 * width(&calm) + 1.0, "{} and {}", width(&noisy), width(&calm));
    }

    #[test]
    fn one_round_has_a_knee_without_an_interval() {
        assert_eq!(bend(&levels(0.0, 1, 1), 1), Some(Bend { at: 20.0, interval: None, share: 1.0 }));
        let sure = Bend { at: 20.0, interval: Some((20.0, 20.0)), share: 1.0 };
        assert_eq!(bend(&levels(0.0, 3, 1), 1), Some(sure));
    }

    #[test]
    fn a_bend_that_only_some_rounds_have_says_so() {
        // In one of three rounds the rate keeps rising in proportion.
        let rounds = |n: f64| vec![n.min(20.0) * 50.0, n.min(20.0) * 50.0, n * 50.0];
        let unsure =
            bend(&(1..=20).map(|n| (f64::from(n) * 2.0, rounds(f64::from(n) * 2.0))).collect::<Vec<_>>(), 1);
        assert!(
            unsure.is_some_and(|bend| bend.share < 1.0 || bend.interval != Some((20.0, 20.0))),
            "{unsure:?}"
        );
        let none: Vec<(f64, Vec<f64>)> = (1..=20).map(|n| (f64::from(n), vec![1000.0, 1001.0])).collect();
        assert_eq!(bend(&none, 1), None);
    }
}
