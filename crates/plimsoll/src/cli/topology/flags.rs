//! The flags that shape the topology, one for each axis.

use engine::{Balance, Class, Kind, Model, Offload, Order, Pool, Queue, Rebalance, Spread};

use super::parse::{Count, Cpus, axis, parse_class, parse_count, parse_cpus};

/// The flags that shape the topology.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Topology")]
pub(crate) struct Flags {
    /// Concurrency architecture: a named set of values for the settings below [default: auto]
    #[arg(long, value_parser = axis::<Model>())]
    pub(super) model: Option<Model>,
    /// How a thread waits for the kernel [default: the model's]
    #[arg(long, value_parser = axis::<Kind>())]
    pub(super) driver: Option<Kind>,
    /// Threads that own connections, 1 to 1024 [default: one per usable core, while it runs too]
    #[arg(long, value_name = "N")]
    pub(super) reactors: Option<usize>,
    /// How connections come to the threads that own them [default: the model's]
    #[arg(long, value_parser = axis::<Spread>())]
    pub(super) spread: Option<Spread>,
    /// Which reactor the acceptor gives the next connection to [default: round-robin]
    #[arg(long, value_parser = axis::<Balance>())]
    pub(super) balance: Option<Balance>,
    /// Whether connections move between reactors [default: on where there are several]
    #[arg(long, value_parser = axis::<Rebalance>())]
    pub(super) rebalance: Option<Rebalance>,
    /// Threads that handle requests, in each pool, up to 4096; 0 handles them on the reactors, auto begins with one per usable
    /// core and follows the work [default: the model's]
    #[arg(long, value_name = "N|auto", value_parser = parse_count)]
    pub(super) workers: Option<Count>,
    /// Most workers of a pool whose number follows the work, up to 4096 [default: 1024]
    #[arg(long, value_name = "N")]
    pub(super) most_workers: Option<usize>,
    /// What says which requests are for workers [default: the model's]
    #[arg(long, value_parser = axis::<Offload>())]
    pub(super) offload: Option<Offload>,
    /// Who owns the workers [default: the model's]
    #[arg(long, value_parser = axis::<Pool>())]
    pub(super) pool: Option<Pool>,
    /// What holds the work that waits for a worker [default: mutex]
    #[arg(long, value_parser = axis::<Queue>())]
    pub(super) queue: Option<Queue>,
    /// Which of the waiting work goes first [default: fifo]
    #[arg(long, value_parser = axis::<Order>())]
    pub(super) order: Option<Order>,
    /// Class of the requests whose path begins so: high, normal or low, which goes first with --order priority. In every order
    /// high has room of its own where the queue is full, and a --rate-limit of its own, and no other bound turns it away but
    /// --queue-delay where most requests are of it. May be repeated
    #[arg(long, value_name = "PATH=CLASS", value_parser = parse_class)]
    pub(in super::super) class: Vec<(String, Class)>,
    /// Requests (or, with --driver blocking, connections) that may wait in each pool, up to 1048576; the next one gets 503
    /// [default: 16384]
    #[arg(long, value_name = "N")]
    pub(super) queue_capacity: Option<usize>,
    /// Connections each reactor can hold; the next one gets 503 [default: from the limits of descriptors and memory]
    #[arg(long, value_name = "N")]
    pub(super) connections: Option<usize>,
    /// Processors to run on, as in 0,2-3; each reactor stays on one of them [default: those the process may use]
    #[arg(long, value_name = "LIST", value_parser = parse_cpus)]
    pub(super) cpus: Option<Cpus>,
}
