//! What a load must reach: `p99<50ms,errors<0.1%,rate>1000`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::outcome::Outcome;
use crate::verdict::{all, failed};

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
    /// Answers that are needed to know the figure: a percentile needs 100 beyond it.
    pub(crate) fn samples_needed(&self) -> f64 {
        match self.figure {
            Figure::Mean | Figure::Max | Figure::Errors | Figure::Rate => 1.0,
            Figure::P50 => 200.0,
            Figure::P75 => 400.0,
            Figure::P90 => 1e3,
            Figure::P95 => 2e3,
            Figure::P99 => 1e4,
            Figure::P999 => 1e5,
            Figure::P9999 => 1e6,
            Figure::P99999 => 1e7,
        }
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
            Figure::Mean => Some(times.mean),
            Figure::P50 => us(times.p50),
            Figure::P75 => us(times.p75),
            Figure::P90 => us(times.p90),
            Figure::P95 => us(times.p95),
            Figure::P99 => us(times.p99),
            Figure::P999 => us(times.p99_9),
            Figure::P9999 => us(times.p99_99),
            Figure::P99999 => us(times.p99_999),
            Figure::Max => Some(times.max as f64),
            Figure::Errors => (all(outcome) > 0).then(|| failed(outcome) as f64 / all(outcome) as f64),
            Figure::Rate => Some(outcome.requests_per_second),
        }
    }

    /// Whether an outcome keeps it by a factor of 2 at least; a percentile with what chance may have taken from it, as the
    /// upper end of its 95 % interval by order statistics (of n samples the ranks np +- 1.96 sqrt(np(1 - p)) hold the p-quantile).
    pub(crate) fn is_clearly_kept_by(&self, outcome: &Outcome) -> bool {
        let Some(value) = self.value(outcome) else { return false };
        if !self.less {
            return value >= self.bound * CLEAR;
        }
        let upper = self.upper_end(outcome).unwrap_or(value);
        value.max(upper) <= self.bound / CLEAR
    }

    /// The upper end of the interval of a percentile, in microseconds.
    fn upper_end(&self, outcome: &Outcome) -> Option<f64> {
        let beyond = 100.0 / self.samples_needed();
        let is_percentile = self.samples_needed() > 1.0 && !outcome.response_time_histogram.is_empty();
        let times = is_percentile.then(|| crate::hdr::decode(&outcome.response_time_histogram).ok())??;
        let part = 1.0 - beyond;
        let upper = part + 1.96 * (part * beyond / times.len().max(1) as f64).sqrt();
        Some(times.value_at_quantile(upper.min(1.0)) as f64)
    }

    /// Why an outcome misses it; `None` if it keeps it. A percentile that too few samples support is not known, and so is
    /// missed: nobody has shown that it is kept.
    pub fn missed_by(&self, outcome: &Outcome) -> Option<String> {
        let value = self.value(outcome);
        let Some(value) = value else { return Some(format!("{self}: there are too few samples to tell")) };
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

    fn missed(text: &str) -> bool {
        let mut outcome = Outcome::empty(&crate::Plan::new("http://x/"));
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
}
