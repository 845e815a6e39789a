//! What was recorded: by one thread, by one process, or by all of a load, which add up exactly.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::hdr;
use crate::outcome::{Distribution, Errors};

/// Longest time that a histogram tells apart, in microseconds: an hour. Longer ones count as that.
const LONGEST_US: u64 = 3_600_000_000;

/// Decimal digits of the histogram of the whole run.
const DIGITS: u8 = 3;

/// Decimal digits of the histogram of one second, of which only two percentiles are read.
const DIGITS_OF_SECOND: u8 = 2;

/// Samples that must lie beyond a percentile for it to be reported.
const BEYOND: f64 = 100.0;

/// What was recorded while measuring.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Recorded {
    pub(crate) histograms: Histograms,
    pub(crate) requests: u64,
    pub(crate) drained: u64,
    /// Connections that the server had ended while they lay idle.
    #[serde(default)]
    pub(crate) reconnects: u64,
    /// Responses that came while measuring, to requests that were due before.
    #[serde(default)]
    pub(crate) carried_over: u64,
    /// Times of `response` that are only known to be at least that.
    pub(crate) censored: u64,
    /// Requests that were due and never sent.
    pub(crate) unsent: u64,
    /// Requests of an open loop that were due in the second half of the measuring, and those that ended in it.
    #[serde(default)]
    pub(crate) due_late: u64,
    #[serde(default)]
    pub(crate) ended_late: u64,
    pub(crate) bytes: u64,
    #[serde(default)]
    pub(crate) content: u64,
    pub(crate) statuses: Statuses,
    /// Those of answers that are errors since another status was expected.
    pub(crate) unexpected: Statuses,
    pub(crate) errors: Errors,
    /// From the beginning of measuring to the last request that ended in it, well or not, or to when the load was cut off.
    pub(crate) last: Duration,
}

impl Recorded {
    /// Adds what another thread or process recorded.
    pub(crate) fn add(&mut self, other: &Recorded) {
        self.histograms.add(&other.histograms);
        self.requests += other.requests;
        self.drained += other.drained;
        self.reconnects += other.reconnects;
        self.carried_over += other.carried_over;
        self.censored += other.censored;
        self.unsent += other.unsent;
        self.due_late += other.due_late;
        self.ended_late += other.ended_late;
        self.bytes += other.bytes;
        self.content += other.content;
        self.statuses.add(&other.statuses);
        self.unexpected.add(&other.unexpected);
        self.errors.add(&other.errors);
        self.last = self.last.max(other.last);
    }
}

/// Times in microseconds: a histogram, and the longest as it was.
#[derive(Clone)]
pub(crate) struct Counted {
    histogram: Histogram<u64>,
    longest: u64,
}

impl Counted {
    pub(crate) fn saturating_record(&mut self, us: u64) {
        self.histogram.saturating_record(us);
        self.longest = self.longest.max(us);
    }

    /// Adds others: bucket by bucket, exactly.
    fn add(&mut self, other: &Counted) {
        self.histogram.add(&other.histogram).expect("all histograms have the same bounds");
        self.longest = self.longest.max(other.longest);
    }

    /// The distribution, with the longest as it was.
    pub(crate) fn distribution(&self) -> Distribution {
        let mut times = Distribution { max: self.longest, ..distribution(&self.histogram) };
        // A histogram tells the upper end of a bucket, which may be above the longest in it.
        times.percentiles_mut().into_iter().flatten().for_each(|us| *us = self.longest.min(*us));
        times
    }
}

impl Deref for Counted {
    type Target = Histogram<u64>;

    fn deref(&self) -> &Histogram<u64> {
        &self.histogram
    }
}

/// Histograms of times, in microseconds.
#[derive(Clone, Serialize, Deserialize)]
#[serde(into = "[(String, u64); 8]", try_from = "[(String, u64); 8]")]
pub(crate) struct Histograms {
    /// From when a request was due to the end of its answer.
    pub(crate) response: Counted,
    /// From when it was sent to the end of its answer, or to its time-out; only in an open loop, where that is another thing.
    pub(crate) service: Counted,
    /// From when it was due to when it was sent; only in an open loop.
    pub(crate) lag: Counted,
    pub(crate) connect: Counted,
    pub(crate) first_byte: Counted,
    /// From the first byte of the answer to the last.
    pub(crate) transfer: Counted,
    /// From when a request that came to nothing was due to when that was known.
    pub(crate) failed: Counted,
    /// What of `response` is in no second: of answers that came after the end, or not at all.
    pub(crate) late: Counted,
}

impl Histograms {
    /// All of them, in the order of the fields.
    fn all(&self) -> [&Counted; 8] {
        let Histograms { response, service, lag, connect, first_byte, transfer, failed, late } = self;
        [response, service, lag, connect, first_byte, transfer, failed, late]
    }

    fn add(&mut self, other: &Histograms) {
        self.all_mut().into_iter().zip(other.all()).for_each(|(sum, part)| sum.add(part));
    }

    fn all_mut(&mut self) -> [&mut Counted; 8] {
        let Histograms { response, service, lag, connect, first_byte, transfer, failed, late } = self;
        [response, service, lag, connect, first_byte, transfer, failed, late]
    }
}

impl Default for Histograms {
    fn default() -> Self {
        Histograms::from([(); 8].map(|()| Counted { histogram: histogram(DIGITS), longest: 0 }))
    }
}

impl From<Histograms> for [(String, u64); 8] {
    fn from(histograms: Histograms) -> Self {
        histograms.all().map(|times| (hdr::encode(times), times.longest))
    }
}

impl TryFrom<[(String, u64); 8]> for Histograms {
    type Error = hdr::BadLog;

    fn try_from(texts: [(String, u64); 8]) -> Result<Self, hdr::BadLog> {
        let mut sum = Histograms::default();
        for (sum, (text, longest)) in sum.all_mut().into_iter().zip(&texts) {
            sum.histogram.add(hdr::decode(text)?).map_err(|error| hdr::BadLog(error.to_string()))?;
            sum.longest = *longest;
        }
        Ok(sum)
    }
}

impl From<[Counted; 8]> for Histograms {
    fn from(all: [Counted; 8]) -> Self {
        let [response, service, lag, connect, first_byte, transfer, failed, late] = all;
        Histograms { response, service, lag, connect, first_byte, transfer, failed, late }
    }
}

/// How often each status code came.
#[derive(Clone, Serialize, Deserialize)]
#[serde(into = "BTreeMap<u16, u64>", from = "BTreeMap<u16, u64>")]
pub(crate) struct Statuses(Box<[u64; 1000]>);

impl Statuses {
    /// Counts answers with a status.
    pub(crate) fn count(&mut self, code: u16, count: u64) {
        if let Some(sum) = self.0.get_mut(usize::from(code)) {
            *sum += count;
        }
    }

    fn add(&mut self, other: &Statuses) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(sum, part)| *sum += part);
    }
}

impl Default for Statuses {
    fn default() -> Self {
        Statuses(Box::new([0; 1000]))
    }
}

impl From<Statuses> for BTreeMap<u16, u64> {
    fn from(statuses: Statuses) -> Self {
        (0..).zip(*statuses.0).filter(|(_, count)| *count > 0).collect()
    }
}

impl From<BTreeMap<u16, u64>> for Statuses {
    fn from(counts: BTreeMap<u16, u64>) -> Self {
        let mut statuses = Statuses::default();
        counts.into_iter().for_each(|(code, count)| statuses.count(code, count));
        statuses
    }
}

/// One thread's part of one second, for the timeline.
pub(crate) struct SecondPart {
    pub(crate) index: u64,
    pub(crate) times: Histogram<u64>,
    pub(crate) errors: u64,
}

impl SecondPart {
    /// A second in which nothing has ended yet.
    pub(crate) fn new(index: u64) -> Self {
        SecondPart { index, times: histogram(DIGITS_OF_SECOND), errors: 0 }
    }
}

fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_US, digits)
        .expect("the bounds are constants that hdrhistogram accepts")
}

/// Reads a distribution from a histogram.
pub(crate) fn distribution(times: &Histogram<u64>) -> Distribution {
    let count = times.len();
    let percentile = |p: f64| {
        let beyond = count as f64 * (1.0 - p / 100.0);
        // A hair of slack, since 1 - 0.99 is not quite 0.01.
        (beyond >= BEYOND - 1e-6).then(|| times.value_at_quantile(p / 100.0))
    };
    if count == 0 {
        return Distribution::default();
    }
    Distribution {
        count,
        min: times.min(),
        mean: times.mean(),
        stddev: times.stdev(),
        max: times.max(),
        p50: percentile(50.0),
        p75: percentile(75.0),
        p90: percentile(90.0),
        p95: percentile(95.0),
        p99: percentile(99.0),
        p99_9: percentile(99.9),
        p99_99: percentile(99.99),
        p99_999: percentile(99.999),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_a_hundred_samples_beyond_it() {
        let mut times = histogram(DIGITS);
        (1..=10_000).for_each(|us| times.record(us).unwrap());
        let seen = distribution(&times);
        assert_eq!((seen.p99.map(|us| us.abs_diff(9_900) <= 10), seen.p99_9), (Some(true), None));
        assert_eq!((seen.count, seen.min), (10_000, 1));
    }

    #[test]
    fn no_percentile_is_above_the_longest() {
        let mut times = Counted { histogram: histogram(DIGITS), longest: 0 };
        // Three digits make 14.999 s of it.
        (0..1_000).for_each(|_| times.saturating_record(14_995_001));
        let seen = times.distribution();
        assert_eq!((seen.p50, seen.p90, seen.p99), (Some(14_995_001), Some(14_995_001), None));
    }

    #[test]
    fn what_another_process_recorded_arrives_whole() {
        let mut recorded = Recorded { requests: 3, last: Duration::from_millis(1500), ..Recorded::default() };
        recorded.histograms.response.saturating_record(14_995_001);
        recorded.histograms.failed.saturating_record(7);
        recorded.statuses.count(404, 2);
        let text = serde_json::to_string(&recorded).unwrap();
        let mut sum: Recorded = serde_json::from_str(&text).unwrap();
        sum.add(&recorded);
        assert_eq!((sum.requests, sum.last), (6, recorded.last));
        assert_eq!((sum.histograms.response.len(), sum.histograms.failed.max()), (2, 7));
        assert_eq!(BTreeMap::from(sum.statuses), BTreeMap::from([(404, 4)]));
        // Three digits would make 14.999 s of it.
        assert_eq!(sum.histograms.response.distribution().max, 14_995_001);
        let broken = text.replacen("HIST", "LIST", 1);
        assert!(broken != text && serde_json::from_str::<Recorded>(&broken).is_err());
    }
}
