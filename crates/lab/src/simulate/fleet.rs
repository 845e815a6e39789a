//! The threads of a modelled server and what waits for each: reactors with their mail, pools of workers with their queues.

use std::collections::VecDeque;

use engine::Topology;
use engine::topology::{Balance, Order, Spread};
use rand::{Rng, RngExt};

/// What a thread does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A reactor receives a request.
    Receive,
    /// A worker is alone with its queue.
    Lock,
    /// A worker takes a request over.
    Take,
    /// Business time that waits.
    Sleep,
    /// Business time that computes.
    Spin,
    /// A reactor sends an answer.
    Answer,
}

/// A thread: the reactors are the first, workers come after them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thread {
    /// The reactor's own number, or the pool that a worker belongs to.
    pub(super) home: usize,
    /// The request it is at.
    pub(super) request: usize,
    pub(super) step: Step,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// When it was sent, in seconds.
    pub(super) born: f64,
    /// Its connection, in a closed loop.
    pub(super) connection: Option<usize>,
    pub(super) reactor: usize,
    /// Business time, in seconds.
    pub(super) sleep: f64,
    pub(super) spin: f64,
    pub(super) rejected: bool,
}

/// What waits for a reactor.
#[derive(Debug, Default)]
pub(super) struct Reactor {
    /// Requests, and what is to be done with each.
    pub(super) mail: VecDeque<(usize, Step)>,
    /// Since when it has something to do.
    pub(super) busy_since: Option<f64>,
    /// Connections, or where each request has its own, requests under way.
    pub(super) connections: usize,
}

/// Workers and what waits for them.
#[derive(Debug, Default)]
pub(super) struct Pool {
    pub(super) waiting: VecDeque<usize>,
    pub(super) idle: Vec<usize>,
    /// Threads that have ended, whose places may be taken.
    pub(super) ended: Vec<usize>,
    pub(super) workers: usize,
    pub(super) wanted: usize,
    pub(super) locked: bool,
    pub(super) at_lock: VecDeque<usize>,
}

impl Pool {
    /// The request whose turn it is.
    pub(super) fn pop(&mut self, order: Order) -> Option<usize> {
        // Requests of a model have no classes, so priority is first come, first served.
        if order == Order::Lifo { self.waiting.pop_back() } else { self.waiting.pop_front() }
    }
}

/// The reactor that the next connection comes to; `turn` counts connections.
pub(super) fn place(topology: &Topology, reactors: &[Reactor], turn: usize, dice: &mut impl Rng) -> usize {
    let mut any = || dice.random_range(0..reactors.len());
    let fewest = |a: usize, b: usize| if reactors[b].connections < reactors[a].connections { b } else { a };
    match (topology.spread, topology.balance) {
        (Spread::ReusePort, _) => any(),
        // Who is awake first takes it: with a connection each in turn at the start, that is about even.
        (Spread::Shared, _) | (Spread::Acceptor, Balance::RoundRobin) => turn % reactors.len(),
        (Spread::Acceptor, Balance::LeastConnections | Balance::LeastBusy) => {
            (0..reactors.len()).fold(0, fewest)
        }
        (Spread::Acceptor, Balance::TwoChoices) => {
            let first = any();
            fewest(first, any())
        }
    }
}
