//! Recording by one thread, in memory that does not grow with the run.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use crate::fault::Fault;
use crate::recorded::{Recorded, SecondPart};

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

/// The records of one thread.
pub(crate) struct Recorder {
    /// When measuring begins; what ends before is not recorded.
    from: Instant,
    /// When measuring ends; what ends after is counted as drained. Unknown for a number of requests.
    until: Option<Instant>,
    /// The middle of the measuring, where its end is known.
    middle: Option<Instant>,
    seconds: Sender<SecondPart>,
    second: SecondPart,
    /// Requests are due at times of their own.
    open: bool,
    recorded: Recorded,
}

impl Recorder {
    pub(crate) fn new(
        from: Instant,
        until: Option<Instant>,
        open: bool,
        seconds: Sender<SecondPart>,
    ) -> Self {
        let middle = until.map(|until| from + until.saturating_duration_since(from) / 2);
        let (second, recorded) = (SecondPart::new(0), Recorded::default());
        Recorder { from, until, middle, seconds, second, open, recorded }
    }

    /// Records a complete response.
    pub(crate) fn response(&mut self, code: u16, bytes: u64, times: &Times) {
        let Times { due, sent, end, phases } = *times;
        self.balance(due, Some(end));
        if !self.counts(times) {
            self.carried_over(bytes, end);
            return;
        }
        let us = micros(end - due);
        let Recorded { histograms, .. } = &mut self.recorded;
        histograms.response.saturating_record(us);
        if self.open {
            histograms.service.saturating_record(micros(end - sent));
            histograms.lag.saturating_record(micros(sent - due));
        }
        if let Some(connect) = phases.connect {
            histograms.connect.saturating_record(micros(connect));
        }
        if let Some(first_byte) = phases.first_byte {
            histograms.first_byte.saturating_record(micros(first_byte));
            histograms.transfer.saturating_record(micros((end - sent).saturating_sub(first_byte)));
        }
        self.recorded.statuses.count(code, 1);
        if self.until.is_some_and(|until| end > until) {
            self.recorded.drained += 1;
            self.recorded.histograms.late.saturating_record(us);
            return;
        }
        self.recorded.requests += 1;
        self.recorded.bytes += bytes;
        self.recorded.last = end - self.from;
        self.turn_to(end);
        self.second.times.saturating_record(us);
    }

    /// Counts the content of a response that came while measuring, as its bytes are counted.
    pub(crate) fn content(&mut self, bytes: u64, times: &Times) {
        let is_measured = self.counts(times) || self.open && times.end >= self.from;
        if is_measured && self.until.is_none_or(|until| times.end <= until) {
            self.recorded.content += bytes;
        }
    }

    /// Counts a response that came while measuring, to a request that was due before: in an open loop under overload they are
    /// what the server does with all its time.
    fn carried_over(&mut self, bytes: u64, end: Instant) {
        if self.open && end >= self.from && self.until.is_none_or(|until| end <= until) {
            self.recorded.carried_over += 1;
            self.recorded.bytes += bytes;
            self.recorded.last = end - self.from;
        }
    }

    /// Records a response that is complete and not what was expected.
    pub(crate) fn wrong(&mut self, code: u16, fault: Fault, times: &Times) {
        if fault == Fault::BadStatus && self.counts(times) {
            self.recorded.unexpected.count(code, 1);
        }
        self.fault(fault, times);
    }

    /// Records a request without a complete response. One that took too long is among the times with what it took so far:
    /// leaving it out would make the slowest requests disappear.
    pub(crate) fn fault(&mut self, fault: Fault, times: &Times) {
        self.balance(times.due, Some(times.end));
        if !self.counts(times) {
            return;
        }
        self.recorded.errors.count(fault);
        let Recorded { histograms, .. } = &mut self.recorded;
        histograms.failed.saturating_record(micros(times.end - times.due));
        if self.open {
            histograms.lag.saturating_record(micros(times.sent - times.due));
        }
        if self.open && fault.is_late() {
            histograms.service.saturating_record(micros(times.end - times.sent));
        }
        if fault.is_late() {
            self.censored(times.end - times.due);
        }
        if self.until.is_none_or(|until| times.end <= until) {
            self.recorded.last = times.end - self.from;
            self.turn_to(times.end);
            self.second.errors += 1;
        }
    }

    /// Counts a connection that is made anew, since the server had ended it while it lay idle.
    pub(crate) fn reconnected(&mut self, now: Instant) {
        let is_measured = now >= self.from && self.until.is_none_or(|until| now <= until);
        self.recorded.reconnects += u64::from(is_measured);
    }

    /// Records that the load was cut off: it has lasted until then, whatever ended last.
    pub(crate) fn cut_off(&mut self, now: Instant) {
        let end = self.until.map_or(now, |until| now.min(until));
        self.recorded.last = self.recorded.last.max(end.saturating_duration_since(self.from));
    }

    /// Records a request that was due and was never sent, for want of a connection.
    pub(crate) fn unsent(&mut self, due: Instant, now: Instant) {
        self.balance(due, None);
        if due >= self.from {
            self.recorded.unsent += 1;
            self.censored(now.saturating_duration_since(due));
        }
    }

    /// Counts a request of an open loop in the second half of the measuring, by when it was due and by when it ended: a server
    /// that keeps up ends as many in it as are due in it.
    fn balance(&mut self, due: Instant, end: Option<Instant>) {
        let Some((middle, until)) = self.middle.zip(self.until).filter(|_| self.open) else { return };
        let in_second_half = |at: Instant| u64::from(middle <= at && at <= until);
        self.recorded.due_late += in_second_half(due);
        self.recorded.ended_late += end.map_or(0, in_second_half);
    }

    fn censored(&mut self, so_far: Duration) {
        self.recorded.censored += 1;
        self.recorded.histograms.response.saturating_record(micros(so_far));
        self.recorded.histograms.late.saturating_record(micros(so_far));
    }

    /// Whether a request belongs to the measurement: in a closed loop by its end, so that the rate is that of a window of
    /// time; in an open one by when it was due, so that none that was due is left out; where so many requests are to be
    /// measured by when it was sent, so that they are exactly so many.
    fn counts(&self, times: &Times) -> bool {
        let by_due = self.open || self.until.is_none();
        self.from <= if by_due { times.due } else { times.end }
    }

    /// Hands the present second over if `now` is in a later one.
    fn turn_to(&mut self, now: Instant) {
        let index = (now - self.from).as_secs();
        if index != self.second.index {
            self.hand_over(index);
        }
    }

    /// All that was recorded, once the last second is handed over.
    pub(crate) fn finish(mut self) -> Recorded {
        self.hand_over(u64::MAX);
        self.recorded
    }

    fn hand_over(&mut self, next: u64) {
        // Nobody listens any more once the run has failed; then there is nothing to tell.
        let _ = self.seconds.send(std::mem::replace(&mut self.second, SecondPart::new(next)));
    }
}

fn micros(time: Duration) -> u64 {
    time.as_micros() as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::recorded::Histograms;

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
        let recorded = recorder.finish();
        assert_eq!((recorded.requests, recorded.drained, recorded.bytes), (3, 1, 300));
        assert_eq!((recorded.histograms.response.len(), recorded.errors.total()), (4, 1));
        // An error is an end as well.
        assert_eq!(
            (BTreeMap::from(recorded.statuses), recorded.last),
            (BTreeMap::from([(200, 4)]), ms(1600))
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
        recorder.fault(Fault::FirstByteTimeout, &times(100, 200, 900));
        recorder.fault(Fault::Reset, &times(100, 100, 900));
        recorder.unsent(from + ms(400), from + ms(1000));
        // It was due before measuring began.
        recorder.unsent(from - ms(1), from + ms(1000));
        // So was this one, and it is answered while measuring.
        let times = Times {
            due: from - ms(500),
            sent: from - ms(400),
            end: from + ms(600),
            phases: Phases::default(),
        };
        recorder.response(200, 1, &times);
        let recorded = recorder.finish();
        let Histograms { response, service, lag, .. } = &recorded.histograms;
        assert_eq!((response.len(), recorded.censored, recorded.unsent), (3, 2, 1));
        assert_eq!((recorded.requests, recorded.carried_over, recorded.last), (1, 1, ms(600)));
        let about = |us: u64, expected: u64| us.abs_diff(expected) <= expected / 500;
        assert!(about(service.min(), 10_000) && about(lag.max(), 500_000) && about(response.max(), 800_000));
        // The server's part of what timed out is in the service time, and every request that was sent has a lag.
        assert!((service.len(), lag.len()) == (2, 3) && about(service.max(), 700_000));
        assert!(about(response.min(), 510_000));
    }
}
