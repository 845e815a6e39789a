//! One lock and one condition variable, as in the textbook.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::crew::Crew;
use super::queue::{Aged, CLASSES, Class, Queue, Turns, notify, room};
use super::spin;
use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, lock};
use crate::topology::Order;

/// A queue behind a lock.
pub(super) struct Locked<J> {
    state: Mutex<State<J>>,
    /// Signalled when a job comes or the queue closes.
    changed: Condvar,
    capacity: usize,
    order: Order,
    /// Age from which the oldest goes first in an order in which it would not.
    longest: Option<Duration>,
    /// The number of jobs; changed with the lock held, and looked at without it too.
    len: AtomicUsize,
    /// The number of workers that sleep, likewise.
    idle: AtomicUsize,
    /// A worker looks for work without sleeping; one at a time is enough.
    looking: AtomicBool,
}

/// How long a queue must not have been empty for the latest job to go first, where the order is adaptive (Maurer: Fail at
/// Scale, 2015): a shorter one is a burst that is being worked off.
const STANDING: Duration = Duration::from_millis(100);

struct State<J> {
    /// One queue for each class; only the first is used where the order is not by class.
    jobs: [VecDeque<J>; CLASSES],
    turns: Turns,
    /// Since when there has been something in it, where the order is adaptive.
    standing: Option<Instant>,
    closed: bool,
}

impl<J: Aged> State<J> {
    /// Takes the oldest job if it has waited for so long, whatever the order.
    fn take_overdue(&mut self, longest: Option<Duration>) -> Option<J> {
        let jobs = &mut self.jobs[0];
        let is_overdue = jobs.front()?.age() >= longest?;
        let job = if is_overdue { jobs.pop_front() } else { None };
        if jobs.is_empty() {
            self.standing = None;
        }
        job
    }

    /// Takes the oldest job, or the latest if the queue has been standing for so long.
    fn take_adaptively(&mut self, long: Duration) -> Option<J> {
        let is_standing = self.standing.is_some_and(|since| since.elapsed() >= long);
        let jobs = &mut self.jobs[0];
        let job = if is_standing { jobs.pop_back() } else { jobs.pop_front() };
        if jobs.is_empty() {
            self.standing = None;
        }
        job
    }
}

impl<J: Aged> Locked<J> {
    pub(super) fn new(capacity: usize, order: Order, longest: Option<Duration>) -> Self {
        let jobs = std::array::from_fn(|class| {
            let used = class == 0 || order == Order::Priority;
            let most = if class == 0 { room(capacity, Class::High) } else { capacity };
            VecDeque::with_capacity(if used { most } else { 0 })
        });
        Locked {
            state: Mutex::new(State { jobs, turns: Turns::new(), standing: None, closed: false }),
            changed: Condvar::new(),
            capacity,
            order,
            longest,
            len: AtomicUsize::new(0),
            idle: AtomicUsize::new(0),
            looking: AtomicBool::new(false),
        }
    }

    fn pop(&self, state: &mut State<J>) -> Option<J> {
        let job = match self.order {
            Order::Fifo => state.jobs[0].pop_front(),
            Order::Lifo => state.take_overdue(self.longest).or_else(|| state.jobs[0].pop_back()),
            Order::Adaptive => state.take_overdue(self.longest).or_else(|| state.take_adaptively(STANDING)),
            Order::Priority => {
                let waits = state.jobs.each_ref().map(|jobs| !jobs.is_empty());
                state.turns.next(waits).and_then(|class| state.jobs[class].pop_front())
            }
        }?;
        self.len.fetch_sub(1, Ordering::SeqCst);
        Some(job)
    }

    /// Looks for work for a moment, with the lock released.
    fn look<'a>(&'a self, state: MutexGuard<'a, State<J>>) -> MutexGuard<'a, State<J>> {
        if self.looking.swap(true, Ordering::SeqCst) {
            return state;
        }
        drop(state);
        spin::until(|| self.len.load(Ordering::Relaxed) > 0);
        self.looking.store(false, Ordering::SeqCst);
        lock(&self.state)
    }
}

impl<J: Aged + Send> Queue<J> for Locked<J> {
    fn push(&self, job: J, class: Class) -> Result<(), J> {
        let mut state = lock(&self.state);
        if self.len() >= room(self.capacity, class) || state.closed {
            return Err(job);
        }
        let class = if self.order == Order::Priority { class as usize } else { 0 };
        state.jobs[class].push_back(job);
        if self.order == Order::Adaptive {
            state.standing.get_or_insert_with(Instant::now);
        }
        self.len.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn wake(&self, jobs: usize) {
        let looking = usize::from(self.looking.load(Ordering::SeqCst));
        let sleepers = self.idle.load(Ordering::SeqCst);
        let wanted = jobs.saturating_sub(looking);
        if wanted > 0 {
            notify(&self.changed, wanted, sleepers);
        }
    }

    fn next(&self, worker: usize, crew: &Crew) -> Option<J> {
        let mut state = lock(&self.state);
        let mut looked = false;
        loop {
            if crew.may_leave(worker) {
                // It may have been woken for a job, which is another's then.
                if self.len() > 0 {
                    self.changed.notify_one();
                }
                return None;
            }
            if let Some(job) = self.pop(&mut state) {
                // Jobs that came while this worker was looking woke nobody else.
                let wake = self.len() > 0 && self.idle.load(Ordering::SeqCst) > 0;
                drop(state);
                if looked && wake {
                    self.changed.notify_one();
                }
                return Some(job);
            }
            if state.closed {
                return None;
            }
            if !looked {
                looked = true;
                state = self.look(state);
                continue;
            }
            self.idle.fetch_add(1, Ordering::SeqCst);
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            self.idle.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    fn rouse(&self) {
        // With the lock taken once, a worker about to sleep sleeps already.
        drop(lock(&self.state));
        self.changed.notify_all();
    }

    fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    fn idle(&self) -> usize {
        self.idle.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    impl Aged for u32 {
        fn age(&self) -> Duration {
            Duration::ZERO
        }
    }

    impl Aged for Duration {
        fn age(&self) -> Duration {
            *self
        }
    }

    #[test]
    fn who_has_waited_too_long_goes_first_in_every_order() {
        for order in [Order::Lifo, Order::Adaptive] {
            let queue = Locked::new(8, order, Some(Duration::from_secs(10)));
            for age in [20, 10, 9, 0] {
                queue.push(Duration::from_secs(age), Class::Normal).unwrap();
            }
            let mut state = lock(&queue.state);
            state.standing = Instant::now().checked_sub(Duration::from_secs(20));
            let ages: Vec<u64> =
                std::iter::from_fn(|| queue.pop(&mut state)).map(|age| age.as_secs()).collect();
            assert_eq!(ages, [20, 10, 0, 9], "{order}");
        }
    }

    #[test]
    fn the_latest_goes_first_only_while_the_queue_is_standing() {
        let queue = Locked::new(8, Order::Adaptive, None);
        let fill = |jobs: std::ops::Range<u32>| jobs.for_each(|job| queue.push(job, Class::Normal).unwrap());
        let take = |long| lock(&queue.state).take_adaptively(long);
        fill(0..4);
        assert_eq!([take(Duration::MAX), take(Duration::MAX)], [Some(0), Some(1)]);
        assert_eq!(
            [take(Duration::ZERO), take(Duration::ZERO), take(Duration::ZERO)],
            [Some(3), Some(2), None]
        );
        assert!(lock(&queue.state).standing.is_none(), "it has been empty");
        fill(4..6);
        assert_eq!(take(Duration::MAX), Some(4));
    }
}
