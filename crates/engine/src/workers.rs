//! Worker threads behind a bounded queue: for work that must not hold up a reactor.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// A pool of workers; clones share it.
pub struct Workers<J> {
    queue: Arc<Queue<J>>,
}

impl<J> Clone for Workers<J> {
    fn clone(&self) -> Self {
        Workers { queue: self.queue.clone() }
    }
}

/// What a pool counts.
#[derive(Debug, Default)]
pub struct WorkerCounters {
    /// Jobs taken in.
    pub submitted: AtomicU64,
    /// Jobs refused because the queue was full.
    pub refused: AtomicU64,
    /// Jobs that are done.
    pub done: AtomicU64,
}

/// One lock and one condition variable, as in the textbook; jobs leave in the order they came.
struct Queue<J> {
    state: Mutex<State<J>>,
    /// Signalled when a job comes or the queue closes.
    changed: Condvar,
    capacity: usize,
    counters: WorkerCounters,
}

struct State<J> {
    jobs: VecDeque<J>,
    /// Workers that wait; a job wakes one only if there is one.
    waiting: usize,
    closed: bool,
}

impl<J> Queue<J> {
    fn state(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, waiting for it; `None` when the queue is closed and empty.
    fn next(&self) -> Option<J> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state.waiting += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }
}

impl<J> Workers<J> {
    /// Starts `count` threads that run `work` on jobs, of which at most `capacity` wait at a time. `work` must
    /// not panic; it would take its thread with it.
    ///
    /// # Errors
    /// A thread cannot be started; those that were are stopped.
    pub fn start(
        name: &str,
        count: usize,
        capacity: usize,
        work: impl Fn(J) + Clone + Send + 'static,
    ) -> io::Result<(Self, Vec<JoinHandle<()>>)>
    where
        J: Send + 'static,
    {
        let workers = Workers {
            queue: Arc::new(Queue {
                state: Mutex::new(State {
                    jobs: VecDeque::with_capacity(capacity),
                    waiting: 0,
                    closed: false,
                }),
                changed: Condvar::new(),
                capacity,
                counters: WorkerCounters::default(),
            }),
        };
        let mut threads = Vec::with_capacity(count);
        for index in 0..count {
            let (queue, work) = (workers.queue.clone(), work.clone());
            let thread = thread::Builder::new().name(format!("{name}-{index}")).spawn(move || {
                while let Some(job) = queue.next() {
                    work(job);
                    queue.counters.done.fetch_add(1, Ordering::Relaxed);
                }
            });
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    workers.close();
                    return Err(error);
                }
            }
        }
        Ok((workers, threads))
    }

    /// Hands a job over, or gives it back if the queue is full or closed.
    pub fn submit(&self, job: J) -> Result<(), J> {
        let mut state = self.queue.state();
        if state.jobs.len() == self.queue.capacity || state.closed {
            drop(state);
            self.queue.counters.refused.fetch_add(1, Ordering::Relaxed);
            return Err(job);
        }
        state.jobs.push_back(job);
        let wake = state.waiting > 0;
        drop(state);
        self.queue.counters.submitted.fetch_add(1, Ordering::Relaxed);
        if wake {
            self.queue.changed.notify_one();
        }
        Ok(())
    }

    /// Takes no more jobs; the workers finish those there are, and end.
    pub fn close(&self) {
        self.queue.state().closed = true;
        self.queue.changed.notify_all();
    }

    /// What the pool has counted.
    pub fn counters(&self) -> &WorkerCounters {
        &self.queue.counters
    }

    /// Jobs that wait now.
    pub fn waiting(&self) -> usize {
        self.queue.state().jobs.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn jobs_are_done_in_order_and_none_is_lost() {
        let (done, seen) = mpsc::channel();
        let (workers, threads) =
            Workers::start("w", 1, 1000, move |job: u32| done.send(job).unwrap()).unwrap();
        (0..1000).for_each(|job| while workers.submit(job).is_err() {});
        workers.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), (0..1000).collect::<Vec<_>>());
        assert_eq!(workers.counters().done.load(Ordering::Relaxed), 1000);
    }

    #[test]
    fn a_full_queue_gives_the_job_back_and_a_closed_one_too() {
        let (go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let (workers, threads) = Workers::start("w", 1, 2, move |_: u32| {
            let _ = wait.lock().unwrap().recv_timeout(Duration::from_secs(10));
        })
        .unwrap();
        workers.submit(0).unwrap();
        // The first job is with the worker sooner or later; then two can wait, and a third cannot.
        while workers.waiting() > 0 {
            thread::yield_now();
        }
        assert_eq!((workers.submit(1), workers.submit(2), workers.submit(3)), (Ok(()), Ok(()), Err(3)));
        assert_eq!(workers.counters().refused.load(Ordering::Relaxed), 1);
        (0..3).for_each(|_| go.send(()).unwrap());
        workers.close();
        assert_eq!(workers.submit(4), Err(4));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(workers.counters().done.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn many_workers_share_the_work() {
        let (done, seen) = mpsc::channel();
        let (workers, threads) = Workers::start("w", 8, 64, move |job: u32| {
            thread::sleep(Duration::from_millis(1));
            done.send(job).unwrap();
        })
        .unwrap();
        for job in 0..200 {
            while workers.submit(job).is_err() {
                thread::yield_now();
            }
        }
        workers.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut all: Vec<_> = seen.try_iter().collect();
        all.sort_unstable();
        assert_eq!(all, (0..200).collect::<Vec<_>>());
    }
}
