//! A lock-free queue for each worker; who has nothing to do takes from the others.

use crossbeam_queue::ArrayQueue;

use super::parked::Bag;
use super::queue::{Class, room};
use crate::sync::{AtomicUsize, Ordering, spin_loop};

/// The workers' queues.
pub(super) struct Stealing<J> {
    queues: Vec<ArrayQueue<J>>,
    /// Whose turn it is to be given a job.
    next: AtomicUsize,
}

impl<J> Stealing<J> {
    pub(super) fn new(capacity: usize, workers: usize) -> Self {
        let each = room(capacity, Class::High).div_ceil(workers);
        Stealing { queues: (0..workers).map(|_| ArrayQueue::new(each)).collect(), next: AtomicUsize::new(0) }
    }

    /// Every queue, beginning with that of a worker.
    fn from(&self, worker: usize) -> impl Iterator<Item = &ArrayQueue<J>> {
        let (before, rest) = self.queues.split_at(worker % self.queues.len());
        rest.iter().chain(before)
    }
}

impl<J: Send> Bag<J> for Stealing<J> {
    fn put(&self, mut job: J, _: Class) {
        let worker = self.next.fetch_add(1, Ordering::Relaxed);
        // Together the queues hold what may be reserved, so one of them has room, or is about to.
        loop {
            for queue in self.from(worker) {
                match queue.push(job) {
                    Ok(()) => return,
                    Err(back) => job = back,
                }
            }
            spin_loop();
        }
    }

    fn take(&self, worker: usize) -> Option<J> {
        self.from(worker).find_map(ArrayQueue::pop)
    }
}
