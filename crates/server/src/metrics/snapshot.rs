//! Everything that a server knows of itself, at one moment, as plain values.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use engine::histogram::{BOUNDS, Distribution, bound};
use engine::{Kind, Topology};
use serde::Serialize;

use super::{Process, Totals};
use crate::handler::Handler;
use crate::log::AccessLog;
use crate::service::Http;

/// What is watched.
pub struct Monitor<H> {
    http: Arc<Http<H>>,
    topology: Topology,
    /// Those of the threads that own connections, and then the acceptor's, if there is one.
    counters: Vec<Arc<engine::reactor::Counters>>,
    work: fn(&H) -> Distribution,
    started: Instant,
}

/// A server at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// Of this form.
    pub schema: &'static str,
    /// Seconds since it was started.
    pub uptime_seconds: f64,
    /// The axes of its topology.
    pub topology: Vec<(&'static str, String)>,
    /// The threads that own connections. Those that own one connection each are summed.
    pub threads: Vec<Thread>,
    /// Times that accepting paused for want of descriptors or memory.
    pub accept_pauses: u64,
    /// The pools of workers.
    pub pools: Vec<Pool>,
    /// Requests and connections that were turned away, by reason.
    pub rejected: Vec<(&'static str, u64)>,
    /// Answers whose connection was gone when they came from a worker.
    pub answers_abandoned: u64,
    /// Lines of the access log that were lost.
    pub log_lines_dropped: u64,
    /// How long the business time of requests really took.
    pub work: Times,
    /// The process.
    pub process: Process,
    /// Voluntary context switches per request answered.
    pub voluntary_switches_per_request: f64,
    /// Involuntary context switches per request answered.
    pub involuntary_switches_per_request: f64,
}

/// A thread that owns connections, or all of them where each owns one.
#[derive(Clone, Debug, Serialize)]
pub struct Thread {
    /// `reactor-0` and so on, or `threads` for all of them.
    pub name: String,
    /// New connections taken in.
    pub connections_accepted: u64,
    /// Connections that came from other threads.
    pub connections_moved_in: u64,
    /// Connections that went to other threads.
    pub connections_moved_out: u64,
    /// Connections that are open now.
    pub connections_open: u64,
    /// Connections turned away because every slot was taken.
    pub connections_refused: u64,
    /// Time in which it worked instead of waiting.
    pub busy_seconds: f64,
    /// Times it came back from waiting.
    pub wake_ups: u64,
    /// What its connections counted.
    pub http: Totals,
}

/// A pool of workers.
#[derive(Clone, Debug, Serialize)]
pub struct Pool {
    /// `worker-0` and so on.
    pub name: String,
    /// Requests that wait now.
    pub queue_length: usize,
    /// Requests taken in.
    pub submitted: u64,
    /// From submission to the start of the work.
    pub wait: Times,
    /// From the start of the work to its end.
    pub service: Times,
}

/// A distribution of times.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum_seconds: f64,
    /// How many were at most so many seconds; cumulative.
    pub at_most_seconds: Vec<(f64, u64)>,
}

impl From<Distribution> for Times {
    fn from(distribution: Distribution) -> Self {
        let mut sum = 0;
        let mut cumulative = |bucket: usize| {
            sum += distribution.buckets[bucket];
            (bound(bucket).as_secs_f64(), sum)
        };
        Times {
            count: distribution.count(),
            sum_seconds: distribution.sum.as_secs_f64(),
            at_most_seconds: (0..BOUNDS).map(&mut cumulative).collect(),
        }
    }
}

impl<H: Handler> Monitor<H> {
    /// Watches a server that runs.
    pub fn new(http: Arc<Http<H>>, topology: Topology, counters: &[Arc<engine::reactor::Counters>]) -> Self {
        let work = |_: &H| Distribution::default();
        Monitor { http, topology, counters: counters.to_vec(), work, started: Instant::now() }
    }

    /// Where the handler tells how long its business time really took.
    pub fn with_work(self, work: fn(&H) -> Distribution) -> Self {
        Monitor { work, ..self }
    }

    /// What there is to see now.
    pub fn snapshot(&self) -> Snapshot {
        let (totals, process) = (self.http.totals(), Process::now());
        let threads = self.threads();
        let per_request = |switches: u64| switches as f64 / totals.requests.max(1) as f64;
        let refused: u64 = self.counters.iter().map(|counters| counters.refused.load(Relaxed)).sum();
        Snapshot {
            schema: "plimsoll.metrics/1",
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            topology: axes(&self.topology),
            threads,
            accept_pauses: self.counters.iter().map(|counters| counters.paused.load(Relaxed)).sum(),
            pools: self.pools(),
            rejected: vec![
                ("connections_full", refused),
                ("queue_full", totals.queue_refused),
                ("queue_delay", totals.queue_late),
                ("bad_head", totals.heads_refused),
                ("head_timeout", totals.head_timeouts),
                ("request_timeout", totals.request_timeouts),
                ("address_full", totals.address_refused),
                ("body", totals.bodies_not_discarded + totals.bodies_refused),
            ],
            answers_abandoned: self.http.abandoned(),
            log_lines_dropped: self.http.log().map_or(0, AccessLog::dropped),
            work: (self.work)(self.http.handler()).into(),
            voluntary_switches_per_request: per_request(process.voluntary_switches),
            involuntary_switches_per_request: per_request(process.involuntary_switches),
            process,
        }
    }

    fn threads(&self) -> Vec<Thread> {
        let now = Instant::now();
        let each = self.http.each();
        let thread = |name: String, counters: &[Arc<engine::reactor::Counters>], http: Totals| {
            let sum =
                |get: fn(&engine::reactor::Counters) -> u64| counters.iter().map(|one| get(one)).sum::<u64>();
            let accepted = sum(|one| one.accepted.load(Relaxed));
            let moved_in = sum(|one| one.moved_in.load(Relaxed));
            Thread {
                name,
                connections_accepted: accepted,
                connections_moved_in: moved_in,
                connections_moved_out: sum(|one| one.moved_out.load(Relaxed)),
                connections_open: (accepted + moved_in).saturating_sub(sum(|one| one.closed.load(Relaxed))),
                connections_refused: sum(|one| one.refused.load(Relaxed)),
                busy_seconds: counters.iter().map(|one| one.meter.busy(now)).sum::<Duration>().as_secs_f64(),
                wake_ups: sum(|one| one.meter.wake_ups()),
                http,
            }
        };
        let owners = &self.counters[..each.len().min(self.counters.len())];
        if self.topology.driver == Kind::Blocking {
            return vec![thread("threads".into(), owners, self.http.totals())];
        }
        let one = |(index, http)| thread(format!("reactor-{index}"), &owners[index..=index], http);
        each.into_iter().take(owners.len()).enumerate().map(one).collect()
    }

    fn pools(&self) -> Vec<Pool> {
        let pool = |(index, pool): (usize, &crate::service::Pool)| Pool {
            name: format!("worker-{index}"),
            queue_length: pool.waiting(),
            submitted: pool.counters().submitted.load(Relaxed),
            wait: pool.counters().wait().into(),
            service: pool.counters().service().into(),
        };
        self.http.pools().iter().enumerate().map(pool).collect()
    }
}

/// Each axis with its value.
fn axes(topology: &Topology) -> Vec<(&'static str, String)> {
    vec![
        ("driver", topology.driver.to_string()),
        ("reactors", topology.reactors.to_string()),
        ("spread", topology.spread.to_string()),
        ("balance", topology.balance.to_string()),
        ("rebalance", topology.rebalance.to_string()),
        ("workers", topology.workers.to_string()),
        ("pool", topology.pool.to_string()),
        ("queue", topology.queue.to_string()),
        ("order", topology.order.to_string()),
        ("queue_capacity", topology.queue_capacity.to_string()),
        ("connections", topology.connections.to_string()),
    ]
}
