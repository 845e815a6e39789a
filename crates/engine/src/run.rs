//! Starting and stopping: a topology becomes threads, and the threads become a running server.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::accept::{Accepted, run_acceptor};
use crate::balance::Balancer;
use crate::driver::Driver;
use crate::driver::epoll::Epoll;
use crate::driver::uring::Uring;
use crate::inbox::Inbox;
use crate::listen::{listen, local_address};
use crate::meter::Counters;
use crate::reactor::{Reactor, Sharing, Source};
use crate::rebalance::Exchange;
use crate::service::Service;
use crate::stop::Stop;
use crate::threads::Threads;
use crate::topology::{Kind, Spread, Topology};

/// Where and how to serve.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The threads.
    pub topology: Topology,
    /// The address to listen on; port 0 takes a free one.
    pub address: SocketAddr,
    /// Connections that may wait to be accepted.
    pub backlog: u32,
    /// How long requests under way may take to finish after a stop.
    pub drain: Duration,
    /// Processors for the reactors, one for each in turn; without any the kernel chooses.
    pub cpus: Vec<usize>,
}

/// A server that runs in threads of its own.
pub struct Running {
    address: SocketAddr,
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
    reports: mpsc::Receiver<Report>,
    counters: Vec<Arc<Counters>>,
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
    settings.topology.check().map_err(io::Error::other)?;
    let listeners = match settings.topology.spread {
        Spread::ReusePort => settings.topology.reactors,
        Spread::Acceptor | Spread::Shared => 1,
    };
    let listeners = listen(settings.address, listeners, settings.backlog)?;
    let (report, reports) = mpsc::channel();
    let mut running = Running {
        address: local_address(&listeners[0])?,
        stop: Stop::default(),
        threads: Vec::new(),
        reports,
        counters: (0..settings.topology.owners()).map(|_| Arc::default()).collect(),
    };
    match settings.topology.driver {
        Kind::Blocking => running.start_threads(settings, service, listeners, &report)?,
        Kind::Epoll => running.start_reactors::<Epoll, S>(settings, &service, listeners, &report)?,
        Kind::Uring => running.start_reactors::<Uring, S>(settings, &service, listeners, &report)?,
    }
    running.wait_until_up()?;
    Ok(running)
}

type Acceptor = (OwnedFd, Vec<Arc<Inbox<Accepted>>>);

/// Where each reactor's connections come from, and what the acceptor needs if there is one.
fn sources(topology: &Topology, mut listeners: Vec<OwnedFd>) -> io::Result<(Vec<Source>, Option<Acceptor>)> {
    let reactors = topology.reactors;
    Ok(match topology.spread {
        Spread::ReusePort => {
            (listeners.into_iter().map(|fd| Source::Listener(fd, Sharing::Own)).collect(), None)
        }
        Spread::Shared => {
            let share = |_| Ok(Source::Listener(listeners[0].try_clone()?, Sharing::Shared));
            ((0..reactors).map(share).collect::<io::Result<_>>()?, None)
        }
        Spread::Acceptor => {
            let inboxes: Vec<_> = (0..reactors).map(|_| Arc::new(Inbox::default())).collect();
            let sources = inboxes.iter().cloned().map(Source::Inbox).collect();
            (sources, listeners.pop().map(|listener| (listener, inboxes)))
        }
    })
}

impl Running {
    /// Starts the threads that own many connections each.
    fn start_reactors<D: Driver, S: Service>(
        &mut self,
        settings: &Settings,
        service: &Arc<S>,
        listeners: Vec<OwnedFd>,
        report: &mpsc::Sender<Report>,
    ) -> io::Result<()> {
        let topology = &settings.topology;
        let (sources, acceptor) = sources(topology, listeners)?;
        let each = self.counters.clone();
        let exchange = topology.rebalances().then(|| Arc::new(Exchange::new(&each, topology.connections)));
        for (index, (source, counters)) in sources.into_iter().zip(&each).enumerate() {
            let reactor = Reactor {
                index,
                capacity: topology.connections,
                source,
                service: service.clone(),
                counters: counters.clone(),
                exchange: exchange.clone(),
                stop: self.stop.clone(),
                drain: settings.drain,
                cpu: settings.cpus.get(index % settings.cpus.len().max(1)).copied(),
            };
            self.spawn(format!("reactor-{index}"), report, move |up| reactor.run::<D>(up))?;
        }
        let Some((listener, inboxes)) = acceptor else { return Ok(()) };
        let counters = Arc::new(Counters::default());
        self.counters.push(counters.clone());
        let balancer = Balancer::new(topology.balance, &each, Instant::now());
        let stop = self.stop.clone();
        self.spawn("acceptor".into(), report, move |up| {
            let result = run_acceptor::<D>(listener, &inboxes, balancer, &counters, &stop, up);
            // However it ended: the reactors wait for this before they let their last connections finish.
            inboxes.iter().for_each(|inbox| inbox.close());
            result
        })
    }

    /// Starts the acceptor of threads that own one connection each; it starts them.
    fn start_threads<S: Service>(
        &mut self,
        settings: &Settings,
        service: Arc<S>,
        mut listeners: Vec<OwnedFd>,
        report: &mpsc::Sender<Report>,
    ) -> io::Result<()> {
        self.counters.push(Arc::default());
        let listener = listeners.pop().ok_or(io::ErrorKind::NotFound)?;
        let threads = Threads {
            topology: settings.topology,
            listener,
            service,
            counters: self.counters.clone(),
            stop: self.stop.clone(),
            drain: settings.drain,
        };
        self.spawn("acceptor".into(), report, move |up| threads.run(up))
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
            let result = body(&|| drop(report.send(Report::Up)));
            if result.is_err() {
                // One thread that cannot go on ends the server, rather than leaving a part of it deaf.
                stop.set();
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

    /// The counters of every thread that owns connections, and last those of the acceptor where there is one.
    pub fn counters(&self) -> &[Arc<Counters>] {
        &self.counters
    }

    /// Waits until every thread has ended.
    ///
    /// # Errors
    /// Why a thread could not go on.
    pub fn join(self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads {
            if thread.join().is_err() {
                result = Err(io::Error::other("a reactor panicked; this is a defect of the server"));
            }
        }
        for report in self.reports.try_iter() {
            if let Report::Ended(ended) = report {
                result = result.and(ended);
            }
        }
        result
    }
}
