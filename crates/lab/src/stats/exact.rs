//! The bootstrap of a median without drawing: how likely each value is to be the median of a resample, by counting.

/// Most values for which this is less work than drawing.
const MOST: usize = 12;

/// A value, and how likely it is.
pub(super) type Likely = (f64, f64);

/// The medians of all resamples of these values with the share of resamples that have each, as 10,000 resamples come near to
/// and infinitely many come to. `None` for more values than it is worth it.
pub(super) fn medians(values: &[f64]) -> Option<Vec<Likely>> {
    let count = values.len();
    if count == 0 || count > MOST {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let share = |index: usize| index as f64 / count as f64;
    let half = count / 2;
    // The k-th smallest of a resample is at most the i-th value where k draws or more are.
    let kth_is = |k: usize, i: usize| at_least(k, count, share(i)) - at_least(k, count, share(i - 1));
    if count % 2 == 1 {
        return Some((1..=count).map(|i| (sorted[i - 1], kth_is(half + 1, i))).collect());
    }
    // Of an even number it is the mean of two: one half is drawn up to the i-th value and has it, the other from the j-th on.
    let power = half as i32;
    let apart = |i: usize, j: usize| {
        let lower = share(i).powi(power) - share(i - 1).powi(power);
        let upper = share(count - j + 1).powi(power) - share(count - j).powi(power);
        choose(count, half) * lower * upper
    };
    let mut found = Vec::new();
    for i in 1..=count {
        let mut same = kth_is(half, i);
        for j in i + 1..=count {
            same -= apart(i, j);
            found.push(((sorted[i - 1] + sorted[j - 1]) / 2.0, apart(i, j)));
        }
        found.push((sorted[i - 1], same));
    }
    Some(found)
}

/// The ends of the middle 95 % of values, none of which is left out. `None` without values.
pub(super) fn middle(mut values: Vec<Likely>) -> Option<(f64, f64)> {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    // A hair of slack for sums that are not quite what they should be.
    let below = |share: f64| {
        let mut sum = 0.0;
        let reached = values.iter().find(|(_, likely)| {
            sum += likely;
            sum >= share - 1e-9
        });
        reached.map(|(value, _)| *value)
    };
    Some((below(0.025)?, below(0.975)?))
}

/// How likely so many of a number of draws hit, where each does with a chance.
fn at_least(hits: usize, draws: usize, chance: f64) -> f64 {
    let exactly =
        |n: usize| choose(draws, n) * chance.powi(n as i32) * (1.0 - chance).powi((draws - n) as i32);
    (hits..=draws).map(exactly).sum()
}

/// In how many ways some of several can be chosen.
pub(crate) fn choose(of: usize, some: usize) -> f64 {
    // Multiplied before it is divided, every step is a whole number.
    (1..=some).fold(1.0, |ways, k| ways * (of - some + k) as f64 / k as f64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The medians of all resamples, made one by one.
    fn by_enumeration(values: &[f64]) -> BTreeMap<u64, f64> {
        let count = values.len();
        let all = count.pow(count as u32);
        let mut found = BTreeMap::new();
        for mut number in 0..all {
            let mut drawn: Vec<f64> = Vec::new();
            for _ in 0..count {
                drawn.push(values[number % count]);
                number /= count;
            }
            let median = super::super::median(&drawn).unwrap();
            *found.entry(median.to_bits()).or_default() += 1.0 / all as f64;
        }
        found
    }

    #[test]
    fn counting_comes_to_the_same_as_making_every_resample() {
        for values in
            [&[3.0][..], &[1.0, 2.0], &[1.0, 5.0, 2.0], &[1.0, 2.0, 4.0, 8.0], &[1.0, 2.0, 4.0, 8.0, 16.0]]
        {
            let mut counted = BTreeMap::<u64, f64>::new();
            for (value, likely) in medians(values).unwrap() {
                *counted.entry(value.to_bits()).or_default() += likely;
            }
            for (median, share) in by_enumeration(values) {
                let ours = counted[&median];
                assert!((ours - share).abs() < 1e-12, "{values:?}: {ours} and {share}");
            }
            assert!((counted.values().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn the_middle_leaves_out_a_fortieth_at_each_end() {
        let even: Vec<Likely> = (1..=100).map(|value| (f64::from(value), 0.01)).collect();
        assert_eq!(middle(even), Some((3.0, 98.0)));
        assert_eq!(middle(Vec::new()), None);
        assert_eq!(medians(&[1.0; MOST + 1]), None);
    }
}
