//! What few samples say of a percentile: whether those beyond a bound are more or fewer than chance explains.

/// Probability up to which chance is no explanation: either side of an interval of 95 %.
const CHANCE: f64 = 0.025;

/// Standard deviations of a normal distribution with as much beyond them.
const DEVIATIONS: f64 = 1.96;

/// Expected samples beyond a percentile from which on their number is as good as normal.
const MANY: f64 = 100.0;

/// Where a percentile is, seen from a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Below,
    Above,
    /// Chance alone may have put the samples where they are.
    Unknown,
}

/// The side of a bound on which a percentile is that the share `beyond` of all answers exceeds, where `late` of `count`
/// samples exceed the bound. Were it at the bound, their number would be binomial: this is the interval by order statistics
/// (David and Nagaraja, Order Statistics, 2003, 7.1), seen from the bound.
pub(super) fn side(count: u64, late: u64, beyond: f64) -> Side {
    let mean = count as f64 * beyond;
    if mean >= MANY {
        let off = (late as f64 - mean) / (mean * (1.0 - beyond)).sqrt();
        return if off.abs() < DEVIATIONS {
            Side::Unknown
        } else if off < 0.0 {
            Side::Below
        } else {
            Side::Above
        };
    }
    if at_most(count, late, beyond) <= CHANCE {
        Side::Below
    } else if late > 0 && 1.0 - at_most(count, late - 1, beyond) <= CHANCE {
        Side::Above
    } else {
        Side::Unknown
    }
}

/// Fewest samples that can show a percentile to be below a bound: none of them is beyond it.
pub(super) fn fewest(beyond: f64) -> f64 {
    (CHANCE.ln() / (1.0 - beyond).ln()).ceil()
}

/// The probability that at most `most` of `count` samples are beyond what a share `beyond` is.
fn at_most(count: u64, most: u64, beyond: f64) -> f64 {
    let mut exactly = (1.0 - beyond).powf(count as f64);
    let mut sum = exactly;
    for k in 0..most.min(count) {
        exactly *= (count - k) as f64 / (k + 1) as f64 * beyond / (1.0 - beyond);
        sum += exactly;
        // The rest of the sum is too little to be seen in it.
        if exactly < sum * f64::EPSILON {
            break;
        }
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_known_from_as_few_samples_as_chance_allows() {
        // 0.99 to the power of 367 is 0.0250 and a bit.
        assert_eq!(fewest(0.01), 368.0);
        assert_eq!((side(367, 0, 0.01), side(368, 0, 0.01)), (Side::Unknown, Side::Below));
        assert_eq!((side(0, 0, 0.01), side(1, 1, 0.01)), (Side::Unknown, Side::Above));
        // Of 1,000 about 10 are beyond: 3 are too few for chance, and 18 too many.
        for (late, expected) in [
            (3, Side::Below),
            (6, Side::Unknown),
            (10, Side::Unknown),
            (15, Side::Unknown),
            (18, Side::Above),
        ] {
            assert_eq!(side(1_000, late, 0.01), expected, "{late} of 1,000");
        }
        // From 100 expected on it is about 1.96 standard deviations of 9.95.
        for (late, expected) in
            [(80, Side::Below), (81, Side::Unknown), (119, Side::Unknown), (120, Side::Above)]
        {
            assert_eq!(side(10_000, late, 0.01), expected, "{late} of 10,000");
        }
        assert_eq!((side(9_999, 9_999, 0.01), side(9_999, 70, 0.01)), (Side::Above, Side::Below));
    }
}
