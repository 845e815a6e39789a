//! Deadlines: when an operation must be over, and the queue that finds the next one to come due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

/// When an operation must be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// No limit.
    pub const NEVER: Deadline = Deadline(None);

    /// At this moment.
    pub fn at(instant: Instant) -> Self {
        Deadline(Some(instant))
    }

    /// The moment, if there is a limit.
    pub fn instant(self) -> Option<Instant> {
        self.0
    }

    /// Whichever comes first.
    pub fn earlier(self, other: Deadline) -> Deadline {
        match (self.0, other.0) {
            (Some(a), Some(b)) => Deadline(Some(a.min(b))),
            (a, b) => Deadline(a.or(b)),
        }
    }

    /// That much later.
    pub fn later(self, by: Duration) -> Deadline {
        Deadline(self.0.map(|at| at + by))
    }

    /// Whether the moment has come.
    pub fn has_passed(self, now: Instant) -> bool {
        self.0.is_some_and(|at| at <= now)
    }
}

/// The deadlines of one driver, each under a key of the driver's choosing.
///
/// Keep-alive moves a connection's deadline forward with every request, so moving it later must be cheap:
/// an entry is not taken out when its deadline moves or its operation ends. It is looked at when it comes
/// due, and put back if the deadline has moved. Each key has one live entry; only a deadline that moves
/// *earlier* leaves a stale one behind, which goes when its time comes.
#[derive(Debug)]
pub struct Timers {
    epoch: Instant,
    heap: BinaryHeap<Reverse<(Nanos, u32)>>,
}

/// Nanoseconds since the driver opened; [`NEVER`] for no deadline. Half the size of an `Instant`.
pub type Nanos = u64;

/// No deadline.
pub const NEVER: Nanos = Nanos::MAX;

/// What a driver keeps beside each operation for [`Timers`].
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// When the operation must be over, or [`NEVER`].
    pub due: Nanos,
    /// The earliest entry in the heap for this key, or [`NEVER`] if there is none.
    armed: Nanos,
}

impl Timer {
    /// No deadline.
    pub const IDLE: Timer = Timer { due: NEVER, armed: NEVER };
}

impl Timers {
    /// No deadlines yet; times count from `epoch`.
    pub fn new(epoch: Instant) -> Self {
        Timers { epoch, heap: BinaryHeap::new() }
    }

    /// A moment in nanoseconds since the epoch.
    pub fn nanos(&self, at: Instant) -> Nanos {
        // An Instant 584 years from now is not reached; the cast cannot lose anything before that.
        at.saturating_duration_since(self.epoch).as_nanos() as Nanos
    }

    /// Sets the deadline of `key`.
    pub fn set(&mut self, key: u32, timer: &mut Timer, deadline: Deadline) {
        timer.due = deadline.instant().map_or(NEVER, |at| self.nanos(at));
        self.arm(key, timer);
    }

    fn arm(&mut self, key: u32, timer: &mut Timer) {
        if timer.due < timer.armed {
            timer.armed = timer.due;
            self.heap.push(Reverse((timer.due, key)));
        }
    }

    /// The next entry at or before `now`, for [`fire`](Self::fire).
    pub fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, u32)> {
        match self.heap.peek() {
            Some(&Reverse(entry)) if entry.0 <= now => {
                self.heap.pop();
                Some(entry)
            }
            _ => None,
        }
    }

    /// Looks at an entry that came due: true if the deadline of `key` really has passed.
    pub fn fire(&mut self, entry: (Nanos, u32), timer: &mut Timer, now: Nanos) -> bool {
        let (at, key) = entry;
        if at != timer.armed {
            return false;
        }
        timer.armed = NEVER;
        if timer.due <= now {
            return true;
        }
        self.arm(key, timer);
        false
    }

    /// How long to sleep from `now` at most: until the next entry comes due or `until` does; `None` for as long as it
    /// takes.
    pub fn sleep(&self, now: Instant, until: Deadline) -> Option<Duration> {
        let asked = until.instant().map(|at| at.saturating_duration_since(now));
        match (asked, self.next(self.nanos(now))) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// How long until the next entry comes due; `None` if there is none.
    fn next(&self, now: Nanos) -> Option<Duration> {
        self.heap.peek().map(|&Reverse((at, _))| Duration::from_nanos(at.saturating_sub(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(timers: &Timers, ms: u64) -> Deadline {
        Deadline::at(timers.epoch + Duration::from_millis(ms))
    }

    fn due(timers: &mut Timers, timer: &mut Timer, ms: u64) -> bool {
        let now = ms * 1_000_000;
        let mut fired = false;
        while let Some(entry) = timers.pop_due(now) {
            fired |= timers.fire(entry, timer, now);
        }
        fired
    }

    #[test]
    fn a_deadline_that_moves_later_costs_no_new_entry() {
        let mut timers = Timers::new(Instant::now());
        let mut timer = Timer::IDLE;
        for ms in 10..1000 {
            let deadline = at(&timers, ms);
            timers.set(1, &mut timer, deadline);
        }
        assert_eq!(timers.heap.len(), 1);
        assert!(!due(&mut timers, &mut timer, 500));
        assert_eq!(timers.heap.len(), 1);
        assert!(due(&mut timers, &mut timer, 999));
        assert_eq!(timers.heap.len(), 0);
    }

    #[test]
    fn a_deadline_that_moves_earlier_fires_once_and_in_time() {
        let mut timers = Timers::new(Instant::now());
        let mut timer = Timer::IDLE;
        let (late, early) = (at(&timers, 100), at(&timers, 10));
        timers.set(1, &mut timer, late);
        timers.set(1, &mut timer, early);
        assert!(due(&mut timers, &mut timer, 10));
        timer.due = NEVER;
        assert!(!due(&mut timers, &mut timer, 100));
    }

    #[test]
    fn a_finished_operation_does_not_fire() {
        let mut timers = Timers::new(Instant::now());
        let mut timer = Timer::IDLE;
        let soon = at(&timers, 10);
        timers.set(1, &mut timer, soon);
        timers.set(1, &mut timer, Deadline::NEVER);
        assert!(!due(&mut timers, &mut timer, 20));
        assert_eq!(timers.heap.len(), 0);
    }
}
