//! The table of models: each name is a row, one value for each axis.

use super::{
    Balance, Kind, MOST_ELASTIC, Offload, Order, Pool, QUEUE_CAPACITY, Queue, Rebalance, Spread, Topology,
    axis,
};

/// Threads of the model `thread-pool`. They wait most of the time, so there are more of them than cores.
const POOL_THREADS: usize = 64;

/// Most threads of the model `thread-per-connection`.
const MOST_THREADS: usize = 1024;

axis! {
    /// A named row of the table of models.
    Model {
        /// A reactor per core; requests that are slow or wait go to workers, as many as they need: both by what is measured.
        Auto = "auto",
        /// A thread for each connection, made when it comes.
        ThreadPerConnection = "thread-per-connection",
        /// An acceptor, a queue of connections, and threads that serve one connection at a time.
        ThreadPool = "thread-pool",
        /// One reactor that accepts and answers everything.
        Reactor = "reactor",
        /// One reactor, with workers.
        ReactorPool = "reactor-pool",
        /// An acceptor and a reactor per core.
        MultiReactor = "multi-reactor",
        /// An acceptor and a reactor per core, each with workers of its own.
        MultiReactorPool = "multi-reactor-pool",
        /// A reactor per core, each with its own listening socket.
        ReusePort = "reuseport",
        /// A reactor per core, each with its own listening socket, and workers that all share.
        ReusePortPool = "reuseport-pool",
        /// A reactor on io_uring per core, each with its own listening socket.
        Proactor = "proactor",
        /// The same, with workers that all share.
        ProactorPool = "proactor-pool",
    }
}

impl Model {
    /// Whether it has a single reactor on every host.
    pub fn has_one_reactor(self) -> bool {
        matches!(self, Model::Reactor | Model::ReactorPool)
    }

    /// The model's row: its topology on a host with `cores` usable cores.
    pub fn row(self, cores: usize, connections: usize) -> Topology {
        let rebalance = if cores > 1 { Rebalance::On } else { Rebalance::Off };
        let base = Topology {
            driver: Kind::Epoll,
            reactors: cores,
            most_reactors: 0,
            spread: Spread::ReusePort,
            balance: Balance::RoundRobin,
            rebalance,
            workers: 0,
            most_workers: 0,
            pool: Pool::Shared,
            offload: Offload::Declared,
            queue: Queue::Mutex,
            order: Order::Fifo,
            queue_capacity: QUEUE_CAPACITY,
            connections,
            most_connections: 0,
        };
        let single = Topology { reactors: 1, rebalance: Rebalance::Off, ..base };
        let blocking = Topology { driver: Kind::Blocking, reactors: 0, spread: Spread::Acceptor, ..single };
        let uring = Topology { driver: Kind::Uring, ..base };
        match self {
            Model::ThreadPerConnection => Topology { workers: MOST_THREADS, queue: Queue::None, ..blocking },
            Model::ThreadPool => Topology { workers: POOL_THREADS, ..blocking },
            Model::Reactor => single,
            Model::ReactorPool => Topology { workers: cores, ..single },
            Model::MultiReactor => Topology { spread: Spread::Acceptor, ..base },
            Model::MultiReactorPool => {
                Topology { spread: Spread::Acceptor, workers: cores, pool: Pool::PerReactor, ..base }
            }
            Model::ReusePort => base,
            Model::ReusePortPool => Topology { workers: cores, ..base },
            Model::Auto => {
                Topology { workers: cores, most_workers: MOST_ELASTIC, offload: Offload::Measured, ..base }
            }
            Model::Proactor => uring,
            Model::ProactorPool => Topology { workers: cores, ..uring },
        }
    }
}
