//! Worker threads behind a bounded queue: for work that must not hold up a reactor.

mod array;
mod crew;
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
use crate::sync::{Mutex, lock};
use crate::topology::{self, Order, Topology};
use array::Arrays;
use crew::Crew;
use locked::Locked;
use parked::Parked;
use queue::{Aged, Queue};
use stealing::Stealing;

pub use queue::{CLASSES, Class};

/// How many workers there are, and what their work waits in.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Worker threads at the start.
    pub count: usize,
    /// Most that there may be later on.
    pub most: usize,
    /// Jobs that may wait. The high class has some places more.
    pub capacity: usize,
    /// What they wait in.
    pub queue: topology::Queue,
    /// Which of them goes first.
    pub order: Order,
    /// How long a job waits at most before it goes first, in an order in which the oldest may wait for ever
    /// ([`Order::Lifo`], [`Order::Adaptive`]). `None` for no such bound.
    pub longest_wait: Option<Duration>,
}

impl Setup {
    /// The workers of one pool of a topology.
    pub fn of(topology: &Topology) -> Self {
        let Topology { workers: count, most_workers: most, queue_capacity: capacity, queue, order, .. } =
            *topology;
        Setup { count, most, capacity, queue, order, longest_wait: None }
    }
}

/// A pool of workers; clones share it.
pub struct Workers<J> {
    shift: Arc<Shift<J>>,
    staff: Arc<Staff>,
}

/// Starts the worker of a place.
type Hire = Box<dyn Fn(usize) -> io::Result<JoinHandle<()>> + Send>;

/// The threads of a pool, and how one is started.
struct Staff {
    /// Until the pool is closed: what it holds may hold the pool in turn.
    hire: Mutex<Option<Hire>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl<J> Clone for Workers<J> {
    fn clone(&self) -> Self {
        Workers { shift: self.shift.clone(), staff: self.staff.clone() }
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
    /// How urgent it was.
    pub class: Class,
}

/// What all workers share.
struct Shift<J> {
    queue: Box<dyn Queue<Waiting<J>>>,
    counters: Counters,
    crew: Crew,
}

impl<J> Shift<J> {
    /// A worker's life.
    fn run(&self, worker: usize, mut work: impl FnMut(Turn, J) -> bool) {
        let counters = &self.counters.each[worker];
        loop {
            let Some(Waiting { job, since, class }) = self.queue.next(worker, &self.crew) else {
                if self.crew.leaves(worker) {
                    return;
                }
                continue;
            };
            let start = Instant::now();
            let waited = start.saturating_duration_since(since);
            if work(Turn { worker, start, waited, class }, job) {
                counters.wait.record(waited);
                counters.service.record(start.elapsed());
            }
        }
    }
}

/// What lies in the queue: no more than a pointer, a time and a class.
struct Waiting<J> {
    job: J,
    since: Instant,
    class: Class,
}

impl<J> Aged for Waiting<J> {
    fn age(&self) -> Duration {
        self.since.elapsed()
    }
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
fn queue<J: Aged + Send + 'static>(setup: &Setup) -> Box<dyn Queue<J>> {
    let Setup { count, capacity, order, longest_wait, .. } = *setup;
    match setup.queue {
        topology::Queue::LockFree => Box::new(Parked::new(Arrays::new(capacity, order), capacity)),
        topology::Queue::Stealing => Box::new(Parked::new(Stealing::new(capacity, count), capacity)),
        topology::Queue::Mutex | topology::Queue::None => {
            Box::new(Locked::new(capacity, order, longest_wait))
        }
    }
}

impl<J: Send + 'static> Workers<J> {
    /// Starts threads that run `work` on jobs; it says whether it did, or sent the job away, which counts for nothing. `work` must
    /// not panic; it would take its thread with it.
    ///
    /// # Errors
    /// A thread cannot be started; those that were are stopped.
    pub fn start(
        name: &str,
        setup: &Setup,
        work: impl Fn(Turn, J) -> bool + Clone + Send + 'static,
    ) -> io::Result<Self> {
        Workers::start_with(name, setup, move |_| work.clone())
    }

    /// The same, for work that needs something of its own on each thread: `prepare` makes it there.
    ///
    /// # Errors
    /// A thread cannot be started; those that were are stopped.
    pub fn start_with<W: FnMut(Turn, J) -> bool>(
        name: &str,
        setup: &Setup,
        prepare: impl Fn(usize) -> W + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let most = setup.most.max(setup.count);
        let each = (0..most).map(|_| Each::default()).collect();
        let counters = Counters { submitted: AtomicU64::new(0), refused: AtomicU64::new(0), each };
        let shift = Arc::new(Shift { queue: queue(setup), counters, crew: Crew::new(most) });
        let (name, all) = (name.to_owned(), shift.clone());
        let hire = move |place: usize| {
            let (shift, prepare) = (all.clone(), prepare.clone());
            thread::Builder::new()
                .name(format!("{name}-{place}"))
                .spawn(move || shift.run(place, prepare(place)))
        };
        let staff = Arc::new(Staff { hire: Mutex::new(Some(Box::new(hire))), threads: Mutex::default() });
        let workers = Workers { shift, staff };
        if let Err(error) = workers.resize(setup.count) {
            workers.close();
            return Err(error);
        }
        Ok(workers)
    }

    /// Changes how many workers there are, up to the most that were provided for. One that is not wanted any more ends when
    /// it has finished what it does.
    ///
    /// # Errors
    /// A thread cannot be started; there are as many as could be.
    pub fn resize(&self, wanted: usize) -> io::Result<()> {
        let hire = lock(&self.staff.hire);
        let Some(hire) = &*hire else { return Ok(()) };
        let places = self.shift.crew.want(wanted);
        self.shift.queue.rouse();
        let mut threads = lock(&self.staff.threads);
        threads.retain(|thread| !thread.is_finished());
        for (nth, place) in places.iter().enumerate() {
            match hire(*place) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    self.shift.crew.vacate(&places[nth..]);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Hands a job over, or gives it back if the queue is full for its class, or closed.
    pub fn submit(&self, job: J, class: Class) -> Result<(), J> {
        self.submit_quietly(job, class)?;
        self.wake(1);
        Ok(())
    }

    /// Wakes sleeping workers for that many jobs that were submitted quietly.
    pub fn wake(&self, jobs: usize) {
        self.shift.queue.wake(jobs);
    }

    /// Hands a job over without waking anybody for it: whoever has several jobs wakes the workers once for all of
    /// them, and soon.
    pub fn submit_quietly(&self, job: J, class: Class) -> Result<(), J> {
        match self.shift.queue.push(Waiting { job, since: Instant::now(), class }, class) {
            Ok(()) => {
                self.shift.counters.submitted.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(Waiting { job, .. }) => {
                self.shift.counters.refused.fetch_add(1, Ordering::Relaxed);
                Err(job)
            }
        }
    }
}

impl<J> Workers<J> {
    /// Takes no more jobs; the workers finish those there are, and end.
    pub fn close(&self) {
        *lock(&self.staff.hire) = None;
        self.shift.crew.close();
        self.shift.queue.close();
    }

    /// Waits for the threads to end, which they do once the pool is closed.
    pub fn join(&self) {
        let threads = std::mem::take(&mut *lock(&self.staff.threads));
        // A worker cannot panic; if it does there is nobody to tell.
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    /// Workers that there are, or are about to be.
    pub fn size(&self) -> usize {
        self.shift.crew.wanted()
    }

    /// Workers that wait for work.
    pub fn idle(&self) -> usize {
        self.shift.queue.idle()
    }

    /// What the pool has counted.
    pub fn counters(&self) -> &Counters {
        &self.shift.counters
    }

    /// Jobs that wait now.
    pub fn waiting(&self) -> usize {
        self.shift.queue.len()
    }

    /// Whether more jobs wait than workers do.
    pub fn is_behind(&self) -> bool {
        self.shift.queue.len() > self.shift.queue.idle()
    }
}

#[cfg(all(test, shuttle))]
mod models;
#[cfg(all(test, not(shuttle)))]
mod tests;
