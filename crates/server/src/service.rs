//! HTTP as a service of the engine: what every reactor's connections share.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::histogram::Histogram;
use engine::workers::{Setup, Turn};
use engine::{Connections, Driver, Io, Offload, Service, Stop, Stream, Tcp, Topology, Workers};

use crate::admission::{Admission, Rules};
use crate::auto::{Decision, Routes, Tuner, Watch};
use crate::conn::{Addresses, Context, Errand, RequestIds, Setup as ContextSetup, serve};
use crate::delay::{QueueDelay, longest};
use crate::handler::Handler;
use crate::limits::Limits;
use crate::log::{AccessLog, Logger};
use crate::metrics::{Counters, Totals};

/// What a client is told when every connection slot is taken.
macro_rules! refusal {
    ($seconds:literal) => {
        concat!(
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: ",
            $seconds,
            "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    };
}

/// The same for one client and the next, so that they do not come again all at once.
const REFUSALS: [&str; 3] = [refusal!("1"), refusal!("2"), refusal!("3")];

/// What the client is told that is the nth of those for whom there is no room.
pub(crate) fn refusal(nth: u64) -> &'static [u8] {
    REFUSALS[nth as usize % REFUSALS.len()].as_bytes()
}

/// Workers that handle requests.
pub type Pool = Workers<Arc<Errand>>;

/// HTTP/1.1 over a handler.
pub struct Http<H> {
    handler: Arc<H>,
    limits: Limits,
    counters: Vec<Arc<Counters>>,
    handled: Vec<Arc<Histogram>>,
    /// None, one for all reactors, or one for each.
    pools: Vec<Pool>,
    /// What each reactor has learned of routes, where that says which requests are for workers.
    routes: Vec<Arc<Routes>>,
    /// Where something changes while the server runs.
    tuner: Mutex<Option<Tuner>>,
    /// Who is let in.
    admission: Arc<Admission>,
    /// Connections of each address, where they are limited.
    addresses: Option<Arc<Addresses>>,
    log: Option<Arc<AccessLog>>,
    /// Whether requests have ids.
    ids: bool,
    /// Answers whose connection was gone when they came.
    abandoned: Arc<AtomicU64>,
    /// Connections that were told that there is no room.
    refused: AtomicU64,
}

impl<H: Handler> Http<H> {
    /// Serves `handler` on as many as `owners` threads that own connections, each of which handles its own requests.
    pub fn new(handler: H, limits: Limits, owners: usize) -> Self {
        Http {
            handler: Arc::new(handler),
            limits,
            counters: (0..owners).map(|_| Arc::default()).collect(),
            handled: (0..owners).map(|_| Arc::default()).collect(),
            pools: Vec::new(),
            routes: Vec::new(),
            tuner: Mutex::default(),
            admission: Arc::default(),
            addresses: Addresses::at_most(limits.connections_per_address),
            log: None,
            ids: false,
            abandoned: Arc::default(),
            refused: AtomicU64::new(0),
        }
    }

    /// Serves `handler` with the reactors and workers of a topology.
    ///
    /// # Errors
    /// The topology contradicts itself, or a worker's thread cannot be started.
    pub fn on(handler: H, limits: Limits, topology: &Topology) -> io::Result<Self> {
        Http::on_with(handler, limits, topology, &Rules::default())
    }

    /// The same, with rules about who is let in.
    ///
    /// # Errors
    /// The topology contradicts itself, or a worker's thread cannot be started.
    pub fn on_with(handler: H, limits: Limits, topology: &Topology, rules: &Rules) -> io::Result<Self> {
        topology.check().map_err(io::Error::other)?;
        let mut http = Http::new(handler, limits, topology.owners());
        for index in 0..topology.pools() {
            let (handler, abandoned, head) = (http.handler.clone(), http.abandoned.clone(), limits.head);
            let delay = limits.queue_delay.map(|target| Arc::new(QueueDelay::new(target, topology.order)));
            let longest_wait = limits.queue_delay.map(longest);
            let work = move |turn: Turn, errand: Arc<Errand>| {
                let is_late =
                    delay.as_ref().is_some_and(|delay| delay.turns_away(turn.class, turn.waited, turn.start));
                let waited_for = if is_late { errand.turn_away() } else { errand.run(&*handler, &head) };
                if !waited_for {
                    abandoned.fetch_add(1, Ordering::Relaxed);
                }
                !is_late
            };
            let name = format!("worker-{index}");
            http.pools.push(Workers::start(&name, &Setup { longest_wait, ..Setup::of(topology) }, work)?);
        }
        http.admission = Arc::new(Admission::new(rules));
        if topology.offload == Offload::Measured && topology.pools() > 0 {
            http.routes = (0..topology.owners()).map(|_| Arc::default()).collect();
        }
        http.tuner = Mutex::new(Tuner::start(Watch {
            pools: http.pools.clone(),
            most_workers: topology.is_elastic().then_some(topology.most_workers),
            routes: http.routes.clone(),
            gates: http.admission.adaptive(),
            // The bounds are for all pools together.
            most_under_way: topology.pools()
                * (topology.queue_capacity + topology.workers.max(topology.most_workers)),
        })?);
        Ok(http)
    }

    /// Who is let in.
    pub(crate) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// What the reactors have learned of routes; empty where the application says what is for workers.
    pub fn routes(&self) -> &[Arc<Routes>] {
        &self.routes
    }

    /// The latest changes of the number of workers, and why.
    pub fn decisions(&self) -> Vec<Decision> {
        self.tuner().as_ref().map(Tuner::decisions).unwrap_or_default()
    }

    /// How many changes of the number of workers there were, by reason.
    pub fn decision_counts(&self) -> Vec<(&'static str, u64)> {
        self.tuner().as_ref().map(Tuner::counts).unwrap_or_default()
    }

    /// How long the handlers took that each thread which owns connections ran itself: one request in
    /// [`SAMPLED`](crate::metrics::SAMPLED).
    pub fn handled(&self) -> &[Arc<Histogram>] {
        &self.handled
    }

    /// Writes every request down.
    pub fn with_log(mut self, log: Option<Arc<AccessLog>>) -> Self {
        self.log = log;
        self
    }

    /// Gives every request an id, unless its client did, and sends it back as X-Request-Id.
    pub fn with_request_ids(mut self, ids: bool) -> Self {
        self.ids = ids;
        self
    }

    /// The log of requests, if there is one.
    pub fn log(&self) -> Option<&AccessLog> {
        self.log.as_deref()
    }

    /// The pools of workers, if there are any.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// The handler.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// What each thread that owns connections has counted so far.
    pub fn each(&self) -> Vec<Totals> {
        self.counters.iter().map(|counters| Totals::of([counters])).collect()
    }

    /// The workers of a reactor.
    fn pool(&self, reactor: usize) -> Option<Pool> {
        self.pools.get(reactor % self.pools.len().max(1)).cloned()
    }

    /// Answers that workers brought back when their connection was gone.
    pub fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// What has been counted so far, over all reactors.
    pub fn totals(&self) -> Totals {
        Totals::of(&self.counters)
    }
}

impl<H: Handler> Service for Http<H> {
    type Local<D: Driver> = OnReactor<H>;

    fn on_reactor<D: Driver>(self: &Arc<Self>, reactor: usize, _: &Io<D>) -> OnReactor<H> {
        OnReactor(Rc::new(Context::new(ContextSetup {
            handler: self.handler.clone(),
            limits: self.limits,
            counters: self.counters[reactor].clone(),
            handled: self.handled[reactor].clone(),
            workers: self.pool(reactor),
            routes: self.routes.get(reactor).cloned(),
            admission: self.admission.clone(),
            addresses: self.addresses.clone(),
            log: self.log.clone().map(|log| Logger::new(log, reactor)),
            ids: self.ids.then(RequestIds::new),
        })))
    }

    fn refusal(&self) -> &[u8] {
        refusal(self.refused.fetch_add(1, Ordering::Relaxed))
    }
}

impl<H> Http<H> {
    fn tuner(&self) -> MutexGuard<'_, Option<Tuner>> {
        self.tuner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the workers finish what they have, and ends them.
    pub fn finish(&self) {
        // First, so that nobody is hired any more.
        drop(self.tuner().take());
        self.pools.iter().for_each(|pool| pool.close());
        self.pools.iter().for_each(|pool| pool.join());
        if let Some(log) = &self.log {
            log.finish();
        }
    }
}

impl<H> Drop for Http<H> {
    fn drop(&mut self) {
        self.finish();
    }
}

/// HTTP on one reactor.
pub struct OnReactor<H>(Rc<Context<H>>);

impl<D: Driver, H: Handler> Connections<D> for OnReactor<H> {
    fn serve(&self, stream: Stream<D>, peer: SocketAddr, stop: Stop) -> impl Future<Output = ()> + 'static {
        serve(Tcp::new(stream), self.0.clone(), peer, stop)
    }

    fn make_room(&self, connections: usize) {
        self.0.make_room(connections);
    }

    fn end_of_turn(&self) {
        self.0.wake_workers();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use engine::Model;

    use super::*;
    use crate::admission::InFlight;
    use crate::handler::{Request, Response};

    #[test]
    fn a_bound_that_finds_itself_has_room_for_the_workers_of_all_pools() {
        let row = Model::MultiReactorPool.row(4, 16);
        // All pools together have more workers than one of them has workers and places in its queue.
        let topology = Topology { workers: 64, queue_capacity: 64, ..row };
        let rules = Rules { in_flight: vec![("/".into(), InFlight::Adaptive)], ..Rules::default() };
        let handler = |_: &Request<'_>, _: &mut Response| ();
        let http = Http::on_with(handler, Limits::default(), &topology, &rules).unwrap();
        let limit = || http.admission().gates().next().unwrap().1;
        let patience = Instant::now() + Duration::from_secs(60);
        while limit() != 256 {
            assert!(Instant::now() < patience, "the bound stays at {}", limit());
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_topology_that_makes_no_sense_is_refused_before_there_is_anything_of_it() {
        let row = Model::ReactorPool.row(4, 16);
        let handler = |_: &Request<'_>, _: &mut Response| ();
        for topology in [Topology { queue_capacity: usize::MAX, ..row }, Topology { reactors: 0, ..row }] {
            assert!(Http::on(handler, Limits::default(), &topology).is_err(), "{topology:?}");
        }
    }
}
