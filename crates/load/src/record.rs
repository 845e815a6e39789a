//! What one thread records: histograms, counts and errors, in memory that does not grow with the run.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::fault::Fault;
use crate::outcome::{Distribution, Errors};

/// Longest time that a histogram tells apart, in microseconds: an hour. Longer ones count as that.
const LONGEST_US: u64 = 3_600_000_000;

/// Decimal digits of the histogram of the whole run.
const DIGITS: u8 = 3;

/// Decimal digits of the histogram of one second, of which only two percentiles are read.
const DIGITS_OF_SECOND: u8 = 2;

/// Samples that must lie beyond a percentile for it to be reported.
const BEYOND: f64 = 100.0;

/// When a request was due, was sent, and ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// In a closed loop when it was sent; in an open one when it should have been.
    pub(crate) due: Instant,
    pub(crate) sent: Instant,
    pub(crate) end: Instant,
    pub(crate) phases: Phases,
}

/// How long parts of a request took, from when it was sent; `None` for what did not come to pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Phases {
    /// To the connection, where one was made for it.
    pub(crate) connect: Option<Duration>,
    /// To the first byte of the answer.
    pub(crate) first_byte: Option<Duration>,
}

/// Histograms of one thread, in microseconds.
#[derive(Clone)]
pub(crate) struct Histograms {
    /// From when a request was due to the end of its answer.
    pub(crate) response: Histogram<u64>,
    /// From when it was sent to the end of its answer; only in an open loop, where that is another thing.
    pub(crate) service: Histogram<u64>,
    /// From when it was due to when it was sent; only in an open loop.
    pub(crate) lag: Histogram<u64>,
    pub(crate) connect: Histogram<u64>,
    pub(crate) first_byte: Histogram<u64>,
    /// From the first byte of the answer to the last.
    pub(crate) transfer: Histogram<u64>,
    /// From when a request that came to nothing was due to when that was known.
    pub(crate) failed: Histogram<u64>,
}

impl Histograms {
    pub(crate) fn new() -> Self {
        Histograms::from([(); 7].map(|()| histogram(DIGITS)))
    }

    /// All of them, in the order of the fields.
    pub(crate) fn all(&self) -> [&Histogram<u64>; 7] {
        let Histograms { response, service, lag, connect, first_byte, transfer, failed } = self;
        [response, service, lag, connect, first_byte, transfer, failed]
    }

    /// Adds those of another thread: bucket by bucket, exactly.
    pub(crate) fn add(&mut self, other: &Histograms) {
        let Histograms { response, service, lag, connect, first_byte, transfer, failed } = self;
        let sums = [response, service, lag, connect, first_byte, transfer, failed];
        for (sum, part) in sums.into_iter().zip(other.all()) {
            sum.add(part).expect("all histograms have the same bounds");
        }
    }
}

impl From<[Histogram<u64>; 7]> for Histograms {
    fn from(all: [Histogram<u64>; 7]) -> Self {
        let [response, service, lag, connect, first_byte, transfer, failed] = all;
        Histograms { response, service, lag, connect, first_byte, transfer, failed }
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
    /// Requests are due at times of their own.
    open: bool,
    pub(crate) histograms: Histograms,
    pub(crate) requests: u64,
    pub(crate) drained: u64,
    /// Times of `response` that are only known to be at least that.
    pub(crate) censored: u64,
    /// Requests that were due and never sent.
    pub(crate) unsent: u64,
    pub(crate) bytes: u64,
    statuses: Box<[u64; 1000]>,
    /// Those of answers that are errors since another status was expected.
    unexpected: Box<[u64; 1000]>,
    pub(crate) errors: Errors,
    /// When the last recorded response was complete.
    pub(crate) last: Instant,
}

impl Recorder {
    pub(crate) fn new(
        from: Instant,
        until: Option<Instant>,
        open: bool,
        seconds: Sender<SecondPart>,
    ) -> Self {
        Recorder {
            from,
            until,
            seconds,
            second: SecondPart { index: 0, times: histogram(DIGITS_OF_SECOND), errors: 0 },
            open,
            histograms: Histograms::new(),
            requests: 0,
            drained: 0,
            censored: 0,
            unsent: 0,
            bytes: 0,
            statuses: Box::new([0; 1000]),
            unexpected: Box::new([0; 1000]),
            errors: Errors::default(),
            last: from,
        }
    }

    /// Records a complete response.
    pub(crate) fn response(&mut self, code: u16, bytes: u64, times: &Times) {
        let Times { due, sent, end, phases } = *times;
        if !self.counts(times) {
            return;
        }
        let us = micros(end - due);
        self.histograms.response.saturating_record(us);
        if self.open {
            self.histograms.service.saturating_record(micros(end - sent));
            self.histograms.lag.saturating_record(micros(sent - due));
        }
        if let Some(connect) = phases.connect {
            self.histograms.connect.saturating_record(micros(connect));
        }
        if let Some(first_byte) = phases.first_byte {
            self.histograms.first_byte.saturating_record(micros(first_byte));
            self.histograms.transfer.saturating_record(micros((end - sent).saturating_sub(first_byte)));
        }
        self.count_status(code, 1);
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

    /// Counts answers with a status.
    pub(crate) fn count_status(&mut self, code: u16, count: u64) {
        count_in(&mut self.statuses, code, count);
    }

    /// Counts answers with a status that was not expected.
    pub(crate) fn count_unexpected(&mut self, code: u16, count: u64) {
        count_in(&mut self.unexpected, code, count);
    }

    /// The status codes that came, with how often.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = (u16, u64)> {
        counted(&self.statuses)
    }

    /// The status codes that came and were not expected.
    pub(crate) fn unexpected(&self) -> impl Iterator<Item = (u16, u64)> {
        counted(&self.unexpected)
    }

    /// Records a response that is complete and not what was expected.
    pub(crate) fn wrong(&mut self, code: u16, fault: Fault, times: &Times) {
        if fault == Fault::BadStatus && self.counts(times) {
            self.count_unexpected(code, 1);
        }
        self.fault(fault, times);
    }

    /// Records a request without a complete response. One that took too long is among the times with what it took so far:
    /// leaving it out would make the slowest requests disappear.
    pub(crate) fn fault(&mut self, fault: Fault, times: &Times) {
        if !self.counts(times) {
            return;
        }
        self.errors.count(fault);
        self.histograms.failed.saturating_record(micros(times.end - times.due));
        if fault.is_late() {
            self.censored(times.end - times.due);
        }
        if self.until.is_none_or(|until| times.end <= until) {
            self.turn_to(times.end);
            self.second.errors += 1;
        }
    }

    /// Records a request that was due and was never sent, for want of a connection.
    pub(crate) fn unsent(&mut self, due: Instant, now: Instant) {
        if due >= self.from {
            self.unsent += 1;
            self.censored(now.saturating_duration_since(due));
        }
    }

    fn censored(&mut self, so_far: Duration) {
        self.censored += 1;
        self.histograms.response.saturating_record(micros(so_far));
    }

    /// Whether a request belongs to the measurement: in a closed loop by its end, so that the rate is that of a window of
    /// time; in an open one by when it was due, so that none that was due is left out.
    fn counts(&self, times: &Times) -> bool {
        self.from <= if self.open { times.due } else { times.end }
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

fn count_in(counts: &mut [u64; 1000], code: u16, count: u64) {
    if let Some(sum) = counts.get_mut(usize::from(code)) {
        *sum += count;
    }
}

fn counted(counts: &[u64; 1000]) -> impl Iterator<Item = (u16, u64)> {
    (0..).zip(counts.iter().copied()).filter(|(_, count)| *count > 0)
}

fn micros(time: Duration) -> u64 {
    time.as_micros() as u64
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
    use std::sync::mpsc::channel;

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
    fn what_ends_outside_the_window_is_told_apart() {
        let (sender, seconds) = channel();
        let from = Instant::now();
        let ms = Duration::from_millis;
        let from = from + ms(100);
        let took = |end: Instant, took: u64| Times {
            due: end - ms(took),
            sent: end - ms(took),
            end,
            phases: Phases::default(),
        };
        let mut recorder = Recorder::new(from, Some(from + ms(2000)), false, sender);
        for (end, time) in [(500, 10), (900, 20), (1500, 30), (2500, 40)] {
            recorder.response(200, 100, &took(from + ms(end), time));
        }
        recorder.response(200, 100, &took(from - ms(1), 1));
        recorder.fault(Fault::Reset, &took(from + ms(1600), 1));
        recorder.finish();
        assert_eq!((recorder.requests, recorder.drained, recorder.bytes), (3, 1, 300));
        assert_eq!(
            (recorder.histograms.response.len(), recorder.statuses[200], recorder.errors.total()),
            (4, 4, 1)
        );
        let parts: Vec<_> =
            seconds.try_iter().map(|part| (part.index, part.times.len(), part.errors)).collect();
        assert_eq!(parts, [(0, 2, 0), (1, 1, 1)]);
    }
    #[test]
    fn what_is_late_or_lost_in_an_open_loop_is_among_the_times() {
        let (sender, _seconds) = channel();
        let ms = Duration::from_millis;
        let from = Instant::now() + ms(1000);
        let mut recorder = Recorder::new(from, Some(from + ms(1000)), true, sender);
        let times = |due: u64, sent: u64, end: u64| {
            let phases = Phases { first_byte: Some(ms(end - sent)), connect: None };
            Times { due: from + ms(due), sent: from + ms(sent), end: from + ms(end), phases }
        };
        recorder.response(200, 1, &times(0, 500, 510));
        recorder.fault(Fault::FirstByteTimeout, &times(100, 100, 900));
        recorder.fault(Fault::Reset, &times(100, 100, 900));
        recorder.unsent(from + ms(400), from + ms(1000));
        // It was due before measuring began.
        recorder.unsent(from - ms(1), from + ms(1000));
        let Histograms { response, service, lag, .. } = &recorder.histograms;
        assert_eq!((response.len(), recorder.censored, recorder.unsent), (3, 2, 1));
        let about = |us: u64, expected: u64| us.abs_diff(expected) <= expected / 500;
        assert!(about(service.max(), 10_000) && about(lag.max(), 500_000) && about(response.max(), 800_000));
        assert!(about(response.min(), 510_000));
    }
}
