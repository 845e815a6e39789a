//! Starting and stopping: a topology becomes threads, and the threads become a running server.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::accept::{Accepted, Refusal, run_acceptor};
use crate::balance::Balancer;
use crate::driver::Driver;
use crate::driver::epoll::Epoll;
use crate::driver::uring::Uring;
use crate::inbox::Inbox;
use crate::join;
use crate::listen::local_address;
use crate::lookout::Lookout;
use crate::meter::Counters;
use crate::places::Places;
use crate::pressure::Pressure;
use crate::reactor::{Reactor, Sharing, Source};
use crate::rebalance::Exchange;
use crate::service::Service;
use crate::settings::{Listeners, Settings};
use crate::shift::{Follower, Shift, Starter};
use crate::stop::Stop;
use crate::threads::Threads;
use crate::topology::{Kind, Spread};
use crate::workers::Workers;

/// A server that runs in threads of its own.
pub struct Running {
    address: SocketAddr,
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
    reports: mpsc::Receiver<Report>,
    counters: Vec<Arc<Counters>>,
    pool: Arc<OnceLock<Workers<Accepted>>>,
    shift: Shift,
    pressure: Pressure,
}

/// What a thread tells of itself.
enum Report {
    /// It has all that it needs and serves.
    Up,
    /// It has ended.
    Ended(io::Result<()>),
}

/// Starts a server, and returns when all of its threads serve.
///
/// # Errors
/// The topology contradicts itself, the address cannot be listened on, a thread cannot be started, or it cannot get
/// what it needs.
pub fn start<S: Service>(settings: &Settings, service: Arc<S>) -> io::Result<Running> {
    start_on(settings, settings.listen()?, service)
}

/// The same, on what these settings already listen on.
///
/// # Errors
/// A thread cannot be started, or it cannot get what it needs.
pub fn start_on<S: Service>(
    settings: &Settings,
    Listeners(listeners): Listeners,
    service: Arc<S>,
) -> io::Result<Running> {
    let topology = &settings.topology;
    let (report, reports) = mpsc::channel();
    let mut running = Running {
        address: local_address(&listeners[0])?,
        stop: Stop::default(),
        threads: Vec::new(),
        reports,
        counters: (0..topology.owners()).map(|_| Arc::default()).collect(),
        pool: Arc::default(),
        shift: Shift::of(topology.reactors),
        pressure: Pressure::default(),
    };
    let follower = match topology.driver {
        Kind::Blocking => running.start_threads(settings, service, listeners, &report)?,
        Kind::Epoll => running.start_reactors::<Epoll, S>(settings, &service, listeners, &report)?,
        Kind::Uring => running.start_reactors::<Uring, S>(settings, &service, listeners, &report)?,
    };
    running.look_out(
        Lookout { follower, memory: settings.memory, pressure: running.pressure.clone() },
        &report,
    )?;
    running.wait_until_up()?;
    Ok(running)
}

type Acceptor = (OwnedFd, Vec<Arc<Inbox<Accepted>>>);

/// Where each reactor's connections come from, and what the acceptor needs if there is one.
fn sources(settings: &Settings, mut listeners: Vec<OwnedFd>) -> io::Result<(Vec<Source>, Option<Acceptor>)> {
    let topology = &settings.topology;
    let reactors = 0..topology.owners();
    Ok(match topology.spread {
        Spread::ReusePort => {
            let source = |(index, fd)| match index < topology.reactors {
                true => Source::Listener(fd, Sharing::Own),
                false => Source::Bound(fd, settings.backlog),
            };
            (listeners.into_iter().enumerate().map(source).collect(), None)
        }
        Spread::Shared => {
            let share = |_| Ok(Source::Listener(listeners[0].try_clone()?, Sharing::Shared));
            (reactors.map(share).collect::<io::Result<_>>()?, None)
        }
        Spread::Acceptor => {
            let inboxes: Vec<_> = reactors.map(|_| Arc::new(Inbox::default())).collect();
            let sources = inboxes.iter().cloned().map(Source::Inbox).collect();
            (sources, listeners.pop().map(|listener| (listener, inboxes)))
        }
    })
}

impl Running {
    /// Starts the threads that own many connections each; gives what lets their number follow the processors, if it does.
    fn start_reactors<D: Driver, S: Service>(
        &mut self,
        settings: &Settings,
        service: &Arc<S>,
        listeners: Vec<OwnedFd>,
        report: &mpsc::Sender<Report>,
    ) -> io::Result<Option<Follower>> {
        let topology = &settings.topology;
        let (sources, acceptor) = sources(settings, listeners)?;
        let each = self.counters.clone();
        let all = (topology.most_connections > 0).then(|| Places::new(topology.most_connections));
        let places = |reactor| Places::of(all.as_ref(), topology.connections_of(reactor));
        let places: Vec<Arc<Places>> = (0..each.len()).map(places).collect();
        let reactors = each.iter().cloned().zip(places.iter().cloned());
        let exchange = topology.rebalances().then(|| Arc::new(Exchange::new(reactors, self.shift.clone())));
        let mut later = VecDeque::new();
        for (index, (source, counters)) in sources.into_iter().zip(&each).enumerate() {
            let reactor = Reactor {
                index,
                places: places[index].clone(),
                source,
                service: service.clone(),
                counters: counters.clone(),
                exchange: exchange.clone(),
                stop: self.stop.clone(),
                pressure: self.pressure.clone(),
                drain: settings.drain,
                cpu: settings.cpus.get(index % settings.cpus.len().max(1)).copied(),
            };
            let name = format!("reactor-{index}");
            let run = move |up: &dyn Fn()| reactor.run::<D>(up);
            if index < topology.reactors {
                self.spawn(name, report, run)?;
            } else {
                later.push_back(starter(name, report, &self.stop, run));
            }
        }
        let usable = settings.usable;
        let follows = exchange.filter(|_| topology.follows_processors());
        let follower = follows.map(|exchange| Follower { exchange, usable, later, threads: Vec::new() });
        let Some((listener, inboxes)) = acceptor else { return Ok(follower) };
        let counters = Arc::new(Counters::default());
        self.counters.push(counters.clone());
        let balancer = Balancer::new(topology.balance, &each, self.shift.clone(), Instant::now());
        let (stop, pressure, service) = (self.stop.clone(), self.pressure.clone(), service.clone());
        self.spawn("acceptor".into(), report, move |up| {
            let refusal = || service.refusal();
            let (own, switches) = ((&*counters, &refusal as &Refusal<'_>), (&stop, &pressure));
            let result = run_acceptor::<D>(listener, &inboxes, balancer, own, switches, up);
            // However it ended: the reactors wait for this before they let their last connections finish.
            inboxes.iter().for_each(|inbox| inbox.close());
            result
        })?;
        Ok(follower)
    }

    /// Starts the acceptor of threads that own one connection each; it starts them.
    fn start_threads<S: Service>(
        &mut self,
        settings: &Settings,
        service: Arc<S>,
        mut listeners: Vec<OwnedFd>,
        report: &mpsc::Sender<Report>,
    ) -> io::Result<Option<Follower>> {
        self.counters.push(Arc::default());
        let listener = listeners.pop().ok_or(io::ErrorKind::NotFound)?;
        let threads = Threads {
            topology: settings.topology,
            listener,
            service,
            counters: self.counters.clone(),
            pool: self.pool.clone(),
            stop: self.stop.clone(),
            pressure: self.pressure.clone(),
            drain: settings.drain,
        };
        self.spawn("acceptor".into(), report, move |up| threads.run(up))?;
        Ok(None)
    }

    /// Starts the thread that looks at what the host grants, if there is anything to look at.
    fn look_out(&mut self, lookout: Lookout, report: &mpsc::Sender<Report>) -> io::Result<()> {
        if lookout.follower.is_none() && lookout.memory.is_none() {
            return Ok(());
        }
        let stop = self.stop.clone();
        self.spawn("lookout".into(), report, move |up| {
            up();
            lookout.run(&stop)
        })
    }
}

/// What starts a reactor while the server runs. One that does not come to serve is no reason to end it; one that fails later
/// is, as with those that were there from the start.
fn starter(
    name: String,
    report: &mpsc::Sender<Report>,
    stop: &Stop,
    body: impl FnOnce(&dyn Fn()) -> io::Result<()> + Send + 'static,
) -> Starter {
    let (report, stop) = (report.clone(), stop.clone());
    Box::new(move || {
        let (begun, begins) = mpsc::channel();
        let thread = thread::Builder::new().name(name).spawn(move || {
            let (up, fatal) = (Cell::new(false), Fatal(Some(stop)));
            let result = body(&|| {
                up.set(true);
                let _ = begun.send(Ok(()));
            });
            if result.is_ok() || !up.get() {
                fatal.was_not();
            }
            if !up.get() {
                let _ = begun.send(result);
                return;
            }
            let _ = report.send(Report::Ended(result));
        })?;
        begins.recv().map_err(|_| io::Error::other("it panicked as it started"))??;
        Ok(thread)
    })
}

/// Ends the server when it is dropped, also by a panic: one thread that cannot go on must not leave a part of it deaf.
struct Fatal(Option<Stop>);

impl Fatal {
    /// The thread has come to a proper end.
    fn was_not(mut self) {
        self.0 = None;
    }
}

impl Drop for Fatal {
    fn drop(&mut self) {
        self.0.iter().for_each(Stop::set);
    }
}

impl Running {
    fn spawn(
        &mut self,
        name: String,
        report: &mpsc::Sender<Report>,
        body: impl FnOnce(&dyn Fn()) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let (report, stop) = (report.clone(), self.stop.clone());
        let thread = thread::Builder::new().name(name).spawn(move || {
            let fatal = Fatal(Some(stop));
            let result = body(&|| drop(report.send(Report::Up)));
            if result.is_ok() {
                fatal.was_not();
            }
            let _ = report.send(Report::Ended(result));
        });
        match thread {
            Ok(thread) => self.threads.push(thread),
            Err(error) => {
                self.stop.set();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits for every thread to serve, or for the first that cannot.
    fn wait_until_up(&mut self) -> io::Result<()> {
        for _ in 0..self.threads.len() {
            match self.reports.recv() {
                Ok(Report::Up) => {}
                Ok(Report::Ended(Err(error))) => {
                    self.stop.set();
                    return Err(error);
                }
                Ok(Report::Ended(Ok(()))) | Err(_) => {
                    self.stop.set();
                    return Err(io::Error::other("a thread of the server ended as it started"));
                }
            }
        }
        Ok(())
    }

    /// The address that clients can connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The switch that stops the server.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// The counters of every thread that owns connections, or will where it is started later, and last those of the acceptor
    /// where there is one.
    pub fn counters(&self) -> &[Arc<Counters>] {
        &self.counters
    }

    /// The pool of threads that own a connection each and the queue before it, where there is one.
    pub fn pool_of_threads(&self) -> Option<&Workers<Accepted>> {
        self.pool.get()
    }

    /// How many of the reactors work.
    pub fn shift(&self) -> Shift {
        self.shift.clone()
    }

    /// How scarce memory is.
    pub fn pressure(&self) -> Pressure {
        self.pressure.clone()
    }

    /// Waits until every thread has ended.
    ///
    /// # Errors
    /// Why a thread could not go on.
    pub fn join(self) -> io::Result<()> {
        let mut result = join::all(self.threads);
        for report in self.reports.try_iter() {
            if let Report::Ended(ended) = report {
                result = result.and(ended);
            }
        }
        result
    }
}
