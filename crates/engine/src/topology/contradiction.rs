//! Which combinations of values make no sense, each with the reason and what to do instead.

use super::{Kind, MOST_QUEUE_CAPACITY, Order, Queue, Spread, Topology};

/// Two values that cannot be had together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The axis whose value does not fit, as its flag is called.
    pub axis: &'static str,
    /// That value.
    pub value: String,
    /// Why it does not fit, and what to do.
    pub reason: String,
}

impl std::fmt::Display for Contradiction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "--{} {}: {}", self.axis, self.value, self.reason)
    }
}

impl std::error::Error for Contradiction {}

impl Topology {
    /// Finds the first combination that makes no sense.
    ///
    /// # Errors
    /// That combination.
    pub fn check(&self) -> Result<(), Contradiction> {
        let blocking = self.driver == Kind::Blocking;
        if blocking && self.workers == 0 {
            return refuse(
                "workers",
                &0,
                "with --driver blocking the workers own the connections; give at least 1",
            );
        }
        if blocking && self.spread != Spread::Acceptor {
            return refuse(
                "spread",
                &self.spread,
                "with --driver blocking one acceptor hands connections to threads; use --spread acceptor, or --driver epoll",
            );
        }
        if !blocking && self.reactors == 0 {
            return refuse("reactors", &0, "must be at least 1");
        }
        if !blocking && self.most_reactors > 0 && (self.owners() > 1) != self.rebalances() {
            return refuse(
                "rebalance",
                &self.rebalance,
                "a number of reactors that follows the processors needs connections that move; use on, or --reactors N",
            );
        }
        self.check_queue(blocking)
    }

    /// The same of what holds the work that waits, and of its order.
    fn check_queue(&self, blocking: bool) -> Result<(), Contradiction> {
        let is_there = self.workers > 0 && self.queue != Queue::None;
        if is_there && !(1..=MOST_QUEUE_CAPACITY).contains(&self.queue_capacity) {
            let reason = format!("must be 1 to {MOST_QUEUE_CAPACITY}");
            return refuse("queue-capacity", &self.queue_capacity, &reason);
        }
        if self.queue == Queue::Stealing && self.most_workers > self.workers && !blocking {
            return refuse(
                "queue",
                &self.queue,
                "each worker has a queue of its own, so their number cannot change; use mutex or lock-free, or --workers N",
            );
        }
        match (self.queue, self.order) {
            (Queue::None, _) if !blocking && self.workers > 0 => refuse(
                "queue",
                &self.queue,
                "only with --driver blocking can work have a thread of its own; use mutex, lock-free or stealing",
            ),
            (_, Order::Priority) if blocking => refuse(
                "order",
                &self.order,
                "what waits here are connections, whose route is not known yet; use fifo or lifo, or a model with reactors and workers",
            ),
            (Queue::Stealing, order) if order != Order::Fifo => refuse(
                "order",
                &order,
                "queues that are stolen from are first in, first out; use --queue mutex",
            ),
            (Queue::LockFree, order @ (Order::Lifo | Order::Adaptive)) => {
                refuse("order", &order, "a lock-free queue is first in, first out; use --queue mutex")
            }
            _ => Ok(()),
        }
    }
}

fn refuse(axis: &'static str, value: &dyn ToString, reason: &str) -> Result<(), Contradiction> {
    Err(Contradiction { axis, value: value.to_string(), reason: reason.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Model;

    #[test]
    fn every_row_of_the_table_makes_sense() {
        for model in Model::ALL {
            for cores in [1, 2, 64] {
                assert_eq!(model.row(cores, 100).check(), Ok(()), "{model}");
            }
        }
    }

    #[test]
    fn what_contradicts_itself_is_found() {
        let (threads, pool) = (Model::ThreadPool.row(2, 100), Model::ReactorPool.row(2, 100));
        for (topology, axis) in [
            (Topology { workers: 0, ..threads }, "workers"),
            (Topology { spread: Spread::ReusePort, ..threads }, "spread"),
            (Topology { order: Order::Priority, ..threads }, "order"),
            (Topology { reactors: 0, ..pool }, "reactors"),
            (Topology { most_reactors: 2, ..pool }, "rebalance"),
            (Topology { queue: Queue::None, ..pool }, "queue"),
            (Topology { queue_capacity: 0, ..pool }, "queue-capacity"),
            (Topology { queue_capacity: MOST_QUEUE_CAPACITY + 1, ..pool }, "queue-capacity"),
            (Topology { queue_capacity: usize::MAX, ..threads }, "queue-capacity"),
            (Topology { queue: Queue::Stealing, most_workers: 64, ..pool }, "queue"),
            (Topology { queue: Queue::Stealing, order: Order::Lifo, ..pool }, "order"),
            (Topology { queue: Queue::Stealing, order: Order::Priority, ..pool }, "order"),
            (Topology { queue: Queue::LockFree, order: Order::Lifo, ..pool }, "order"),
            (Topology { queue: Queue::LockFree, order: Order::Adaptive, ..pool }, "order"),
        ] {
            assert_eq!(topology.check().unwrap_err().axis, axis, "{topology:?}");
        }
    }

    #[test]
    fn a_queue_holds_as_many_as_it_may_at_most_and_one_that_is_not_there_has_no_bound() {
        for topology in [
            Topology { queue_capacity: 1, ..Model::ReactorPool.row(2, 100) },
            Topology { queue_capacity: MOST_QUEUE_CAPACITY, ..Model::ThreadPool.row(2, 100) },
            Topology { queue_capacity: 0, ..Model::Reactor.row(2, 100) },
            Topology { queue_capacity: usize::MAX, ..Model::ThreadPerConnection.row(2, 100) },
        ] {
            assert_eq!(topology.check(), Ok(()), "{topology:?}");
        }
    }
}
