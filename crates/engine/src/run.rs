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
    ended: mpsc::Receiver<io::Result<()>>,
    counters: Vec<Arc<Counters>>,
}

/// Starts a server.
///
/// # Errors
/// The address cannot be listened on, or a thread cannot be started.
pub fn start<S: Service>(settings: &Settings, service: Arc<S>) -> io::Result<Running> {
    let Topology { reactors, spread, connections, .. } = settings.topology;
    let own_listeners = if spread == Spread::ReusePort { reactors } else { 1 };
    let listeners = listen(settings.address, own_listeners, settings.backlog)?;
    let address = local_address(&listeners[0])?;
    let (report, ended) = mpsc::channel();
    let mut running =
        Running { address, stop: Stop::default(), threads: Vec::new(), ended, counters: Vec::new() };
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
        running.spawn(format!("reactor-{index}"), &report, move || reactor.run::<Epoll>())?;
    }
    if let Some((listener, inboxes)) = acceptor {
        let counters = Arc::new(Counters::default());
        running.counters.push(counters.clone());
        let stop = running.stop.clone();
        running.spawn("acceptor".into(), &report, move || {
            let result = run_acceptor::<Epoll>(listener, &inboxes, &counters, &stop);
            // However it ended: the reactors wait for this before they let their last connections finish.
            inboxes.iter().for_each(|inbox| inbox.close());
            result
        })?;
    }
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
        report: &mpsc::Sender<io::Result<()>>,
        body: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let (report, stop) = (report.clone(), self.stop.clone());
        let thread = thread::Builder::new().name(name).spawn(move || {
            let result = body();
            if result.is_err() {
                // One thread that cannot go on ends the server, rather than leaving a part of it deaf.
                stop.set();
            }
            let _ = report.send(result);
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
        self.ended.try_iter().fold(result, |result, ended| result.and(ended))
    }
}
