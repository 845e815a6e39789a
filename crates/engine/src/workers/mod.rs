//! Worker threads behind a bounded queue: for work that must not hold up a reactor.

mod array;
mod crew;
mod locked;
mod parked;
mod queue;
mod spin;
mod stealing;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::histogram::{Distribution, Histogram};
use crate::topology::{self, Order, Topology};
use array::Arrays;
use crew::Crew;
use locked::Locked;
use parked::Parked;
use queue::Queue;
use stealing::Stealing;

pub use queue::Class;

/// How many workers there are, and what their work waits in.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Worker threads at the start.
    pub count: usize,
    /// Most that there may be later on.
    pub most: usize,
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
        let Topology { workers: count, most_workers: most, queue_capacity: capacity, queue, order, .. } =
            *topology;
        Setup { count, most, capacity, queue, order }
    }
}

/// A pool of workers; clones share it.
pub struct Workers<J> {
    queue: Arc<dyn Queue<Waiting<J>>>,
    counters: Arc<Counters>,
    crew: Arc<Crew>,
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
        Workers {
            queue: self.queue.clone(),
            counters: self.counters.clone(),
            crew: self.crew.clone(),
            staff: self.staff.clone(),
        }
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

/// What a worker needs to do its work.
struct Shift<J> {
    queue: Arc<dyn Queue<Waiting<J>>>,
    counters: Arc<Counters>,
    crew: Arc<Crew>,
}

impl<J> Clone for Shift<J> {
    fn clone(&self) -> Self {
        Shift { queue: self.queue.clone(), counters: self.counters.clone(), crew: self.crew.clone() }
    }
}

impl<J> Shift<J> {
    /// A worker's life.
    fn run(&self, worker: usize, mut work: impl FnMut(Turn, J) -> bool) {
        let counters = &self.counters.each[worker];
        loop {
            let Some(Waiting { job, since }) = self.queue.next(worker, &self.crew) else {
                if self.crew.leaves(worker) {
                    return;
                }
                continue;
            };
            let start = Instant::now();
            let waited = start.saturating_duration_since(since);
            if work(Turn { worker, start, waited }, job) {
                counters.wait.record(waited);
                counters.service.record(start.elapsed());
            }
        }
    }
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
        let counters = Arc::new(Counters { submitted: AtomicU64::new(0), refused: AtomicU64::new(0), each });
        let (queue, crew) = (queue(setup), Arc::new(Crew::new(most)));
        let shift = Shift { queue: queue.clone(), counters: counters.clone(), crew: crew.clone() };
        let name = name.to_owned();
        let hire = move |place: usize| {
            let (shift, prepare) = (shift.clone(), prepare.clone());
            thread::Builder::new()
                .name(format!("{name}-{place}"))
                .spawn(move || shift.run(place, prepare(place)))
        };
        let staff = Arc::new(Staff { hire: Mutex::new(Some(Box::new(hire))), threads: Mutex::default() });
        let workers = Workers { queue, counters, crew, staff };
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
        let before = self.crew.wanted();
        let hire = lock(&self.staff.hire);
        let Some(hire) = &*hire else { return Ok(()) };
        let places = self.crew.want(wanted);
        self.queue.rouse();
        let mut threads = lock(&self.staff.threads);
        threads.retain(|thread| !thread.is_finished());
        for (nth, place) in places.iter().enumerate() {
            match hire(*place) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    self.crew.vacate(&places[nth..], before);
                    return Err(error);
                }
            }
        }
        Ok(())
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
        *lock(&self.staff.hire) = None;
        self.crew.close();
        self.queue.close();
    }

    /// Waits for the threads to end, which they do once the pool is closed.
    pub fn join(&self) {
        let threads = std::mem::take(&mut *lock(&self.staff.threads));
        // A worker cannot panic; if it does there is nobody to tell.
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    /// Workers that there are, or are about to be.
    pub fn size(&self) -> usize {
        self.crew.wanted()
    }

    /// Workers that wait for work.
    pub fn idle(&self) -> usize {
        self.queue.idle()
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, shuttle))]
mod models;
#[cfg(all(test, not(shuttle)))]
mod tests;
