//! What a queue of work is, whatever it is made of.

use std::time::Duration;

use super::crew::Crew;
use crate::sync::Condvar;

/// How urgent a piece of work is; the first goes first where the order is by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// Before all others: health checks.
    High,
    /// Most work.
    #[default]
    Normal,
    /// After all others.
    Low,
}

/// Number of classes.
pub const CLASSES: usize = 3;

/// Places that a queue keeps for the high class beyond its capacity, as a part of that, and the fewest: where others fill the
/// queue, what is urgent still finds room, and where it is the flood itself, there is a bound to it.
const RESERVED: usize = 16;
const LEAST_RESERVED: usize = 8;

/// Most jobs in a queue of this capacity, when the last of them is one of a class.
pub(super) fn room(capacity: usize, class: Class) -> usize {
    match class {
        Class::High => capacity + (capacity / RESERVED).max(LEAST_RESERVED),
        Class::Normal | Class::Low => capacity,
    }
}

/// What knows how long it has been waiting.
pub(super) trait Aged {
    fn age(&self) -> Duration;
}

/// How many times in a row others may go before a class that waits: then it moves by one, however urgent they are.
pub(super) const PASSED_OVER: usize = 16;

/// A bounded queue from which any number of workers take.
pub(super) trait Queue<J>: Send + Sync {
    /// Puts a job in, or gives it back if the queue is full for its class, or closed. Wakes nobody.
    fn push(&self, job: J, class: Class) -> Result<(), J>;

    /// Wakes sleeping workers for that many jobs that were put in; fewer if one looks for work already.
    fn wake(&self, jobs: usize);

    /// The next job for a worker, waiting for it; `None` when the queue is closed and empty, or the worker may leave.
    fn next(&self, worker: usize, crew: &Crew) -> Option<J>;

    /// Wakes all workers, so that those leave that may.
    fn rouse(&self);

    /// Takes no more jobs; those there are can still be taken.
    fn close(&self);

    /// Jobs that wait.
    fn len(&self) -> usize;

    /// Workers that wait.
    fn idle(&self) -> usize;
}

/// Wakes as many sleepers as are wanted.
pub(super) fn notify(sleep: &Condvar, wanted: usize, sleepers: usize) {
    if wanted >= sleepers && sleepers > 1 {
        sleep.notify_all();
    } else {
        (0..wanted.min(sleepers)).for_each(|_| sleep.notify_one());
    }
}

/// Which class is next, given which of them have something.
pub(super) struct Turns {
    /// How many times in a row each class had something and was passed over.
    passed: [usize; CLASSES],
}

impl Turns {
    pub(super) fn new() -> Self {
        Turns { passed: [0; CLASSES] }
    }

    /// The class to take from: one that was passed over too often, otherwise the most urgent.
    pub(super) fn next(&mut self, waits: [bool; CLASSES]) -> Option<usize> {
        let first = (0..CLASSES).find(|class| waits[*class])?;
        let starved = (0..CLASSES).find(|class| waits[*class] && self.passed[*class] >= PASSED_OVER);
        let chosen = starved.unwrap_or(first);
        for (class, passed) in self.passed.iter_mut().enumerate() {
            *passed = if waits[class] && class != chosen { *passed + 1 } else { 0 };
        }
        Some(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_work_goes_first_and_a_starved_class_still_moves() {
        let mut turns = Turns::new();
        let mut taken = [0; CLASSES];
        for _ in 0..1000 {
            taken[turns.next([true; CLASSES]).unwrap()] += 1;
        }
        assert!(taken[0] > 800 && taken[1] >= 50 && taken[2] >= 50, "{taken:?}");
        assert_eq!(turns.next([false, true, true]), Some(1));
        assert_eq!(turns.next([false; CLASSES]), None);
    }

    #[test]
    fn no_class_waits_longer_than_the_bound() {
        let mut turns = Turns::new();
        let mut since = [0; CLASSES];
        for _ in 0..1000 {
            let chosen = turns.next([true; CLASSES]).unwrap();
            for (class, since) in since.iter_mut().enumerate() {
                *since = if class == chosen { 0 } else { *since + 1 };
                // Two may be starved at once, and then one of them waits for the other.
                assert!(*since <= PASSED_OVER + CLASSES, "{class}");
            }
        }
    }
}
