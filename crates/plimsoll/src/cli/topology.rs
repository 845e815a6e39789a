//! From flags to a topology: the model's row, what overrides it, and why each value is what it is.

use anyhow::{Result, bail};
use clap::ValueEnum;
use engine::host::{Cores, descriptor_limit};
use engine::topology::{MOST_REACTORS, MOST_WORKERS, Pool, QUEUE_CAPACITY};
use engine::{Model, Spread, Topology};

/// Descriptors that are kept for files, listening sockets and the like.
const DESCRIPTORS_KEPT: u64 = 64;

/// Connections for which memory is reserved by default, over all reactors, however many descriptors there are.
const MOST_CONNECTIONS_BY_DEFAULT: u64 = 65_536;

/// The flags that shape the topology.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Topology")]
pub(super) struct Flags {
    /// Concurrency architecture: a named set of values for the settings below [default: multi-reactor]
    #[arg(long, value_enum)]
    model: Option<ModelName>,
    /// Threads that own connections, 1 to 1024 [default: one per usable core]
    #[arg(long, value_name = "N")]
    reactors: Option<usize>,
    /// How connections come to the reactors [default: the model's]
    #[arg(long, value_enum)]
    spread: Option<SpreadName>,
    /// Threads that handle requests, in each pool; 0 handles them on the reactors [default: the model's]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Who owns the workers [default: the model's]
    #[arg(long, value_enum)]
    pool: Option<PoolName>,
    /// Requests that may wait for a worker, in each pool; the next one gets 503 [default: 16384]
    #[arg(long, value_name = "N")]
    queue_capacity: Option<usize>,
    /// Connections each reactor can hold; the next one gets 503 [default: from the descriptor limit]
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModelName {
    /// One reactor that accepts and answers everything
    Reactor,
    /// One reactor, with workers that handle the requests
    ReactorPool,
    /// An acceptor that hands connections to a reactor per core
    MultiReactor,
    /// The same, with workers for each reactor
    MultiReactorPool,
    /// A reactor per core, each with its own listening socket
    Reuseport,
    /// The same, with workers that all reactors share
    ReuseportPool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PoolName {
    /// All reactors give to one pool
    Shared,
    /// Each reactor has a pool of its own
    PerReactor,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SpreadName {
    /// One more thread accepts, and hands connections to the reactors in turn
    Acceptor,
    /// Every reactor accepts for itself; the kernel spreads (SO_REUSEPORT)
    Reuseport,
}

/// A setting, its value, and why it has that value.
pub(super) struct Choice {
    pub(super) setting: &'static str,
    pub(super) value: String,
    pub(super) why: String,
}

impl Flags {
    /// Settles every value.
    pub(super) fn resolve(&self) -> Result<(Topology, Vec<Choice>)> {
        let cores = Cores::detect();
        self.resolve_on(&cores, descriptor_limit())
    }

    fn resolve_on(&self, cores: &Cores, descriptors: Option<u64>) -> Result<(Topology, Vec<Choice>)> {
        let model = match self.model {
            Some(ModelName::Reactor) => Model::Reactor,
            Some(ModelName::MultiReactor) | None => Model::MultiReactor,
            Some(ModelName::ReactorPool) => Model::ReactorPool,
            Some(ModelName::MultiReactorPool) => Model::MultiReactorPool,
            Some(ModelName::Reuseport) => Model::ReusePort,
            Some(ModelName::ReuseportPool) => Model::ReusePortPool,
        };
        let why_model = if self.model.is_some() { "--model" } else { "the default" };
        let mut topology = model.row(cores.usable(), 0);
        let mut choices =
            vec![choice("cores", cores.usable(), cores.to_string()), choice("model", model, why_model)];

        let single = matches!(model, Model::Reactor | Model::ReactorPool);
        let why = match (self.reactors, model) {
            (None, _) if single => "the model's",
            (None, _) => "one per usable core",
            (Some(0), _) => bail!("--reactors 0: must be at least 1"),
            (Some(n), _) if n > MOST_REACTORS => bail!("--reactors {n}: must be at most {MOST_REACTORS}"),
            (Some(n), _) if single && n > 1 => {
                bail!(
                    "--reactors {n}: --model {model} has one; for several use --model multi-reactor or reuseport"
                )
            }
            (Some(n), _) => {
                topology.reactors = n;
                "--reactors"
            }
        };
        choices.push(choice("reactors", topology.reactors, why));

        if let Some(spread) = self.spread {
            topology.spread = match spread {
                SpreadName::Acceptor => Spread::Acceptor,
                SpreadName::Reuseport => Spread::ReusePort,
            };
        }
        let why = if self.spread.is_some() { "--spread" } else { "the model's" };
        let spread = match topology.spread {
            Spread::Acceptor => format!("{}, {}", topology.spread, topology.balance),
            Spread::ReusePort => topology.spread.to_string(),
        };
        choices.push(choice("spread", spread, why));

        choices.extend(self.workers(&mut topology)?);

        let (connections, why) = self.connections(topology.reactors, descriptors)?;
        topology.connections = connections;
        choices.push(choice("connections", format!("{connections} per reactor"), why));
        Ok((topology, choices))
    }

    fn workers(&self, topology: &mut Topology) -> Result<Vec<Choice>> {
        let why = |given: bool, flag: &'static str| if given { flag } else { "the model's" };
        match self.workers {
            Some(n) if n > MOST_WORKERS => bail!("--workers {n}: must be at most {MOST_WORKERS}"),
            Some(n) => topology.workers = n,
            None => {}
        }
        let workers = choice("workers", topology.workers, why(self.workers.is_some(), "--workers"));
        if topology.workers == 0 {
            // Not an error: a sweep over numbers of workers includes none.
            let given =
                [("--pool", self.pool.is_some()), ("--queue-capacity", self.queue_capacity.is_some())];
            for (flag, _) in given.iter().filter(|(_, given)| *given) {
                eprintln!(
                    "plimsoll: warning: {flag} says nothing without workers: the reactors handle the requests"
                );
            }
            return Ok(vec![workers]);
        }
        if let Some(pool) = self.pool {
            topology.pool = match pool {
                PoolName::Shared => Pool::Shared,
                PoolName::PerReactor => Pool::PerReactor,
            };
        }
        if self.queue_capacity == Some(0) {
            bail!("--queue-capacity 0: must be at least 1; for no queue use --workers 0");
        }
        topology.queue_capacity = self.queue_capacity.unwrap_or(QUEUE_CAPACITY);
        let capacity = if self.queue_capacity.is_some() { "--queue-capacity" } else { "the default" };
        Ok(vec![
            workers,
            choice("pool", topology.pool, why(self.pool.is_some(), "--pool")),
            choice("queue", format!("fifo, {} at most", topology.queue_capacity), capacity),
        ])
    }

    fn connections(&self, reactors: usize, descriptors: Option<u64>) -> Result<(usize, String)> {
        match self.connections {
            Some(0) => bail!("--connections 0: must be at least 1"),
            Some(n) if n as u64 * reactors as u64 > i32::MAX as u64 => {
                bail!(
                    "--connections {n}: {reactors} reactors cannot hold that many; a process has at most {} descriptors",
                    i32::MAX
                )
            }
            Some(n) => Ok((n, "--connections".into())),
            None => {
                let limit = descriptors.unwrap_or(u64::MAX);
                let all = limit.saturating_sub(DESCRIPTORS_KEPT).clamp(1, MOST_CONNECTIONS_BY_DEFAULT);
                let why = if all < MOST_CONNECTIONS_BY_DEFAULT {
                    format!("from the limit of {limit} descriptors (ulimit -n)")
                } else {
                    "the default".into()
                };
                Ok(((all as usize / reactors).max(1), why))
            }
        }
    }
}

fn choice(setting: &'static str, value: impl ToString, why: impl Into<String>) -> Choice {
    Choice { setting, value: value.to_string(), why: why.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Cores = Cores { affinity: 4, quota: None };

    fn flags() -> Flags {
        Flags {
            model: None,
            reactors: None,
            spread: None,
            workers: None,
            pool: None,
            queue_capacity: None,
            connections: None,
        }
    }

    #[test]
    fn the_default_is_a_reactor_per_core_behind_an_acceptor() {
        let (topology, choices) = flags().resolve_on(&HOST, Some(1064)).unwrap();
        assert_eq!((topology.reactors, topology.spread, topology.connections), (4, Spread::Acceptor, 250));
        assert_eq!((topology.workers, choices.len()), (0, 6));
    }

    #[test]
    fn each_flag_overrides_its_own_value_only() {
        let flags =
            Flags { spread: Some(SpreadName::Reuseport), reactors: Some(3), connections: Some(7), ..flags() };
        let (topology, _) = flags.resolve_on(&HOST, None).unwrap();
        assert_eq!((topology.reactors, topology.spread, topology.connections), (3, Spread::ReusePort, 7));
    }

    #[test]
    fn a_model_with_workers_has_one_for_each_core_and_can_be_told_otherwise() {
        let pool = Flags { model: Some(ModelName::MultiReactorPool), ..flags() };
        let (topology, _) = pool.resolve_on(&HOST, None).unwrap();
        assert_eq!((topology.reactors, topology.workers, topology.pool), (4, 4, Pool::PerReactor));
        let told =
            Flags { workers: Some(30), pool: Some(PoolName::Shared), queue_capacity: Some(5), ..flags() };
        let (topology, choices) = told.resolve_on(&HOST, None).unwrap();
        assert_eq!((topology.workers, topology.pool, topology.queue_capacity), (30, Pool::Shared, 5));
        assert_eq!(choices.len(), 8);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        for (flags, expected) in [
            (Flags { reactors: Some(0), ..flags() }, "--reactors 0: must be at least 1"),
            (Flags { reactors: Some(1025), ..flags() }, "--reactors 1025: must be at most 1024"),
            (Flags { connections: Some(0), ..flags() }, "--connections 0: must be at least 1"),
            (Flags { workers: Some(4097), ..flags() }, "--workers 4097: must be at most 4096"),
            (
                Flags { workers: Some(1), queue_capacity: Some(0), ..flags() },
                "--queue-capacity 0: must be at least 1; for no queue use --workers 0",
            ),
            (
                Flags { model: Some(ModelName::Reactor), reactors: Some(2), ..flags() },
                "--reactors 2: --model reactor has one; for several use --model multi-reactor or reuseport",
            ),
        ] {
            assert_eq!(flags.resolve_on(&HOST, None).err().unwrap().to_string(), expected);
        }
    }

    #[test]
    fn few_descriptors_still_leave_one_connection() {
        let (topology, _) = flags().resolve_on(&HOST, Some(16)).unwrap();
        assert_eq!(topology.connections, 1);
    }
}
