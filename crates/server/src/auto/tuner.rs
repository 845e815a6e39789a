//! The thread that watches a server at work: it changes the size of its pools, and names what holds up a reactor.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::processors::Processors;
use super::{Observation, PoolSize, Reason, Routes, Stall};
use crate::admission::{Gate, Seen, next};
use crate::service::Pool;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(25);

/// Looks after which the pools are decided about.
const LOOKS: usize = 4;

/// Time between two looks while nobody asks for anything.
const QUIET_LOOK: Duration = Duration::from_millis(250);

/// Fewest requests whose waits say anything.
const FEWEST: u64 = 10;

/// Decisions that are remembered.
const REMEMBERED: usize = 64;

/// A pool that has changed its size.
#[derive(Clone, Debug, Serialize)]
pub struct Decision {
    /// Seconds since the server was started.
    pub at_seconds: f64,
    /// Which pool.
    pub pool: usize,
    /// Workers before and after.
    pub from: usize,
    /// Workers after.
    pub to: usize,
    /// Why.
    pub reason: &'static str,
}

/// The thread, which ends when this is dropped.
pub(crate) struct Tuner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What there is to watch over.
pub(crate) struct Watch {
    pub(crate) pools: Vec<Pool>,
    /// Most workers of each pool, if their number follows the work.
    pub(crate) most_workers: Option<usize>,
    /// What each reactor learns of its routes.
    pub(crate) routes: Vec<Arc<Routes>>,
    /// Bounds on requests under way that find themselves, and the most that they may become.
    pub(crate) gates: Vec<Arc<Gate>>,
    pub(crate) most_under_way: usize,
}

#[derive(Default)]
struct Shared {
    stop: Mutex<bool>,
    changed: Condvar,
    decisions: Mutex<VecDeque<Decision>>,
    /// How many there were, for each reason.
    counts: [AtomicU64; Reason::ALL.len()],
}

impl Tuner {
    /// Watches over what there is to watch over; `None` if that is nothing.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(watch: Watch) -> io::Result<Option<Self>> {
        let Watch { pools, most_workers, routes, gates, most_under_way } = watch;
        if most_workers.is_none() && routes.is_empty() && gates.is_empty() {
            return Ok(None);
        }
        let shared = Arc::new(Shared::default());
        let processors = Processors::new();
        let least = least(&processors, pools.len());
        let size = || most_workers.map(|most| PoolSize::new(least, most));
        let pools = pools.into_iter().map(|pool| Watched::new(pool, size())).collect();
        let reactors = routes.into_iter().map(|routes| (routes, None)).collect();
        let begun = Instant::now();
        let rounds =
            Rounds { pools, reactors, gates, most_under_way, processors, begun, shared: shared.clone() };
        let thread = thread::Builder::new().name("tuner".into()).spawn(move || rounds.run())?;
        Ok(Some(Tuner { shared, thread: Some(thread) }))
    }

    /// How many decisions there were, by reason.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        let count = |reason: Reason| (reason.name(), self.shared.counts[reason as usize].load(Relaxed));
        Reason::ALL.map(count).to_vec()
    }

    /// The latest decisions, the oldest first.
    pub(crate) fn decisions(&self) -> Vec<Decision> {
        lock(&self.shared.decisions).iter().cloned().collect()
    }
}

impl Drop for Tuner {
    fn drop(&mut self) {
        *lock(&self.shared.stop) = true;
        self.shared.changed.notify_all();
        // Its panic would be a defect, and is no reason for another one here.
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fewest workers of each of some pools: together one per processor.
fn least(processors: &Processors, pools: usize) -> usize {
    processors.usable().div_ceil(pools.max(1))
}

/// A pool, and what was seen of it.
struct Watched {
    pool: Pool,
    /// Where the number of workers follows the work.
    size: Option<PoolSize>,
    /// Sum and number of the looks at how many workers work.
    busy: (usize, usize),
    done: u64,
    since: Instant,
    /// Requests that began, and the sums of their waits and of the work, when they were last asked for.
    times: (u64, f64, f64),
}

impl Watched {
    fn new(pool: Pool, size: Option<PoolSize>) -> Self {
        Watched { pool, size, busy: (0, 0), done: 0, since: Instant::now(), times: (0, 0.0, 0.0) }
    }

    /// Whether it has no more workers than it must.
    fn is_small(&self) -> bool {
        self.size.as_ref().is_none_or(|size| self.pool.size() <= size.least())
    }

    fn look(&mut self) {
        self.busy.0 += self.pool.size().saturating_sub(self.pool.idle());
        self.busy.1 += 1;
    }

    /// Requests that began since the last time, and the sums of their waits and of the work, in seconds; `None` while there are
    /// too few to say anything.
    fn times(&mut self) -> Option<(u64, f64, f64)> {
        let (wait, work) = (self.pool.counters().wait(), self.pool.counters().service());
        let now = (wait.count(), wait.sum.as_secs_f64(), work.sum.as_secs_f64());
        if now.0 - self.times.0 < FEWEST {
            return None;
        }
        let before = std::mem::replace(&mut self.times, now);
        Some((now.0 - before.0, now.1 - before.1, now.2 - before.2))
    }

    /// What was seen since the last time.
    fn observation(&mut self, now: Instant, (cores_busy, own_busy): (f64, f64)) -> Observation {
        let done = self.pool.counters().done();
        let seen = Observation {
            seconds: now.saturating_duration_since(self.since).as_secs_f64(),
            workers: self.pool.size(),
            busy: self.busy.0 as f64 / self.busy.1.max(1) as f64,
            waiting: self.pool.waiting(),
            done: done - self.done,
            cores_busy,
            own_busy,
        };
        (self.busy, self.done, self.since) = ((0, 0), done, now);
        seen
    }
}

/// The thread's work.
struct Rounds {
    pools: Vec<Watched>,
    gates: Vec<Arc<Gate>>,
    most_under_way: usize,
    /// Each reactor's routes, and the stall that was told of last.
    reactors: Vec<(Arc<Routes>, Option<String>)>,
    processors: Processors,
    begun: Instant,
    shared: Arc<Shared>,
}

impl Rounds {
    fn run(mut self) {
        let (mut looks, mut asked) = (0, 0);
        loop {
            let before = std::mem::replace(&mut asked, self.asked());
            // A pool that has grown is to be seen idle, so that it shrinks.
            let is_quiet = before == asked && self.pools.iter().all(Watched::is_small);
            let pause = if is_quiet { QUIET_LOOK } else { LOOK };
            let stop = lock(&self.shared.stop);
            let (stop, _) =
                self.shared.changed.wait_timeout(stop, pause).unwrap_or_else(PoisonError::into_inner);
            if *stop {
                return;
            }
            drop(stop);
            self.watch_reactors();
            self.pools.iter_mut().for_each(Watched::look);
            looks += 1;
            if looks % LOOKS == 0 {
                self.bound();
                self.decide();
            }
        }
    }

    /// Requests that were handed over or begun so far.
    fn asked(&self) -> u64 {
        let submitted = self.pools.iter().map(|watched| watched.pool.counters().submitted.load(Relaxed));
        submitted.chain(self.reactors.iter().map(|(routes, _)| routes.calls())).sum()
    }

    /// Tells of each handler that holds up its reactor, once, and keeps the other reactors from it.
    fn watch_reactors(&mut self) {
        let now = Instant::now();
        let mut keys = Vec::new();
        for (reactor, (routes, told)) in self.reactors.iter_mut().enumerate() {
            keys.extend(routes.take_held_up_by().map(|key| (reactor, key)));
            let Some(Stall { route, held_up, key }) = routes.stalled(now) else {
                *told = None;
                continue;
            };
            keys.push((reactor, key));
            if told.as_ref() != Some(&route) {
                let what = "a handler holds up its reactor: it goes to the workers";
                tracing::warn!(reactor, route, ?held_up, "{what}");
                *told = Some(route);
            }
        }
        for (stalled, key) in keys {
            let others = self.reactors.iter().enumerate().filter(|(reactor, _)| *reactor != stalled);
            others.for_each(|(_, (routes, _))| _ = routes.distrust(key, now));
        }
    }

    /// Lets the bounds on requests under way follow the waits.
    fn bound(&mut self) {
        if self.gates.is_empty() {
            return;
        }
        let mut seen = Seen::default();
        let (mut wait_s, mut work_s) = (0.0, 0.0);
        for watched in &mut self.pools {
            seen.workers += watched.pool.size();
            let Some((requests, wait, work)) = watched.times() else { continue };
            seen.requests += requests;
            wait_s += wait;
            work_s += work;
        }
        let requests = seen.requests.max(1) as f64;
        (seen.wait_s, seen.work_s) = (wait_s / requests, work_s / requests);
        for (nth, gate) in self.gates.iter().enumerate() {
            let (before, seen) = (gate.limit(), Seen { under_way: gate.under_way(), ..seen });
            let limit = next(before, self.most_under_way, &seen);
            if limit != before {
                tracing::debug!(
                    gate = nth,
                    from = before,
                    to = limit,
                    ?seen,
                    "a bound on requests under way"
                );
            }
            gate.set_limit(limit);
        }
    }

    fn decide(&mut self) {
        let now = Instant::now();
        if self.processors.have_changed(now) {
            let least = least(&self.processors, self.pools.len());
            tracing::info!(usable = self.processors.usable(), "the number of usable processors has changed");
            self.pools
                .iter_mut()
                .filter_map(|watched| watched.size.as_mut())
                .for_each(|size| size.bounds(least));
        }
        let busy = self.processors.busy(now);
        for (index, watched) in self.pools.iter_mut().enumerate() {
            let seen = watched.observation(now, busy);
            let Some((to, reason)) = watched.size.as_mut().and_then(|size| size.step(&seen)) else {
                continue;
            };
            tracing::debug!(pool = index, from = seen.workers, to, reason = reason.text(), ?seen, "workers");
            if let Err(error) = watched.pool.resize(to) {
                tracing::warn!(pool = index, to, %error, "not as many workers can be started");
                watched.size.iter_mut().for_each(PoolSize::refused);
                continue;
            }
            self.shared.counts[reason as usize].fetch_add(1, Relaxed);
            let at_seconds = self.begun.elapsed().as_secs_f64();
            let (pool, from) = (index, seen.workers);
            let decision = Decision { at_seconds, pool, from, to, reason: reason.text() };
            let mut decisions = lock(&self.shared.decisions);
            if decisions.len() == REMEMBERED {
                decisions.pop_front();
            }
            decisions.push_back(decision);
        }
    }
}
