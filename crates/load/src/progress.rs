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
    /// Complete responses per second since the last call.
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
    /// That of a load which has done so much by now, and had so many responses then.
    pub(crate) fn new(
        window: &Window,
        phase: Phase,
        now: Instant,
        (requests, errors): (u64, u64),
        (then, before): (Instant, u64),
    ) -> Self {
        let past = now.saturating_duration_since(then).as_secs_f64();
        Progress {
            phase,
            elapsed: now.saturating_duration_since(window.start),
            total: window.until.map(|until| until - window.start),
            requests,
            errors,
            recent_per_second: if past > 0.0 { (requests - before) as f64 / past } else { 0.0 },
            latest: None,
        }
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
