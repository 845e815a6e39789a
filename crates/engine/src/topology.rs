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

/// A named row of the table of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// One reactor that accepts and answers everything.
    Reactor,
    /// An acceptor and a reactor per core.
    MultiReactor,
    /// A reactor per core, each with its own listening socket.
    ReusePort,
}

/// Most reactors a topology may have.
pub const MOST_REACTORS: usize = 1024;

impl Model {
    /// Every model, in the order of the table.
    pub const ALL: [Model; 3] = [Model::Reactor, Model::MultiReactor, Model::ReusePort];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Model::Reactor => "reactor",
            Model::MultiReactor => "multi-reactor",
            Model::ReusePort => "reuseport",
        }
    }

    /// The model's row: its topology on a host with `cores` usable cores.
    pub fn row(self, cores: usize, connections: usize) -> Topology {
        let (reactors, spread) = match self {
            Model::Reactor => (1, Spread::ReusePort),
            Model::MultiReactor => (cores, Spread::Acceptor),
            Model::ReusePort => (cores, Spread::ReusePort),
        };
        Topology { reactors, spread, balance: Balance::RoundRobin, connections }
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

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Balance::RoundRobin => "round-robin",
        })
    }
}
