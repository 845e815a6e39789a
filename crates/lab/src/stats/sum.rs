//! The ratio of two medians together to a third.

use super::{FEWEST, RESAMPLES, Resample, alone, counted, exact, interval, median};
use crate::results::Estimate;

/// The sum of the medians of two sets of rounds over the median of a third with its 95 % interval: all three are resampled, each
/// on its own, as for a ratio of two. Where one of them is one round there is no interval.
pub(crate) fn ratio_of_sum(
    first: &[f64],
    second: &[f64],
    denominator: &[f64],
    seed: u64,
) -> Option<Estimate> {
    let middle = (median(first)? + median(second)?) / median(denominator)?;
    let sets = [first, second, denominator];
    if sets.iter().any(|set| set.len() < FEWEST) {
        return alone(middle);
    }
    if let [Some(first), Some(second), Some(below)] = sets.map(exact::medians) {
        let mut found = Vec::with_capacity(first.len() * second.len() * below.len());
        for (a, p) in &first {
            for (b, q) in &second {
                found.extend(below.iter().map(|(c, r)| ((a + b) / c, p * q * r)));
            }
        }
        return counted(middle, found);
    }
    let [mut first, mut second, mut below] = sets.map(Resample::of);
    interval(RESAMPLES, seed, middle, |random| {
        Some((first.median(random)? + second.median(random)?) / below.median(random)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_over_a_third_is_as_uncertain_as_all_three() {
        let (first, second, below) = ([8.0, 9.0, 10.0], [1.0, 1.0, 2.0], [2.0, 2.0, 4.0]);
        let seen = ratio_of_sum(&first, &second, &below, 1).unwrap();
        assert_eq!((seen.median, seen.interval()), (5.0, Some((2.25, 6.0))));
        assert_eq!(ratio_of_sum(&first, &[1.0], &below, 1).unwrap().interval(), None);
        assert_eq!(ratio_of_sum(&first, &second, &[], 1), None);
        // Drawn, not counted: by seven of 20 values of 10 and 12 each the median of a resample is one of these two.
        let many: Vec<f64> = (0..20).map(|at| if at < 7 { 12.0 } else { 10.0 }).collect();
        let seen = ratio_of_sum(&many, &many, &[10.0, 10.0, 10.0], 1).unwrap();
        assert_eq!(seen.median, 2.0);
        assert!(seen.interval().is_some_and(|(low, high)| low == 2.0 && high <= 2.4), "{seen:?}");
    }
}
