//! Worker threads behind a bounded queue: for work that must not hold up a reactor.

mod array;
mod locked;
mod parked;
mod queue;
mod spin;
mod stealing;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::histogram::{Distribution, Histogram};
use crate::topology::{self, Order, Topology};
use array::Arrays;
use locked::Locked;
use parked::Parked;
use queue::Queue;
use stealing::Stealing;

pub use queue::Class;

/// How many workers there are, and what their work waits in.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Worker threads.
    pub count: usize,
    /// Jobs that may wait.
    pub capacity: usize,
    /// What they wait in.
    pub queue: topology::Queue,
    /// Which of them goes first.
    pub order: Order,
}

impl Setup {
    /// The workers of one pool of a topology.
    pub fn of(topology: &Topology) -> Self {
        let Topology { workers: count, queue_capacity: capacity, queue, order, .. } = *topology;
        Setup { count, capacity, queue, order }
    }
}

/// A pool of workers; clones share it.
pub struct Workers<J> {
    queue: Arc<dyn Queue<Waiting<J>>>,
    counters: Arc<Counters>,
}

impl<J> Clone for Workers<J> {
    fn clone(&self) -> Self {
        Workers { queue: self.queue.clone(), counters: self.counters.clone() }
    }
}

/// When a job had its turn, and with whom.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Index of the worker.
    pub worker: usize,
    /// When its work began.
    pub start: Instant,
    /// How long it waited for that.
    pub waited: Duration,
}

/// What lies in the queue: no more than a pointer and a time.
struct Waiting<J> {
    job: J,
    since: Instant,
}

/// What a pool counts.
#[derive(Debug)]
pub struct Counters {
    /// Jobs taken in.
    pub submitted: AtomicU64,
    /// Jobs refused because the queue was full.
    pub refused: AtomicU64,
    each: Vec<Each>,
}

/// What one worker counts.
#[derive(Debug, Default)]
struct Each {
    /// From submission to the start of the work.
    wait: Histogram,
    /// From the start of the work to its end.
    service: Histogram,
}

impl Counters {
    /// How long jobs waited for a worker.
    pub fn wait(&self) -> Distribution {
        Distribution::of(self.each.iter().map(|each| &each.wait))
    }

    /// How long jobs took once they had a worker.
    pub fn service(&self) -> Distribution {
        Distribution::of(self.each.iter().map(|each| &each.service))
    }

    /// Jobs that are done.
    pub fn done(&self) -> u64 {
        self.service().count()
    }
}

/// The queue of a pool.
fn queue<J: Send + 'static>(setup: &Setup) -> Arc<dyn Queue<J>> {
    let Setup { count, capacity, order, .. } = *setup;
    match setup.queue {
        topology::Queue::LockFree => Arc::new(Parked::new(Arrays::new(capacity, order), capacity)),
        topology::Queue::Stealing => Arc::new(Parked::new(Stealing::new(capacity, count), capacity)),
        topology::Queue::Mutex | topology::Queue::None => Arc::new(Locked::new(capacity, order)),
    }
}

impl<J: Send + 'static> Workers<J> {
    /// Starts threads that run `work` on jobs. `work` must not panic; it would take its thread with it.
    ///
    /// # Errors
    /// A thread cannot be started; those that were are stopped.
    pub fn start(
        name: &str,
        setup: &Setup,
        work: impl Fn(Turn, J) + Clone + Send + 'static,
    ) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        Workers::start_with(name, setup, move |_| work.clone())
    }

    /// The same, for work that needs something of its own on each thread: `prepare` makes it there.
    ///
    /// # Errors
    /// A thread cannot be started; those that were are stopped.
    pub fn start_with<W: FnMut(Turn, J)>(
        name: &str,
        setup: &Setup,
        prepare: impl Fn(usize) -> W + Clone + Send + 'static,
    ) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let each = (0..setup.count).map(|_| Each::default()).collect();
        let counters = Counters { submitted: AtomicU64::new(0), refused: AtomicU64::new(0), each };
        let workers = Workers { queue: queue(setup), counters: Arc::new(counters) };
        let mut threads = Vec::with_capacity(setup.count);
        for index in 0..setup.count {
            let (mine, prepare) = (workers.clone(), prepare.clone());
            let body = move || mine.run(index, prepare(index));
            match thread::Builder::new().name(format!("{name}-{index}")).spawn(body) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    workers.close();
                    return Err(error);
                }
            }
        }
        Ok((workers, threads))
    }

    /// A worker's life.
    fn run(&self, index: usize, mut work: impl FnMut(Turn, J)) {
        let counters = &self.counters.each[index];
        while let Some(Waiting { job, since }) = self.queue.next(index) {
            let start = Instant::now();
            let waited = start.saturating_duration_since(since);
            counters.wait.record(waited);
            work(Turn { worker: index, start, waited }, job);
            counters.service.record(start.elapsed());
        }
    }

    /// Hands a job over, or gives it back if the queue is full or closed.
    pub fn submit(&self, job: J, class: Class) -> Result<(), J> {
        self.submit_quietly(job, class)?;
        self.wake(1);
        Ok(())
    }

    /// Wakes sleeping workers for that many jobs that were submitted quietly.
    pub fn wake(&self, jobs: usize) {
        self.queue.wake(jobs);
    }

    /// Hands a job over without waking anybody for it: whoever has several jobs wakes the workers once for all of
    /// them, and soon.
    pub fn submit_quietly(&self, job: J, class: Class) -> Result<(), J> {
        match self.queue.push(Waiting { job, since: Instant::now() }, class) {
            Ok(()) => {
                self.counters.submitted.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(Waiting { job, .. }) => {
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
                Err(job)
            }
        }
    }
}

impl<J> Workers<J> {
    /// Takes no more jobs; the workers finish those there are, and end.
    pub fn close(&self) {
        self.queue.close();
    }

    /// What the pool has counted.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Jobs that wait now.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Whether more jobs wait than workers do.
    pub fn is_behind(&self) -> bool {
        self.queue.len() > self.queue.idle()
    }
}

#[cfg(all(test, shuttle))]
mod models;
#[cfg(all(test, not(shuttle)))]
mod tests;
