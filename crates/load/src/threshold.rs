//! What a load must reach: `p99<50ms,errors<0.1%,rate>1000`.

mod chance;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use self::chance::{Side, fewest, side};

use crate::outcome::Outcome;
use crate::verdict::failed_share;

/// A bound on one figure of an outcome; `errors<0%` is for none at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    text: String,
    figure: Figure,
    less: bool,
    bound: f64,
}

/// Factor by which a bound is kept clearly.
const CLEAR: f64 = 2.0;

/// What an outcome says of a threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// It is kept.
    Kept,
    /// It is missed, and why.
    Missed(String),
    /// Too few answers came to tell, in words.
    Unknown(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Mean,
    P50,
    P75,
    P90,
    P95,
    P99,
    P999,
    P9999,
    P99999,
    Max,
    /// As a share of all requests.
    Errors,
    /// Requests per second.
    Rate,
}

const FIGURES: [(&str, Figure); 12] = [
    ("mean", Figure::Mean),
    ("p50", Figure::P50),
    ("p75", Figure::P75),
    ("p90", Figure::P90),
    ("p95", Figure::P95),
    ("p99", Figure::P99),
    ("p99.9", Figure::P999),
    ("p99.99", Figure::P9999),
    ("p99.999", Figure::P99999),
    ("max", Figure::Max),
    ("errors", Figure::Errors),
    ("rate", Figure::Rate),
];

/// A threshold that is not written as it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?}: write FIGURE<BOUND or FIGURE>BOUND, such as p99<50ms, errors<0.1% or rate>1000; figures are mean, p50, p75, \
     p90, p95, p99, p99.9, p99.99, p99.999, max, errors and rate"
)]
pub struct BadThreshold(String);

impl FromStr for Threshold {
    type Err = BadThreshold;

    fn from_str(text: &str) -> Result<Self, BadThreshold> {
        let bad = || BadThreshold(text.to_owned());
        let (name, sign, bound) = text
            .find(['<', '>'])
            .map(|at| (text[..at].trim(), &text[at..=at], text[at + 1..].trim()))
            .ok_or_else(bad)?;
        let (_, figure) = FIGURES.into_iter().find(|(known, _)| *known == name).ok_or_else(bad)?;
        let bound = match figure {
            Figure::Rate => bound.parse().ok(),
            Figure::Errors => {
                bound.strip_suffix('%').and_then(|bound| bound.parse().ok()).map(|bound: f64| bound / 100.0)
            }
            _ => humantime::parse_duration(bound).ok().map(|time: Duration| time.as_secs_f64() * 1e6),
        };
        let bound = bound.filter(|bound: &f64| bound.is_finite() && *bound >= 0.0).ok_or_else(bad)?;
        Ok(Threshold { text: text.trim().into(), figure, less: sign == "<", bound })
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Threshold {
    /// The share of all answers that a percentile is exceeded by; `None` where the figure is no percentile.
    fn beyond(&self) -> Option<f64> {
        match self.figure {
            Figure::Mean | Figure::Max | Figure::Errors | Figure::Rate => None,
            Figure::P50 => Some(0.5),
            Figure::P75 => Some(0.25),
            Figure::P90 => Some(0.1),
            Figure::P95 => Some(0.05),
            Figure::P99 => Some(1e-2),
            Figure::P999 => Some(1e-3),
            Figure::P9999 => Some(1e-4),
            Figure::P99999 => Some(1e-5),
        }
    }

    /// Answers that are needed to know the figure: a percentile needs 100 beyond it.
    pub(crate) fn samples_needed(&self) -> f64 {
        self.beyond().map_or(1.0, |beyond| 100.0 / beyond)
    }

    /// Fewest answers that can show it to be kept: those of which none is late.
    pub(crate) fn samples_to_tell(&self) -> f64 {
        self.beyond().map_or(1.0, fewest)
    }

    /// Whether it bounds the share of errors.
    pub(crate) fn is_of_errors(&self) -> bool {
        self.figure == Figure::Errors
    }

    /// The longest time that an answer may take, in seconds, where that is what it bounds.
    pub(crate) fn longest_s(&self) -> Option<f64> {
        (self.figure == Figure::Max && self.less).then_some(self.bound / 1e6)
    }

    /// The figure; `None` where too few samples support it.
    fn value(&self, outcome: &Outcome) -> Option<f64> {
        let times = &outcome.response_time_us;
        let us = |us: Option<u64>| us.map(|us| us as f64);
        match self.figure {
            // Of nothing there is no mean, and nothing longest.
            Figure::Mean => (times.count > 0).then_some(times.mean),
            Figure::P50 => us(times.p50),
            Figure::P75 => us(times.p75),
            Figure::P90 => us(times.p90),
            Figure::P95 => us(times.p95),
            Figure::P99 => us(times.p99),
            Figure::P999 => us(times.p99_9),
            Figure::P9999 => us(times.p99_99),
            Figure::P99999 => us(times.p99_999),
            Figure::Max => (times.count > 0).then_some(times.max as f64),
            Figure::Errors => failed_share(outcome),
            Figure::Rate => Some(outcome.requests_per_second),
        }
    }

    /// Answers that took at least so many microseconds; `None` where the outcome does not tell.
    fn late(outcome: &Outcome, bound_us: f64) -> Option<u64> {
        let times = &outcome.response_time_us;
        if times.count > 0 && (times.max as f64) < bound_us {
            return Some(0);
        }
        let times = crate::hdr::decode(&outcome.response_time_histogram).ok()?;
        let early = times.count_between(0, bound_us as u64);
        (!times.is_empty()).then(|| times.len().saturating_sub(early))
    }

    /// Where a percentile is, seen from some bound in microseconds: by its 95 % interval by order statistics.
    fn side_of(&self, outcome: &Outcome, bound_us: f64) -> Option<Side> {
        let beyond = self.beyond()?;
        Some(side(outcome.response_time_us.count, Self::late(outcome, bound_us)?, beyond))
    }

    /// Whether an outcome keeps it by a factor of 2 at least; a percentile with what chance may have taken from it.
    pub(crate) fn is_clearly_kept_by(&self, outcome: &Outcome) -> bool {
        if !self.less {
            return self.value(outcome).is_some_and(|value| value >= self.bound * CLEAR);
        }
        match self.side_of(outcome, self.bound / CLEAR) {
            Some(side) => side == Side::Below,
            None => self.value(outcome).is_some_and(|value| value <= self.bound / CLEAR),
        }
    }

    /// What an outcome says of it. Where too few samples support a percentile it is kept or missed if its interval is on one side
    /// of the bound, and not known otherwise.
    pub(crate) fn found_in(&self, outcome: &Outcome) -> Finding {
        if let Some(value) = self.value(outcome) {
            return self.missed_with(value).map_or(Finding::Kept, Finding::Missed);
        }
        let count = outcome.response_time_us.count;
        match self.side_of(outcome, self.bound) {
            Some(Side::Below) if self.less => Finding::Kept,
            Some(Side::Above) if !self.less => Finding::Kept,
            Some(Side::Below) => Finding::Missed(format!("{self}: too few of {count} answers took longer")),
            Some(Side::Above) => Finding::Missed(format!("{self}: too many of {count} answers took longer")),
            Some(Side::Unknown) | None => {
                Finding::Unknown(format!("{self}: there are too few samples to tell ({count})"))
            }
        }
    }

    /// Why an outcome misses it; `None` if it keeps it. What too few samples support is not known, and so is missed: nobody has
    /// shown that it is kept.
    pub fn missed_by(&self, outcome: &Outcome) -> Option<String> {
        match self.found_in(outcome) {
            Finding::Kept => None,
            Finding::Missed(why) | Finding::Unknown(why) => Some(why),
        }
    }

    /// Why a value of the figure misses it; `None` if it keeps it.
    fn missed_with(&self, value: f64) -> Option<String> {
        // Less than nothing there cannot be: a bound of 0 is for none at all.
        let none = self.bound == 0.0 && value == 0.0;
        let kept = if self.less { value < self.bound || none } else { value > self.bound };
        let shown = match self.figure {
            Figure::Errors => format!("{:.3} %", value * 100.0),
            Figure::Rate => format!("{value:.1} per second"),
            _ => crate::report::duration(value),
        };
        (!kept).then(|| format!("{self}: it is {shown}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        Outcome::empty(&crate::Plan::new("http://x/"))
    }

    fn missed(text: &str) -> bool {
        let mut outcome = outcome();
        outcome.response_time_us.count = 999;
        (outcome.requests, outcome.requests_per_second) = (999, 500.0);
        outcome.errors.reset = 1;
        outcome.response_time_us.p99 = Some(40_000);
        text.parse::<Threshold>().unwrap().missed_by(&outcome).is_some()
    }

    #[test]
    fn thresholds_are_kept_or_missed() {
        for (text, expected) in [
            ("p99<50ms", false),
            ("p99<40ms", true),
            ("p99 > 30ms", false),
            ("errors<0.2%", false),
            ("errors<0.1%", true),
            ("errors<0%", true),
            ("mean<0s", false),
            ("rate>499.5", false),
            ("rate>500", true),
            // Nobody knows it.
            ("p99.9<1h", true),
            ("p99.999<1h", true),
        ] {
            assert_eq!(missed(text), expected, "{text}");
        }
        for text in ["", "p98<1ms", "p99", "p99=5ms", "p99<5", "errors<0.1", "rate>fast", "rate>-1"] {
            assert!(text.parse::<Threshold>().is_err(), "{text}");
        }
    }

    #[test]
    fn nothing_is_known_where_nothing_was_answered() {
        for text in ["mean<1s", "max<1s", "p50<1s", "p99<1s", "errors<1%"] {
            assert!(text.parse::<Threshold>().unwrap().missed_by(&outcome()).is_some(), "{text}");
        }
    }

    #[test]
    fn few_samples_tell_where_they_leave_no_doubt() {
        // So many of 1,000 answers took 60 ms, the others 10.
        let found = |late: u64, text: &str| {
            let mut times = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 3).unwrap();
            times.record_n(10_000, 1_000 - late).unwrap();
            times.record_n(60_000, late).unwrap();
            let mut outcome = outcome();
            outcome.response_time_us = crate::recorded::distribution(&times);
            outcome.response_time_histogram = crate::hdr::encode(&times);
            let threshold: Threshold = text.parse().unwrap();
            (threshold.found_in(&outcome), threshold.is_clearly_kept_by(&outcome))
        };
        assert_eq!(found(0, "p99<50ms"), (Finding::Kept, true));
        assert_eq!(found(2, "p99<50ms"), (Finding::Kept, true));
        assert!(matches!(found(10, "p99<50ms"), (Finding::Unknown(_), false)));
        assert!(matches!(found(30, "p99<50ms"), (Finding::Missed(_), false)));
        // It is kept, and not by a factor of 2.
        assert_eq!(found(1_000, "p99<100ms"), (Finding::Kept, false));
        assert!(matches!(found(0, "p99.9<50ms"), (Finding::Unknown(_), false)));
        assert_eq!(found(30, "p99>50ms").0, Finding::Kept);
        assert!(matches!(found(0, "p99>50ms").0, Finding::Missed(_)));
    }
}
