//! Where and how to serve, and the sockets to serve on.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::host;
use crate::listen::{BACKLOG, limit_send_time, listen_and_bind};
use crate::topology::{Spread, Topology};

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
    /// How long a client may take nothing of what the kernel has been given for it, also after the connection was closed here;
    /// the kernel then drops both. `None` for as long as the kernel tries, which is many minutes.
    pub send_time: Option<Duration>,
    /// Processors for the reactors, one for each in turn; without any the kernel chooses.
    pub cpus: Vec<usize>,
    /// How many processors may be used now; asked every second where the number of reactors
    /// [follows](Topology::follows_processors) that, on a thread that asks for nothing else.
    pub usable: fn() -> usize,
    /// The share of the memory's limit that is in use now, 0 to 1, if it has one; asked every second on the same thread. While
    /// it is 0.9 or more idle connections end, and accepting pauses or is slow. `None` for a server that does not care.
    pub memory: Option<fn() -> Option<f64>>,
}

impl Settings {
    /// The usual ones: a server that heeds what the host grants.
    pub fn new(topology: Topology, address: SocketAddr) -> Self {
        Settings {
            topology,
            address,
            backlog: BACKLOG,
            drain: Duration::from_secs(10),
            send_time: None,
            cpus: Vec::new(),
            usable: host::usable,
            memory: Some(host::memory_in_use),
        }
    }

    /// Listens where the server is to serve.
    ///
    /// # Errors
    /// The topology contradicts itself, or the address cannot be listened on.
    pub fn listen(&self) -> io::Result<Listeners> {
        self.topology.check().map_err(io::Error::other)?;
        let Topology { reactors, spread, .. } = self.topology;
        let (listening, later) = match spread {
            Spread::ReusePort => (reactors, self.topology.owners() - reactors),
            Spread::Acceptor | Spread::Shared => (1, 0),
        };
        let listeners = listen_and_bind(self.address, listening, later, self.backlog)?;
        self.send_time.map_or(Ok(()), |time| limit_send_time(&listeners, time))?;
        Ok(Listeners(listeners))
    }
}

/// The listening sockets of a server that is about to start.
pub struct Listeners(pub(crate) Vec<OwnedFd>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Model;

    #[test]
    fn whatever_is_said_of_time_and_number_the_kernel_takes() {
        let settings = Settings::new(Model::Reactor.row(1, 16), ([127, 0, 0, 1], 0).into());
        for (backlog, time) in [(1, Duration::from_nanos(1)), (u32::MAX, Duration::MAX)] {
            let settings = Settings { backlog, send_time: Some(time), ..settings.clone() };
            assert!(settings.listen().is_ok(), "{backlog}, {time:?}");
        }
    }
}
