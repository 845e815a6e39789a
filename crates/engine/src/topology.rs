//! Which threads there are and what each is for: plain values, and the named models as rows of a table.

use std::fmt;

/// The threads of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Threads that own connections.
    pub reactors: usize,
    /// How connections come to the reactors.
    pub spread: Spread,
    /// Which reactor the acceptor gives the next connection to; without an acceptor it says nothing.
    pub balance: Balance,
    /// Threads that handle requests, in each pool; with 0 they are handled by the reactors.
    pub workers: usize,
    /// Who owns the workers.
    pub pool: Pool,
    /// Requests that may wait for a worker, in each pool; the next one is answered with 503.
    pub queue_capacity: usize,
    /// Connections each reactor can hold; memory for them is reserved at the start.
    pub connections: usize,
}

/// How connections come to the reactors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// One more thread accepts, and hands each connection to a reactor.
    Acceptor,
    /// Each reactor accepts from a listening socket of its own, and the kernel spreads (`SO_REUSEPORT`).
    ReusePort,
}

/// Which reactor the acceptor gives the next connection to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// One after the other.
    RoundRobin,
}

/// Who owns the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// All reactors give to one pool.
    Shared,
    /// Each reactor has a pool of its own.
    PerReactor,
}

/// A named row of the table of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// One reactor that accepts and answers everything.
    Reactor,
    /// One reactor, with workers.
    ReactorPool,
    /// An acceptor and a reactor per core.
    MultiReactor,
    /// An acceptor and a reactor per core, each with workers of its own.
    MultiReactorPool,
    /// A reactor per core, each with its own listening socket.
    ReusePort,
    /// A reactor per core, each with its own listening socket, and workers that all share.
    ReusePortPool,
}

/// Requests that may wait for a worker, in each pool, by default.
pub const QUEUE_CAPACITY: usize = 16_384;

/// Most workers of a pool.
pub const MOST_WORKERS: usize = 4096;

/// Most reactors a topology may have.
pub const MOST_REACTORS: usize = 1024;

impl Model {
    /// Every model, in the order of the table.
    pub const ALL: [Model; 6] = [
        Model::Reactor,
        Model::ReactorPool,
        Model::MultiReactor,
        Model::MultiReactorPool,
        Model::ReusePort,
        Model::ReusePortPool,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Model::Reactor => "reactor",
            Model::ReactorPool => "reactor-pool",
            Model::MultiReactor => "multi-reactor",
            Model::MultiReactorPool => "multi-reactor-pool",
            Model::ReusePort => "reuseport",
            Model::ReusePortPool => "reuseport-pool",
        }
    }

    /// The model's row: its topology on a host with `cores` usable cores.
    pub fn row(self, cores: usize, connections: usize) -> Topology {
        let (reactors, spread, workers, pool) = match self {
            Model::Reactor => (1, Spread::ReusePort, 0, Pool::Shared),
            Model::ReactorPool => (1, Spread::ReusePort, cores, Pool::Shared),
            Model::MultiReactor => (cores, Spread::Acceptor, 0, Pool::Shared),
            Model::MultiReactorPool => (cores, Spread::Acceptor, cores, Pool::PerReactor),
            Model::ReusePort => (cores, Spread::ReusePort, 0, Pool::Shared),
            Model::ReusePortPool => (cores, Spread::ReusePort, cores, Pool::Shared),
        };
        let (balance, queue_capacity) = (Balance::RoundRobin, QUEUE_CAPACITY);
        Topology { reactors, spread, balance, workers, pool, queue_capacity, connections }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Spread::Acceptor => "acceptor",
            Spread::ReusePort => "reuseport",
        })
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pool::Shared => "shared",
            Pool::PerReactor => "per-reactor",
        })
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Balance::RoundRobin => "round-robin",
        })
    }
}
