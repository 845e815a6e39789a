//! Deadlines: when an operation must be over, and the queue that finds the next one to come due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Nanoseconds since a minute before this process first asked; [`NEVER`] for no deadline. Half the size of an `Instant`,
/// and compared, moved and added to in one instruction.
pub type Nanos = u64;

/// No deadline.
pub const NEVER: Nanos = Nanos::MAX;

/// A moment as drivers and deadlines count it; 0 for one before the count begins.
pub fn nanos(at: Instant) -> Nanos {
    // A minute back, since the moment that is asked about may have passed already.
    static EPOCH: LazyLock<Instant> = LazyLock::new(|| {
        let now = Instant::now();
        now.checked_sub(Duration::from_secs(60)).unwrap_or(now)
    });
    // A moment 584 years from now is not reached; the cast cannot lose anything before that.
    at.saturating_duration_since(*EPOCH).as_nanos() as Nanos
}

/// When an operation must be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Nanos);

impl Deadline {
    /// No limit.
    pub const NEVER: Deadline = Deadline(NEVER);

    /// At this moment.
    pub fn at(instant: Instant) -> Self {
        Deadline(nanos(instant))
    }

    /// At this moment, as drivers count it.
    pub(crate) fn at_nanos(nanos: Nanos) -> Self {
        Deadline(nanos)
    }

    /// How long there is from `now` on; `None` if there is no limit.
    pub fn left(self, now: Instant) -> Option<Duration> {
        (self.0 != NEVER).then(|| Duration::from_nanos(self.0.saturating_sub(nanos(now))))
    }

    /// Whichever comes first.
    pub fn earlier(self, other: Deadline) -> Deadline {
        self.min(other)
    }

    /// That much later.
    pub fn later(self, by: Duration) -> Deadline {
        // No limit stays none, and what is 584 years away is none.
        Deadline(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(NEVER)))
    }

    /// Whether the moment has come.
    pub fn has_passed(self, now: Instant) -> bool {
        self.0 != NEVER && self.0 <= nanos(now)
    }
}

/// The deadlines of one driver, each under a key of the driver's choosing.
///
/// Keep-alive moves a connection's deadline forward with every request, so moving it later must be cheap:
/// an entry is not taken out when its deadline moves or its operation ends. It is looked at when it comes
/// due, and put back if the deadline has moved. Each key has one live entry; only a deadline that moves
/// *earlier* leaves a stale one behind, which goes when its time comes.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Nanos, u32)>>,
}

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
    /// Sets the deadline of `key`.
    pub fn set(&mut self, key: u32, timer: &mut Timer, deadline: Deadline) {
        timer.due = deadline.0;
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
        match (until.left(now), self.next(nanos(now))) {
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

    fn at(ms: u64) -> Deadline {
        Deadline::at_nanos(ms * 1_000_000)
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
    fn no_limit_stays_none_and_is_never_over() {
        let now = Instant::now();
        let long = Duration::MAX;
        for never in [Deadline::NEVER, Deadline::NEVER.later(long), Deadline::at(now).later(long)] {
            assert_eq!((never, never.left(now)), (Deadline::NEVER, None));
            assert!(!never.has_passed(now + Duration::from_secs(1 << 30)));
        }
        let soon = Deadline::at(now + Duration::from_millis(2));
        assert_eq!(soon.left(now), Some(Duration::from_millis(2)));
        assert_eq!(soon.left(now + Duration::from_secs(1)), Some(Duration::ZERO));
        assert_eq!(soon.earlier(Deadline::NEVER), soon);
        assert!(!soon.has_passed(now) && soon.has_passed(now + Duration::from_millis(2)));
    }

    #[test]
    fn a_deadline_that_moves_later_costs_no_new_entry() {
        let mut timers = Timers::default();
        let mut timer = Timer::IDLE;
        for ms in 10..1000 {
            let deadline = at(ms);
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
        let mut timers = Timers::default();
        let mut timer = Timer::IDLE;
        let (late, early) = (at(100), at(10));
        timers.set(1, &mut timer, late);
        timers.set(1, &mut timer, early);
        assert!(due(&mut timers, &mut timer, 10));
        timer.due = NEVER;
        assert!(!due(&mut timers, &mut timer, 100));
    }

    #[test]
    fn a_finished_operation_does_not_fire() {
        let mut timers = Timers::default();
        let mut timer = Timer::IDLE;
        let soon = at(10);
        timers.set(1, &mut timer, soon);
        timers.set(1, &mut timer, Deadline::NEVER);
        assert!(!due(&mut timers, &mut timer, 20));
        assert_eq!(timers.heap.len(), 0);
    }
}
