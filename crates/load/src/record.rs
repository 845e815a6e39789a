//! What one thread records: histograms, counts and errors, in memory that does not grow with the run.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::outcome::{Distribution, Errors};

/// Longest time that a histogram tells apart, in microseconds: an hour. Longer ones count as that.
const LONGEST_US: u64 = 3_600_000_000;

/// Decimal digits of the histogram of the whole run.
const DIGITS: u8 = 3;

/// Decimal digits of the histogram of one second, of which only two percentiles are read.
const DIGITS_OF_SECOND: u8 = 2;

/// Samples that must lie beyond a percentile for it to be reported.
const BEYOND: f64 = 100.0;

/// Why a request got no complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    ConnectRefused,
    ConnectTimeout,
    ConnectFailed,
    Reset,
    ResponseTimeout,
    ShortResponse,
    ClosedEarly,
    Malformed,
    Other,
}

impl Errors {
    pub(crate) fn count(&mut self, fault: Fault) {
        *match fault {
            Fault::ConnectRefused => &mut self.connect_refused,
            Fault::ConnectTimeout => &mut self.connect_timeout,
            Fault::ConnectFailed => &mut self.connect_failed,
            Fault::Reset => &mut self.reset,
            Fault::ResponseTimeout => &mut self.response_timeout,
            Fault::ShortResponse => &mut self.short_response,
            Fault::ClosedEarly => &mut self.closed_early,
            Fault::Malformed => &mut self.malformed,
            Fault::Other => &mut self.other,
        } += 1;
    }

    pub(crate) fn add(&mut self, other: &Errors) {
        self.connect_refused += other.connect_refused;
        self.connect_timeout += other.connect_timeout;
        self.connect_failed += other.connect_failed;
        self.reset += other.reset;
        self.response_timeout += other.response_timeout;
        self.short_response += other.short_response;
        self.closed_early += other.closed_early;
        self.malformed += other.malformed;
        self.other += other.other;
    }
}

/// One thread's part of one second, for the timeline.
pub(crate) struct SecondPart {
    pub(crate) index: u64,
    pub(crate) times: Histogram<u64>,
    pub(crate) errors: u64,
}

/// The records of one thread.
pub(crate) struct Recorder {
    /// When measuring begins; what ends before is not recorded.
    from: Instant,
    /// When measuring ends; what ends after is counted as drained. Unknown for a number of requests.
    until: Option<Instant>,
    seconds: Sender<SecondPart>,
    second: SecondPart,
    pub(crate) times: Histogram<u64>,
    pub(crate) requests: u64,
    pub(crate) drained: u64,
    pub(crate) bytes: u64,
    pub(crate) statuses: Box<[u64; 1000]>,
    pub(crate) errors: Errors,
    /// When the last recorded response was complete.
    pub(crate) last: Instant,
}

impl Recorder {
    pub(crate) fn new(from: Instant, until: Option<Instant>, seconds: Sender<SecondPart>) -> Self {
        Recorder {
            from,
            until,
            seconds,
            second: SecondPart { index: 0, times: histogram(DIGITS_OF_SECOND), errors: 0 },
            times: histogram(DIGITS),
            requests: 0,
            drained: 0,
            bytes: 0,
            statuses: Box::new([0; 1000]),
            errors: Errors::default(),
            last: from,
        }
    }

    /// Records a complete response.
    pub(crate) fn response(&mut self, code: u16, bytes: u64, took: Duration, end: Instant) {
        if end < self.from {
            return;
        }
        let us = took.as_micros() as u64;
        self.times.saturating_record(us);
        if let Some(count) = self.statuses.get_mut(usize::from(code)) {
            *count += 1;
        }
        if self.until.is_some_and(|until| end > until) {
            self.drained += 1;
            return;
        }
        self.requests += 1;
        self.bytes += bytes;
        self.last = end;
        self.turn_to(end);
        self.second.times.saturating_record(us);
    }

    /// Records a request without a complete response.
    pub(crate) fn fault(&mut self, fault: Fault, end: Instant) {
        if end < self.from {
            return;
        }
        self.errors.count(fault);
        if self.until.is_none_or(|until| end <= until) {
            self.turn_to(end);
            self.second.errors += 1;
        }
    }

    /// Hands the present second over if `now` is in a later one.
    fn turn_to(&mut self, now: Instant) {
        let index = (now - self.from).as_secs();
        if index != self.second.index {
            self.hand_over(index);
        }
    }

    /// Hands over the last second.
    pub(crate) fn finish(&mut self) {
        self.hand_over(u64::MAX);
    }

    fn hand_over(&mut self, next: u64) {
        let fresh = SecondPart { index: next, times: histogram(DIGITS_OF_SECOND), errors: 0 };
        // Nobody listens any more once the run has failed; then there is nothing to tell.
        let _ = self.seconds.send(std::mem::replace(&mut self.second, fresh));
    }
}

pub(crate) fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_US, digits)
        .expect("the bounds are constants that hdrhistogram accepts")
}

/// A histogram of the whole run, to merge those of the threads into.
pub(crate) fn whole() -> Histogram<u64> {
    histogram(DIGITS)
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
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_percentile_needs_a_hundred_samples_beyond_it() {
        let mut times = whole();
        (1..=10_000).for_each(|us| times.record(us).unwrap());
        let seen = distribution(&times);
        assert_eq!((seen.p99.map(|us| us.abs_diff(9_900) <= 10), seen.p99_9), (Some(true), None));
        assert_eq!((seen.count, seen.min), (10_000, 1));
    }

    #[test]
    fn what_ends_outside_the_window_is_told_apart() {
        let (sender, seconds) = channel();
        let from = Instant::now();
        let ms = Duration::from_millis;
        let mut recorder = Recorder::new(from, Some(from + ms(2000)), sender);
        for (end, took) in [(500, 10), (900, 20), (1500, 30), (2500, 40)] {
            recorder.response(200, 100, ms(took), from + ms(end));
        }
        if let Some(before) = from.checked_sub(ms(1)) {
            recorder.response(200, 100, ms(1), before);
        }
        recorder.fault(Fault::Reset, from + ms(1600));
        recorder.finish();
        assert_eq!((recorder.requests, recorder.drained, recorder.bytes), (3, 1, 300));
        assert_eq!((recorder.times.len(), recorder.statuses[200], recorder.errors.total()), (4, 4, 1));
        let parts: Vec<_> =
            seconds.try_iter().map(|part| (part.index, part.times.len(), part.errors)).collect();
        assert_eq!(parts, [(0, 2, 0), (1, 1, 1)]);
    }
}
