//! Starting and stopping: a topology becomes threads, and the threads become a running server.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::driver::epoll::Epoll;
use crate::inbox::Inbox;
use crate::listen::{listen, local_address};
use crate::reactor::{Counters, Reactor, Source, run_acceptor};
use crate::service::Service;
use crate::stop::Stop;
use crate::topology::{Spread, Topology};

/// Where and how to serve.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The threads.
    pub topology: Topology,
    /// The address to listen on; port 0 takes a free one.
    pub address: SocketAddr,
    /// Connections that may wait to be accepted.
    pub backlog: u32,
    /// How long requests under way may take to finish after a stop.
    pub drain: Duration,
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
/// The address cannot be listened on, a thread cannot be started, or it cannot get what it needs.
pub fn start<S: Service>(settings: &Settings, service: Arc<S>) -> io::Result<Running> {
    let Topology { reactors, spread, connections, .. } = settings.topology;
    let own_listeners = if spread == Spread::ReusePort { reactors } else { 1 };
    let listeners = listen(settings.address, own_listeners, settings.backlog)?;
    let address = local_address(&listeners[0])?;
    let (report, reports) = mpsc::channel();
    let mut running =
        Running { address, stop: Stop::default(), threads: Vec::new(), reports, counters: Vec::new() };
    let (sources, acceptor) = sources(spread, reactors, listeners);
    for (index, source) in sources.into_iter().enumerate() {
        let counters = Arc::new(Counters::default());
        running.counters.push(counters.clone());
        let reactor = Reactor {
            index,
            capacity: connections,
            source,
            service: service.clone(),
            counters,
            stop: running.stop.clone(),
            drain: settings.drain,
        };
        running.spawn(format!("reactor-{index}"), &report, move |up| reactor.run::<Epoll>(up))?;
    }
    if let Some((listener, inboxes)) = acceptor {
        let counters = Arc::new(Counters::default());
        running.counters.push(counters.clone());
        let stop = running.stop.clone();
        running.spawn("acceptor".into(), &report, move |up| {
            let result = run_acceptor::<Epoll>(listener, &inboxes, &counters, &stop, up);
            // However it ended: the reactors wait for this before they let their last connections finish.
            inboxes.iter().for_each(|inbox| inbox.close());
            result
        })?;
    }
    running.wait_until_up()?;
    Ok(running)
}

type Acceptor = (OwnedFd, Vec<Arc<Inbox<(OwnedFd, SocketAddr)>>>);

fn sources(spread: Spread, reactors: usize, mut listeners: Vec<OwnedFd>) -> (Vec<Source>, Option<Acceptor>) {
    match spread {
        Spread::ReusePort => (listeners.into_iter().map(Source::Listener).collect(), None),
        Spread::Acceptor => {
            let inboxes: Vec<_> = (0..reactors).map(|_| Arc::new(Inbox::default())).collect();
            let sources = inboxes.iter().cloned().map(Source::Inbox).collect();
            (sources, listeners.pop().map(|listener| (listener, inboxes)))
        }
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

    /// The counters of every reactor, and last those of the acceptor where there is one.
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
