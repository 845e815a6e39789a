//! What a reactor counts, and how busy its loop is: the share of time in which it works instead of waiting, up to this
//! moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::counter::add;

/// What one reactor counts. One thread writes, any may read.
#[derive(Debug, Default)]
pub struct Counters {
    /// New connections taken in.
    pub accepted: AtomicU64,
    /// Connections taken in from other reactors.
    pub moved_in: AtomicU64,
    /// Connections given to other reactors.
    pub moved_out: AtomicU64,
    /// Connections that are over here: they have ended, or moved to another reactor.
    pub closed: AtomicU64,
    /// Connections turned away because every slot was taken.
    pub refused: AtomicU64,
    /// Connections turned away by the thread that accepted them, since memory stays scarce.
    pub turned_away: AtomicU64,
    /// Times that accepting paused for want of descriptors or memory.
    pub paused: AtomicU64,
    /// How busy its loop is.
    pub meter: Meter,
}

impl Counters {
    /// Adds one.
    pub(crate) fn count(counter: &AtomicU64) {
        add(counter, 1);
    }
}

/// What a loop tells of itself. Its thread writes, any may read.
#[derive(Debug)]
pub struct Meter {
    epoch: Instant,
    /// Nanoseconds of work that is over.
    busy_ns: AtomicU64,
    /// Times that the loop came back from waiting.
    wake_ups: AtomicU64,
    /// Since when the loop has been at work, in nanoseconds since the epoch; [`WAITING`] while it waits.
    since_ns: AtomicU64,
}

const WAITING: u64 = u64::MAX;

impl Default for Meter {
    fn default() -> Self {
        Meter {
            epoch: Instant::now(),
            busy_ns: AtomicU64::new(0),
            wake_ups: AtomicU64::new(0),
            since_ns: AtomicU64::new(WAITING),
        }
    }
}

impl Meter {
    /// The loop goes to work.
    pub(crate) fn begin(&self, now: Instant) {
        add(&self.wake_ups, 1);
        self.since_ns.store(self.nanos(now), Ordering::Relaxed);
    }

    /// The loop is about to wait.
    pub(crate) fn end(&self, now: Instant) {
        let worked = self.nanos(now).saturating_sub(self.since_ns.load(Ordering::Relaxed));
        self.since_ns.store(WAITING, Ordering::Relaxed);
        add(&self.busy_ns, worked);
    }

    /// Time at work up to `now`, work that is not over included.
    pub fn busy(&self, now: Instant) -> Duration {
        // Read in the order in which the loop writes them the other way round: a span of work may be missed for a
        // moment, and is never counted twice.
        let since = self.since_ns.load(Ordering::Relaxed);
        let under_way = if since == WAITING { 0 } else { self.nanos(now).saturating_sub(since) };
        Duration::from_nanos(self.busy_ns.load(Ordering::Relaxed) + under_way)
    }

    /// Times that the loop came back from waiting.
    pub fn wake_ups(&self) -> u64 {
        self.wake_ups.load(Ordering::Relaxed)
    }

    fn nanos(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.epoch).as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_and_waiting_does_not() {
        let meter = Meter::default();
        let at = |ms| meter.epoch + Duration::from_millis(ms);
        meter.begin(at(10));
        assert_eq!(meter.busy(at(15)), Duration::from_millis(5), "work under way counts as it goes on");
        meter.end(at(30));
        assert_eq!(meter.busy(at(100)), Duration::from_millis(20));
        meter.begin(at(100));
        meter.end(at(101));
        assert_eq!((meter.busy(at(200)), meter.wake_ups()), (Duration::from_millis(21), 2));
    }
}
