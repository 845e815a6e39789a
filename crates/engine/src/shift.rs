//! Which reactors work and which rest: as many work as processors may be used.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crate::join;
use crate::rebalance::Exchange;

/// How many reactors of a server work: those with the lowest numbers. The others rest: they hand what comes to them to those.
#[derive(Clone, Debug)]
pub struct Shift(Arc<Numbers>);

#[derive(Debug)]
struct Numbers {
    working: AtomicUsize,
    started: AtomicUsize,
}

impl Shift {
    /// So many are started, and all of them work.
    pub(crate) fn of(reactors: usize) -> Self {
        Shift(Arc::new(Numbers { working: AtomicUsize::new(reactors), started: AtomicUsize::new(reactors) }))
    }

    /// Reactors that work; 0 where threads own one connection each.
    pub fn working(&self) -> usize {
        self.0.working.load(Ordering::Relaxed)
    }

    /// Reactors that there are, those that rest included.
    pub fn started(&self) -> usize {
        self.0.started.load(Ordering::Relaxed)
    }

    /// So many work from now on.
    pub(crate) fn set_working(&self, reactors: usize) {
        self.0.working.store(reactors, Ordering::Relaxed);
    }
}

/// Starts one more reactor and returns once it serves, with its thread.
pub(crate) type Starter = Box<dyn FnOnce() -> io::Result<JoinHandle<()>> + Send>;

/// Lets the number of reactors that work follow the processors.
pub(crate) struct Follower {
    pub(crate) exchange: Arc<Exchange>,
    /// How many processors may be used now.
    pub(crate) usable: fn() -> usize,
    /// The reactors that are not started yet, the next one first.
    pub(crate) later: VecDeque<Starter>,
    /// The threads of those that were.
    pub(crate) threads: Vec<JoinHandle<()>>,
}

impl Follower {
    /// Starts no more, and waits until those that it has started have ended.
    ///
    /// # Errors
    /// One of those panicked.
    pub(crate) fn end(self) -> io::Result<()> {
        // They hold listening sockets, in which nobody is to wait while requests under way finish.
        drop(self.later);
        join::all(self.threads)
    }

    /// Looks once: starts reactors, wakes those that rest, or lets some rest.
    pub(crate) fn look(&mut self) {
        let shift = self.exchange.shift().clone();
        let usable = (self.usable)();
        while shift.started() < usable
            && let Some(start) = self.later.pop_front()
        {
            match start() {
                Ok(thread) => {
                    self.threads.push(thread);
                    shift.0.started.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    tracing::warn!(%error, "no more reactors can be started: it goes on with those that there are");
                    self.later.clear();
                }
            }
        }
        let (from, to) = (shift.working(), usable.clamp(1, shift.started()));
        if from != to {
            self.exchange.set_working(to);
            tracing::info!(from, to, usable, "the number of reactors follows the usable processors");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::Places;

    static USABLE: AtomicUsize = AtomicUsize::new(0);

    fn follower(started: usize, later: impl IntoIterator<Item = Starter>) -> Follower {
        let reactors = (0..8).map(|_| (Arc::default(), Places::new(10)));
        let exchange = Arc::new(Exchange::new(reactors, Shift::of(started)));
        let usable = || USABLE.load(Ordering::Relaxed);
        Follower { exchange, usable, later: later.into_iter().collect(), threads: Vec::new() }
    }

    /// Who works and who is there, once so many processors may be used.
    fn with(follower: &mut Follower, usable: usize) -> (usize, usize) {
        USABLE.store(usable, Ordering::Relaxed);
        follower.look();
        (follower.exchange.shift().working(), follower.exchange.shift().started())
    }

    #[test]
    fn as_many_work_as_there_are_processors_and_more_are_started_where_they_can() {
        let good = || -> Starter { Box::new(|| Ok(std::thread::spawn(|| ()))) };
        let bad = || -> Starter { Box::new(|| Err(io::ErrorKind::OutOfMemory.into())) };
        let mut one = follower(2, [good(), good()]);
        let seen = [2, 1, 0, 2, 3, 64, 1, 4].map(|usable| with(&mut one, usable));
        assert_eq!(seen, [(2, 2), (1, 2), (1, 2), (2, 2), (3, 3), (4, 4), (1, 4), (4, 4)]);
        one.end().unwrap();
        // What cannot be started is not tried again and again.
        let mut other = follower(1, [good(), bad(), good()]);
        assert_eq!([3, 3, 4].map(|usable| with(&mut other, usable)), [(2, 2), (2, 2), (2, 2)]);
    }
}
