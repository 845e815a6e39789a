//! Which threads there are and what each is for: plain values, and the named models as rows of a table.

mod contradiction;
mod model;

use std::io;

pub use contradiction::Contradiction;
pub use model::Model;

/// The threads of a server, as one value for each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// How the threads that own connections wait for the kernel.
    pub driver: Kind,
    /// Reactors: threads that own many connections each. 0 with the blocking driver, whose workers own one each.
    pub reactors: usize,
    /// Most reactors: how many of them work follows the processors that may be used, and `reactors` is how many are started
    /// at first. 0 for a number that stays.
    pub most_reactors: usize,
    /// How connections come to the threads that own them.
    pub spread: Spread,
    /// Which reactor the acceptor gives the next connection to; without an acceptor it says nothing.
    pub balance: Balance,
    /// Whether connections move between reactors; with a single reactor it says nothing.
    pub rebalance: Rebalance,
    /// Threads that handle requests, in each pool; with 0 they are handled by the reactors. With the blocking driver,
    /// the threads that own connections.
    pub workers: usize,
    /// Most workers of a pool: their number follows the work from the start on. 0 for a number that stays.
    pub most_workers: usize,
    /// Who owns the workers.
    pub pool: Pool,
    /// What says which requests are for workers.
    pub offload: Offload,
    /// What holds the work that waits for a worker.
    pub queue: Queue,
    /// Which of it goes first.
    pub order: Order,
    /// Requests (with the blocking driver: connections) that may wait for a worker, in each pool; the next one is
    /// answered with 503.
    pub queue_capacity: usize,
    /// Connections each reactor can hold (with the blocking driver: all threads together); memory for them is
    /// reserved at the start.
    pub connections: usize,
    /// Connections that all reactors hold together at most, where some of them are started later: these then have room for
    /// an equal share of it only, by their number. 0 for as many as each can hold.
    pub most_connections: usize,
}

impl Topology {
    /// Threads that own connections, at most.
    pub fn owners(&self) -> usize {
        if self.driver == Kind::Blocking { self.workers } else { self.reactors.max(self.most_reactors) }
    }

    /// Lets each reactor hold so many connections, and those that are started later no more of them in all.
    pub fn sharing(self, connections: usize) -> Self {
        let grows = self.driver != Kind::Blocking && self.owners() > self.reactors;
        let most_connections = if grows { connections * self.reactors } else { 0 };
        Topology { connections, most_connections, ..self }
    }

    /// Connections that one reactor has slots for.
    pub fn connections_of(&self, reactor: usize) -> usize {
        if self.most_connections == 0 || reactor < self.reactors {
            return self.connections;
        }
        (self.most_connections / (reactor + 1)).max(1)
    }

    /// Connections that there can be while so many reactors are started; with the blocking driver, at all.
    pub fn all_connections(&self, started: usize) -> usize {
        if self.driver == Kind::Blocking {
            return self.connections;
        }
        let slots = (0..started).map(|reactor| self.connections_of(reactor)).sum();
        if self.most_connections == 0 { slots } else { self.most_connections.min(slots) }
    }

    /// Whether there is more than one place for a connection to be, and it may move.
    pub fn rebalances(&self) -> bool {
        self.driver != Kind::Blocking && self.owners() > 1 && self.rebalance == Rebalance::On
    }

    /// Lets the number of reactors follow the processors that may be used, of which the affinity mask has `affinity`.
    pub fn following(self, affinity: usize) -> Self {
        if self.driver == Kind::Blocking || affinity < 2 {
            return self;
        }
        let most_reactors = affinity.max(self.reactors).min(MOST_REACTORS);
        Topology { most_reactors, rebalance: Rebalance::On, ..self }
    }

    /// Whether the number of reactors that work follows the processors that may be used.
    pub fn follows_processors(&self) -> bool {
        self.most_reactors > 0 && self.rebalances()
    }

    /// The same on epoll, if it is on io_uring and `probe` says that this is not to be had here; and then why.
    ///
    /// [`probe`](crate::driver::uring::probe) asks the kernel.
    pub fn on_what_is_there(self, probe: impl FnOnce() -> io::Result<()>) -> (Self, Option<io::Error>) {
        match self.driver {
            Kind::Uring => match probe() {
                Ok(()) => (self, None),
                Err(error) => (Topology { driver: Kind::Epoll, ..self }, Some(error)),
            },
            Kind::Blocking | Kind::Epoll => (self, None),
        }
    }

    /// Threads that handle requests.
    pub fn handlers(&self) -> usize {
        match self.pools() {
            0 => self.owners(),
            pools => pools * self.workers,
        }
    }

    /// Whether the number of workers follows the work.
    pub fn is_elastic(&self) -> bool {
        self.pools() > 0 && self.most_workers > self.workers
    }

    /// Pools of workers that handle requests for reactors.
    pub fn pools(&self) -> usize {
        match (self.driver, self.workers, self.pool) {
            (Kind::Blocking, ..) | (_, 0, _) => 0,
            (_, _, Pool::Shared) => 1,
            (_, _, Pool::PerReactor) => self.owners(),
        }
    }
}

/// Requests that may wait for a worker, in each pool, by default.
pub const QUEUE_CAPACITY: usize = 16_384;

/// Most requests that may wait for a worker, in each pool: room for them is reserved at the start.
pub const MOST_QUEUE_CAPACITY: usize = 1 << 20;

/// Most workers of a pool.
pub const MOST_WORKERS: usize = 4096;

/// Most workers of a pool whose number follows the work, unless it is said.
pub const MOST_ELASTIC: usize = 1024;

/// Most reactors a topology may have.
pub const MOST_REACTORS: usize = 1024;

/// A setting whose values have names.
pub trait Axis: Copy + PartialEq + std::fmt::Display + Send + Sync + 'static {
    /// Every value.
    const VALUES: &'static [Self];

    /// Its name on the command line.
    fn name(self) -> &'static str;

    /// What it is, in a sentence.
    fn about(self) -> &'static str;
}

/// An axis: the enum, and the name and the sentence of each value.
macro_rules! axis {
    ($(#[$doc:meta])* $axis:ident { $(#[doc = $about:literal] $value:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $axis {
            $(#[doc = $about] $value,)*
        }

        impl $axis {
            /// Every value.
            pub const ALL: &'static [$axis] = &[$($axis::$value,)*];
        }

        impl $crate::topology::Axis for $axis {
            const VALUES: &'static [$axis] = $axis::ALL;

            fn name(self) -> &'static str {
                match self {
                    $($axis::$value => $name,)*
                }
            }

            fn about(self) -> &'static str {
                match self {
                    $($axis::$value => $about.trim_ascii(),)*
                }
            }
        }

        impl std::fmt::Display for $axis {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad($crate::topology::Axis::name(*self))
            }
        }
    };
}
pub(crate) use axis;

axis! {
    /// How a thread waits for the kernel.
    Kind {
        /// It blocks in the call itself, and so serves one connection at a time.
        Blocking = "blocking",
        /// It waits until one of many sockets is ready, and then makes the call.
        Epoll = "epoll",
        /// It hands calls to the kernel in batches, and takes their results.
        Uring = "uring",
    }
}

axis! {
    /// How connections come to the threads that own them.
    Spread {
        /// One more thread accepts, and hands each connection on.
        Acceptor = "acceptor",
        /// Each reactor accepts from a listening socket of its own, and the kernel spreads (`SO_REUSEPORT`).
        ReusePort = "reuseport",
        /// All reactors accept from one listening socket; the kernel wakes one of them (`EPOLLEXCLUSIVE`).
        Shared = "shared",
    }
}

axis! {
    /// Which reactor the acceptor gives the next connection to.
    Balance {
        /// One after the other.
        RoundRobin = "round-robin",
        /// The one with the fewest connections.
        LeastConnections = "least-connections",
        /// The one whose loop has been busy for the smallest share of the last moments.
        LeastBusy = "least-busy",
        /// Of two chosen at random, the one with fewer connections.
        TwoChoices = "two-choices",
    }
}

axis! {
    /// Whether connections move between reactors.
    Rebalance {
        /// From busy reactors to idle ones, between two requests.
        On = "on",
        /// They stay where they were accepted.
        Off = "off",
    }
}

axis! {
    /// Who owns the workers.
    Pool {
        /// All reactors give to one pool.
        Shared = "shared",
        /// Each reactor has a pool of its own.
        PerReactor = "per-reactor",
    }
}

axis! {
    /// What says which requests are for workers, where there are workers and reactors.
    Offload {
        /// The application: all requests are, but those that it is sure to be quick with.
        Declared = "declared",
        /// What was measured: quick routes stay on the reactor; one that turns slow holds it up to its end, once from 50ms on, which all reactors notice within 0.3s, and otherwise each of them a few times.
        Measured = "measured",
    }
}

axis! {
    /// What holds the work that waits for a worker.
    Queue {
        /// Nothing: each connection gets a thread of its own at once. With the blocking driver only.
        None = "none",
        /// One lock and one condition variable.
        Mutex = "mutex",
        /// A bounded array that takes no lock.
        LockFree = "lock-free",
        /// A lock-free queue for each worker; who has nothing to do takes from the others.
        Stealing = "stealing",
    }
}

axis! {
    /// Which of the waiting work goes first.
    Order {
        /// In the order it came.
        Fifo = "fifo",
        /// By class, in the order it came within a class; a class that waits is passed over a bounded number of times.
        Priority = "priority",
        /// The latest first.
        Lifo = "lifo",
        /// In the order it came; the latest first once the queue has not been empty for 100 ms, when the oldest come too late.
        Adaptive = "adaptive",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoll_does_the_work_where_io_uring_is_not_to_be_had() {
        let refuse = || Err(io::ErrorKind::PermissionDenied.into());
        let row = Model::ProactorPool.row(2, 100);
        let (topology, why) = row.on_what_is_there(refuse);
        assert_eq!(topology, Topology { driver: Kind::Epoll, ..row });
        assert_eq!(why.unwrap().kind(), io::ErrorKind::PermissionDenied);
        let (topology, why) = row.on_what_is_there(|| Ok(()));
        assert!(topology == row && why.is_none());
        for model in [Model::Auto, Model::ThreadPool] {
            let row = model.row(2, 100);
            let (topology, why) = row.on_what_is_there(|| panic!("nobody asks for it"));
            assert!(topology == row && why.is_none());
        }
    }
}
