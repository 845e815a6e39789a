//! Everything that a server knows of itself, at one moment, as plain values.

use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::histogram::Distribution;
use engine::host::{self, Cores, descriptor_limit};
use engine::{Kind, Pressure, Running, Shift, Topology, Workers};
use serde::Serialize;

use super::headroom::{Headroom, Look, Looks};
use super::times::Times;
use super::{Process, Totals};
use crate::auto::{Decision, Route, Routes};
use crate::handler::Handler;
use crate::log::AccessLog;
use crate::service::Http;

/// Routes of a reactor that are told of.
const ROUTES: usize = 32;

/// What all threads that own one connection each are called.
const THREADS: &str = "threads";

/// What is watched.
pub struct Monitor<H> {
    http: Arc<Http<H>>,
    topology: Topology,
    /// Those of the threads that own connections, and then the acceptor's, if there is one.
    counters: Vec<Arc<engine::meter::Counters>>,
    /// How many of them are reactors that work.
    shift: Shift,
    /// Threads that own a connection each, and the queue before them, where there is one.
    pool_of_threads: Option<Workers<(OwnedFd, SocketAddr)>>,
    pressure: Pressure,
    work: fn(&H) -> Distribution,
    started: Instant,
    looks: Mutex<Looks>,
    /// Descriptors that there may be.
    descriptors: Option<u64>,
}

/// A server at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// Of this form.
    pub schema: &'static str,
    /// Seconds since it was started.
    pub uptime_seconds: f64,
    /// How much more it carries, and what runs out first.
    pub headroom: Headroom,
    /// The axes of its topology.
    pub topology: Vec<(&'static str, String)>,
    /// Reactors that work. The others rest: their number follows the processors that may be used.
    pub reactors_working: usize,
    /// The threads that own connections. Those that own one connection each are summed.
    pub threads: Vec<Thread>,
    /// How scarce the memory of the cgroup is: `enough`, `scarce`, `lasting` or `out`.
    pub memory: &'static str,
    /// The same as a number from 0 on.
    pub memory_pressure: u8,
    /// Times that accepting paused for want of descriptors or memory.
    pub accept_pauses: u64,
    /// The pools of workers.
    pub pools: Vec<Pool>,
    /// The latest changes of the number of workers, and why.
    pub decisions: Vec<Decision>,
    /// How many there were, by reason.
    pub decision_counts: Vec<(&'static str, u64)>,
    /// Bounds on requests under way.
    pub gates: Vec<Gate>,
    /// What was learned of routes, reactor by reactor, those with the most requests first.
    pub routes: Vec<RouteOfReactor>,
    /// How often a reactor has taken a route to itself, and given one to the workers.
    pub route_moves: RouteMoves,
    /// Handlers that held up their reactor for a millisecond or more.
    pub reactor_stalls: u64,
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
    /// How long the handlers took that it ran itself: one request in [`SAMPLED`](super::SAMPLED).
    pub handled: Times,
    /// What its connections counted.
    pub http: Totals,
}

/// A pool of workers, whose work are requests; or of threads that own a connection each, whose work are those.
#[derive(Clone, Debug, Serialize)]
pub struct Pool {
    /// `worker-0` and so on, or `threads` for those that own connections.
    pub name: String,
    /// Workers there are.
    pub workers: usize,
    /// Those of them that wait for work.
    pub idle: usize,
    /// Requests, or connections, that wait now.
    pub queue_length: usize,
    /// Requests, or connections, taken in.
    pub submitted: u64,
    /// From submission to the start of the work.
    pub wait: Times,
    /// From the start of the work to its end.
    pub service: Times,
}

/// A bound on requests that are with the workers at once.
#[derive(Clone, Debug, Serialize)]
pub struct Gate {
    /// How the paths begin that it is for.
    pub route: String,
    /// The bound as it is now.
    pub limit: usize,
    /// Requests that are under way.
    pub under_way: usize,
}

/// Routes that have moved, of all reactors together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RouteMoves {
    /// From the workers to a reactor.
    pub to_reactor: u64,
    /// From a reactor to the workers.
    pub to_workers: u64,
}

/// What a reactor has learned of a route.
#[derive(Clone, Debug, Serialize)]
pub struct RouteOfReactor {
    /// Index of the reactor.
    pub reactor: usize,
    /// What it has learned.
    #[serde(flatten)]
    pub route: Route,
}

impl<H: Handler> Monitor<H> {
    /// Watches a server that runs.
    pub fn new(http: Arc<Http<H>>, topology: Topology, running: &Running) -> Self {
        let work = |_: &H| Distribution::default();
        Monitor {
            http,
            topology,
            counters: running.counters().to_vec(),
            shift: running.shift(),
            pool_of_threads: running.pool_of_threads().cloned(),
            pressure: running.pressure(),
            work,
            started: Instant::now(),
            looks: Mutex::new(Looks::from(Instant::now())),
            descriptors: descriptor_limit(),
        }
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
        let pools = self.pools();
        let headroom = self
            .looks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .look(Instant::now(), || self.look(&totals, &threads, &pools, &process));
        let pressure = self.pressure.level();
        Snapshot {
            schema: "plimsoll.metrics/1",
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            headroom,
            topology: axes(&self.topology),
            reactors_working: self.shift.working(),
            threads,
            memory: pressure.name(),
            memory_pressure: pressure as u8,
            accept_pauses: self.sum(|one| one.paused.load(Relaxed)),
            pools,
            decisions: self.http.decisions(),
            decision_counts: self.http.decision_counts(),
            gates: self.gates(),
            routes: self.routes(),
            route_moves: self.route_moves(),
            reactor_stalls: self.http.routes().iter().map(|routes| routes.stalls()).sum(),
            rejected: self.rejected(&totals),
            answers_abandoned: self.http.abandoned(),
            log_lines_dropped: self.http.log().map_or(0, AccessLog::dropped),
            work: (self.work)(self.http.handler()).into(),
            voluntary_switches_per_request: per_request(process.voluntary_switches),
            involuntary_switches_per_request: per_request(process.involuntary_switches),
            process,
        }
    }

    /// A counter of all threads together.
    fn sum(&self, get: fn(&engine::meter::Counters) -> u64) -> u64 {
        self.counters.iter().map(|one| get(one)).sum()
    }

    /// Requests and connections that were turned away, by reason.
    fn rejected(&self, totals: &Totals) -> Vec<(&'static str, u64)> {
        let no_thread = self.pool_of_threads.as_ref().map_or(0, |pool| pool.counters().refused.load(Relaxed));
        vec![
            ("connections_full", self.sum(|one| one.refused.load(Relaxed))),
            ("memory", self.sum(|one| one.turned_away.load(Relaxed))),
            ("queue_full", totals.queue_refused + no_thread),
            ("queue_delay", totals.queue_late),
            ("in_flight", totals.in_flight_refused),
            ("rate", totals.rate_limited),
            ("bad_head", totals.heads_refused),
            ("head_timeout", totals.head_timeouts),
            ("request_timeout", totals.request_timeouts),
            ("address_full", totals.address_refused),
            ("body", totals.bodies_not_discarded + totals.bodies_refused),
        ]
    }

    /// How much of each thing that can run out was used so far, or is taken.
    fn look(&self, totals: &Totals, threads: &[Thread], pools: &[Pool], process: &Process) -> Look {
        let blocking = self.topology.driver == Kind::Blocking;
        let each = if blocking { self.topology.workers as f64 } else { 1.0 };
        let mut times: Vec<_> =
            threads.iter().map(|thread| (thread.name.clone(), thread.busy_seconds, each)).collect();
        // Threads that own a connection each have told of their time already.
        if !blocking {
            let workers = self.topology.workers.max(self.topology.most_workers) as f64;
            times.extend(pools.iter().map(|pool| (pool.name.clone(), pool.service.sum_seconds, workers)));
        }
        let used = process.cpu_user_seconds + process.cpu_system_seconds;
        times.push(("processors".into(), used, Cores::detect().time()));
        let open: u64 = threads.iter().map(|thread| thread.connections_open).sum();
        let most = self.topology.all_connections(threads.len());
        let mut counts = vec![("connections", open as f64, most as f64)];
        counts.extend(self.descriptors.map(|most| ("descriptors", process.descriptors as f64, most as f64)));
        counts.extend(host::memory_in_use().map(|share| ("memory", share, 1.0)));
        Look { requests: totals.carried(), times, counts }
    }

    fn threads(&self) -> Vec<Thread> {
        let now = Instant::now();
        let each = self.http.each();
        let handled = self.http.handled();
        let thread = |name: String, of: Range<usize>, http: Totals| {
            let counters = &self.counters[of.clone()];
            let sum =
                |get: fn(&engine::meter::Counters) -> u64| counters.iter().map(|one| get(one)).sum::<u64>();
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
                handled: Distribution::of(
                    handled[of.start..of.end.min(handled.len())].iter().map(|one| &**one),
                )
                .into(),
                http,
            }
        };
        let owners = match self.topology.driver {
            Kind::Blocking => each.len().min(self.counters.len()),
            // The others are not there yet.
            _ => self.shift.started(),
        };
        if self.topology.driver == Kind::Blocking {
            let threads = thread(THREADS.into(), 0..owners, self.http.totals());
            // It is the acceptor that turns away for them.
            return vec![Thread {
                connections_refused: self.sum(|one| one.refused.load(Relaxed)),
                ..threads
            }];
        }
        let one = |(index, http)| thread(format!("reactor-{index}"), index..index + 1, http);
        each.into_iter().take(owners).enumerate().map(one).collect()
    }

    fn gates(&self) -> Vec<Gate> {
        let gate =
            |(route, limit, under_way): (&str, usize, usize)| Gate { route: route.into(), limit, under_way };
        self.http.admission().gates().map(gate).collect()
    }

    fn routes(&self) -> Vec<RouteOfReactor> {
        let of = |(reactor, routes): (usize, &Arc<Routes>)| {
            let mut known = routes.known();
            known.sort_by_key(|route| std::cmp::Reverse(route.requests));
            known
                .into_iter()
                .take(ROUTES)
                .map(move |route| RouteOfReactor { reactor, route })
                .collect::<Vec<_>>()
        };
        self.http.routes().iter().enumerate().flat_map(of).collect()
    }

    fn route_moves(&self) -> RouteMoves {
        self.http.routes().iter().map(|routes| routes.moves()).fold(
            RouteMoves::default(),
            |sum, (here, away)| RouteMoves {
                to_reactor: sum.to_reactor + here,
                to_workers: sum.to_workers + away,
            },
        )
    }

    fn pools(&self) -> Vec<Pool> {
        let of_requests = self.http.pools().iter().enumerate();
        let of_requests = of_requests.map(|(index, pool)| Pool::of(format!("worker-{index}"), pool));
        let of_connections = self.pool_of_threads.iter().map(|pool| Pool::of(THREADS.into(), pool));
        of_requests.chain(of_connections).collect()
    }
}

impl Pool {
    fn of<J>(name: String, pool: &Workers<J>) -> Self {
        Pool {
            name,
            workers: pool.size(),
            idle: pool.idle(),
            queue_length: pool.waiting(),
            submitted: pool.counters().submitted.load(Relaxed),
            wait: pool.counters().wait().into(),
            service: pool.counters().service().into(),
        }
    }
}

/// Each axis with its value.
fn axes(topology: &Topology) -> Vec<(&'static str, String)> {
    vec![
        ("driver", topology.driver.to_string()),
        ("reactors", topology.reactors.to_string()),
        ("most_reactors", topology.most_reactors.max(topology.reactors).to_string()),
        ("spread", topology.spread.to_string()),
        ("balance", topology.balance.to_string()),
        ("rebalance", topology.rebalance.to_string()),
        ("workers", topology.workers.to_string()),
        ("most_workers", topology.most_workers.max(topology.workers).to_string()),
        ("pool", topology.pool.to_string()),
        ("offload", topology.offload.to_string()),
        ("queue", topology.queue.to_string()),
        ("order", topology.order.to_string()),
        ("queue_capacity", topology.queue_capacity.to_string()),
        ("connections", topology.connections.to_string()),
    ]
}
