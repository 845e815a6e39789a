//! Where a load is, and how far: what its observer is told, and the counts and times that this is made of.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use engine::Stop as Switch;

use crate::plan::Plan;

/// How often a load is looked at, and its observer called.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Where a load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Load runs, and is not recorded.
    Warmup,
    /// Load runs and is recorded.
    Measuring,
    /// Measuring has ended; requests under way are waited for.
    Draining,
}

/// What can be said while a load runs.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Where the load is. The observer is called at once when this changes.
    pub phase: Phase,
    /// Time since the load started.
    pub elapsed: Duration,
    /// Time the load takes, where that is known before.
    pub total: Option<Duration>,
    /// Complete responses so far, warm-up included.
    pub requests: u64,
    /// Errors so far, warm-up included.
    pub errors: u64,
    /// Complete responses per second of late: over the last tenth of a second, or what is a little longer.
    pub recent_per_second: f64,
    /// Response times of the latest second that is complete; `None` before there is one, and for a load of several
    /// processes.
    pub latest: Option<Latest>,
}

/// Response times of one second, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latest {
    /// Median.
    pub p50_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// Longest.
    pub max_us: u64,
    /// How many took at most so long, and longer than the one before; 1, 2, 5, 10, 20, 50 and so on.
    pub buckets: Vec<(u64, u64)>,
}

impl Progress {
    /// That of a load which has done so much by now, and so many responses per second of late.
    pub(crate) fn new(
        window: &Window,
        phase: Phase,
        now: Instant,
        (requests, errors): (u64, u64),
        recent_per_second: f64,
    ) -> Self {
        Progress {
            phase,
            elapsed: now.saturating_duration_since(window.start),
            total: window.until.map(|until| until - window.start),
            requests,
            errors,
            recent_per_second,
            latest: None,
        }
    }
}

/// The rate of late, over a tick at least: between looks that follow each other closely chance is all there is, and counts come
/// from several processes one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Pulse {
    then: Instant,
    before: u64,
    per_second: f64,
}

impl Pulse {
    pub(crate) fn new(start: Instant) -> Self {
        Pulse { then: start, before: 0, per_second: 0.0 }
    }

    /// Complete responses per second, of which there have been so many by now.
    pub(crate) fn beat(&mut self, now: Instant, requests: u64) -> f64 {
        let past = now.saturating_duration_since(self.then);
        if past >= TICK {
            let per_second = requests.saturating_sub(self.before) as f64 / past.as_secs_f64();
            *self = Pulse { then: now, before: requests, per_second };
        }
        self.per_second
    }
}

/// Counts that threads keep for the observer.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) requests: AtomicU64,
    pub(crate) errors: AtomicU64,
}

impl Live {
    /// Counts a request that has ended.
    pub(crate) fn ended(&self, complete: bool) {
        let counter = if complete { &self.requests } else { &self.errors };
        engine::counter::add(counter, 1);
    }
}

/// When a load starts, begins to be recorded, and ends.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) start: Instant,
    pub(crate) from: Instant,
    pub(crate) until: Option<Instant>,
}

impl Window {
    /// That of a plan which starts now, or at some other moment.
    pub(crate) fn new(plan: &Plan, start: Instant) -> Self {
        let from = start + Duration::from_secs_f64(plan.warmup_s);
        Window { start, from, until: plan.stop.duration().map(|duration| from + duration) }
    }

    /// Where a load is, unless it was cancelled.
    pub(crate) fn phase(&self, now: Instant, cancel: &Switch) -> Phase {
        if cancel.is_set() || self.until.is_some_and(|until| now >= until) {
            Phase::Draining
        } else if now >= self.from {
            Phase::Measuring
        } else {
            Phase::Warmup
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_come_one_after_the_other_are_no_burst() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut pulse = Pulse::new(start);
        // Two processes with 100 requests each in a tenth of a second, a millisecond apart.
        let beats = [(100, 100), (101, 200), (200, 300), (201, 400), (300, 500), (301, 600)]
            .map(|(at, requests)| pulse.beat(start + ms(at), requests));
        assert_eq!(beats, [1000.0, 1000.0, 2000.0, 2000.0, 2000.0, 2000.0]);
    }
}
