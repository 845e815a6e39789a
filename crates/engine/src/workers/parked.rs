//! Parking for queues that take no lock: a worker sleeps only after a last look that no push can be missed by.

use std::sync::PoisonError;

use super::crew::Crew;
use super::queue::{Class, Queue, notify, room};
use super::spin;
use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, lock, yield_now};

/// A container that takes no lock and never waits.
pub(super) trait Bag<J>: Send + Sync {
    /// Puts a job in. There is room: the caller has reserved it.
    fn put(&self, job: J, class: Class);

    /// Takes a job out for a worker, if there is one.
    fn take(&self, worker: usize) -> Option<J>;
}

/// A bag with a bound, and a place to sleep while it is empty.
pub(super) struct Parked<B> {
    bag: B,
    capacity: usize,
    /// Jobs in the bag, and those about to be put in.
    len: AtomicUsize,
    /// Workers that sleep, or are about to.
    idle: AtomicUsize,
    /// A worker looks for work without sleeping; one at a time is enough.
    looking: AtomicBool,
    closed: AtomicBool,
    sleep: Mutex<()>,
    changed: Condvar,
}

impl<B> Parked<B> {
    pub(super) fn new(bag: B, capacity: usize) -> Self {
        Parked {
            bag,
            capacity,
            len: AtomicUsize::new(0),
            idle: AtomicUsize::new(0),
            looking: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            sleep: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// Wakes sleeping workers. With the lock taken once in between, a worker about to sleep either has seen what was
    /// put in before, or sleeps already and is woken.
    fn wake_up_to(&self, wanted: usize) {
        let sleepers = self.idle.load(Ordering::SeqCst);
        if wanted == 0 || sleepers == 0 {
            return;
        }
        drop(lock(&self.sleep));
        notify(&self.changed, wanted, sleepers);
    }

    fn take<J>(&self, worker: usize) -> Option<J>
    where
        B: Bag<J>,
    {
        let job = self.bag.take(worker)?;
        self.len.fetch_sub(1, Ordering::SeqCst);
        Some(job)
    }
}

impl<J: Send, B: Bag<J>> Queue<J> for Parked<B> {
    fn push(&self, job: J, class: Class) -> Result<(), J> {
        // The room is reserved before the look at whether it is closed, and a worker ends only when it sees it closed
        // with nothing reserved: so no job that was taken in is missed.
        let reserved = self.len.fetch_add(1, Ordering::SeqCst);
        if reserved >= room(self.capacity, class) || self.closed.load(Ordering::SeqCst) {
            self.len.fetch_sub(1, Ordering::SeqCst);
            return Err(job);
        }
        self.bag.put(job, class);
        Ok(())
    }

    fn wake(&self, jobs: usize) {
        let looking = usize::from(self.looking.load(Ordering::SeqCst));
        self.wake_up_to(jobs.saturating_sub(looking));
    }

    fn next(&self, worker: usize, crew: &Crew) -> Option<J> {
        loop {
            if crew.may_leave(worker) {
                // It may have been woken for a job, which is another's then.
                if self.len.load(Ordering::SeqCst) > 0 {
                    self.wake_up_to(1);
                }
                return None;
            }
            if let Some(job) = self.take(worker) {
                return Some(job);
            }
            if !self.looking.swap(true, Ordering::SeqCst) {
                spin::until(|| self.len.load(Ordering::Relaxed) > 0);
                self.looking.store(false, Ordering::SeqCst);
                if let Some(job) = self.take(worker) {
                    // Jobs that came while this worker was looking woke nobody else.
                    if self.len.load(Ordering::SeqCst) > 0 {
                        self.wake_up_to(1);
                    }
                    return Some(job);
                }
            }
            let guard = lock(&self.sleep);
            self.idle.fetch_add(1, Ordering::SeqCst);
            if self.len.load(Ordering::SeqCst) == 0 && !crew.may_leave(worker) {
                if self.closed.load(Ordering::SeqCst) {
                    self.idle.fetch_sub(1, Ordering::SeqCst);
                    return None;
                }
                drop(self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner));
            } else {
                // Somebody is about to put a job in, or to give up on it.
                drop(guard);
                yield_now();
            }
            self.idle.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.rouse();
    }

    fn rouse(&self) {
        drop(lock(&self.sleep));
        self.changed.notify_all();
    }

    fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    fn idle(&self) -> usize {
        self.idle.load(Ordering::Relaxed)
    }
}
