//! From flags to a topology: the model's row, what overrides it, and why each value is what it is.

mod connections;
mod diagram;
mod flags;
mod parse;

use anyhow::{Result, bail, ensure};
use engine::host::{self, Cores, Memory, descriptor_limit};
use engine::topology::{MOST_ELASTIC, MOST_REACTORS, MOST_WORKERS, Order, QUEUE_CAPACITY, Queue};
use engine::{Kind, Model, Rebalance, Spread, Topology};

pub(super) use diagram::diagram;
pub(super) use flags::Flags;
use parse::{Count, Cpus};

/// The model that serves when none is named.
const DEFAULT: Model = Model::Auto;

/// A setting, its value, and why it has that value.
pub(super) struct Choice {
    pub(super) setting: &'static str,
    pub(super) value: String,
    pub(super) why: String,
}

/// What was settled.
pub(super) struct Settled {
    pub(super) topology: Topology,
    /// Processors for the reactors.
    pub(super) cpus: Vec<usize>,
    pub(super) choices: Vec<Choice>,
    /// What was asked for and has no effect, or could not be had.
    pub(super) warnings: Vec<String>,
}

/// What the host grants.
struct Host {
    cores: Cores,
    descriptors: Option<u64>,
    memory: Memory,
    /// Why io_uring cannot be used, if it cannot.
    uring: fn() -> std::io::Result<()>,
}

impl Flags {
    /// Settles every value, and keeps the process on the processors that were asked for.
    pub(super) fn resolve(&self) -> Result<Settled> {
        if let Some(Cpus(cpus)) = &self.cpus
            && let Err(error) = host::pin(cpus)
        {
            bail!("--cpus: this process cannot run there ({error}); see `taskset -p $$` for where it can");
        }
        let uring = engine::driver::uring::probe;
        let (cores, memory) = (Cores::detect(), Memory::detect());
        self.resolve_on(&Host { cores, descriptors: descriptor_limit(), memory, uring })
    }

    fn resolve_on(&self, host: &Host) -> Result<Settled> {
        let model = self.model.unwrap_or(DEFAULT);
        let cores = host.cores.usable();
        let why_model = if self.model.is_some() { "--model" } else { "the default" };
        let mut settled = Settled {
            topology: model.row(cores, 0),
            cpus: self.cpus.as_ref().map(|Cpus(cpus)| cpus.clone()).unwrap_or_default(),
            choices: vec![choice("cores", cores, host.cores.to_string()), choice("model", model, why_model)],
            warnings: Vec::new(),
        };
        if let Some(cpus) = &self.cpus {
            settled.choices.push(choice("cpus", cpus, "--cpus"));
        }
        self.driver(&mut settled, model, host);
        if settled.topology.driver == Kind::Blocking {
            self.threads(&mut settled)?;
        } else {
            self.reactors(&mut settled, model, host.cores.affinity)?;
            self.workers(&mut settled, cores)?;
        }
        self.connections(&mut settled, host)?;
        settled.topology.check()?;
        Ok(settled)
    }

    fn driver(&self, settled: &mut Settled, model: Model, host: &Host) {
        let topology = &mut settled.topology;
        let driver = self.driver.unwrap_or(topology.driver);
        if let Some(other) = self.stand_in() {
            let row = other.row(host.cores.usable(), 0);
            let workers = if driver == Kind::Blocking { topology.workers.max(row.workers) } else { 0 };
            *topology = Topology { workers, ..row };
        }
        topology.driver = driver;
        let mut why = self.why(self.driver.is_some(), "--driver");
        let (there, refused) = topology.on_what_is_there(host.uring);
        *topology = there;
        if let Some(error) = refused {
            settled.warnings.push(format!("io_uring is not to be had here ({error}): {model} runs on epoll"));
            why = "io_uring is not to be had here".into();
        }
        settled.choices.push(choice("driver", settled.topology.driver, why));
    }

    /// The model whose row is the one that counts, where a driver was asked for with which connections are owned in another way
    /// than in the model's own: what was not asked for follows.
    fn stand_in(&self) -> Option<Model> {
        let row = self.model.unwrap_or(DEFAULT).row(1, 0);
        match (row.driver, self.driver?) {
            (Kind::Blocking, Kind::Epoll | Kind::Uring) => Some(Model::ReusePort),
            (Kind::Epoll | Kind::Uring, Kind::Blocking) => Some(Model::ThreadPool),
            _ => None,
        }
    }

    /// Why a value is what it is: it was given, or a row has it.
    fn why(&self, given: bool, flag: &str) -> String {
        if given { flag.into() } else { self.of_a_row() }
    }

    /// Whose row a value is from that was not given.
    fn of_a_row(&self) -> String {
        match (self.stand_in(), self.driver) {
            (Some(other), Some(driver)) => format!("as in {other}, for --driver {driver}"),
            _ => "the model's".into(),
        }
    }

    /// Reactors, and how connections come to them.
    fn reactors(&self, settled: &mut Settled, model: Model, affinity: usize) -> Result<()> {
        let topology = &mut settled.topology;
        let single = model.has_one_reactor();
        let why = match self.reactors {
            None if single => "the model's",
            // Who rests gives its connections away.
            None if self.rebalance == Some(Rebalance::Off) => {
                "one per usable core; with --rebalance off it stays"
            }
            None => {
                *topology = topology.following(affinity);
                "one per usable core, looked at again each second"
            }
            Some(0) => {
                bail!(
                    "--reactors 0: must be at least 1; for threads that own connections use --model thread-pool"
                )
            }
            Some(n) if n > MOST_REACTORS => bail!("--reactors {n}: must be at most {MOST_REACTORS}"),
            Some(n) if single && n > 1 => bail!(
                "--reactors {n}: --model {model} has one; for several use --model multi-reactor or reuseport"
            ),
            Some(n) => {
                topology.reactors = n;
                "--reactors"
            }
        };
        let value = match topology.most_reactors {
            0 => topology.reactors.to_string(),
            most => format!("{} (1 to {most})", topology.reactors),
        };
        settled.choices.push(choice("reactors", value, why));
        topology.spread = self.spread.unwrap_or(topology.spread);
        settled.choices.push(choice("spread", topology.spread, self.why(self.spread.is_some(), "--spread")));
        if topology.spread == Spread::Acceptor && topology.owners() > 1 {
            topology.balance = self.balance.unwrap_or(topology.balance);
            settled.choices.push(choice(
                "balance",
                topology.balance,
                self.why(self.balance.is_some(), "--balance"),
            ));
        } else if self.balance.is_some() {
            let why = match topology.spread {
                Spread::Acceptor => "says nothing with one reactor: it gets all connections".into(),
                spread => format!("says nothing with --spread {spread}: the kernel spreads"),
            };
            settled.ignored("--balance", &why);
        }
        self.rebalance(settled);
        Ok(())
    }

    /// Whether connections move between reactors.
    fn rebalance(&self, settled: &mut Settled) {
        let topology = &mut settled.topology;
        if topology.owners() > 1 {
            topology.rebalance = self.rebalance.unwrap_or(topology.rebalance);
            let why = if self.rebalance.is_some() { "--rebalance" } else { "there may be several reactors" };
            settled.choices.push(choice("rebalance", topology.rebalance, why));
            return;
        }
        topology.rebalance = Rebalance::Off;
        if self.rebalance == Some(Rebalance::On) {
            settled.ignored("--rebalance", "says nothing with one reactor: there is no other to move to");
        }
    }

    /// Workers that handle the reactors' requests.
    fn workers(&self, settled: &mut Settled, cores: usize) -> Result<()> {
        self.how_many(settled, cores)?;
        let topology = &mut settled.topology;
        if topology.workers == 0 {
            // Not an error: a sweep over numbers of workers includes none.
            for (flag, given) in [
                ("--pool", self.pool.is_some()),
                ("--offload", self.offload.is_some()),
                ("--queue", self.queue.is_some()),
                ("--order", self.order.is_some()),
                ("--queue-capacity", self.queue_capacity.is_some()),
                ("--class", !self.class.is_empty()),
            ] {
                if given {
                    settled.ignored(flag, "says nothing without workers: the reactors handle the requests");
                }
            }
            return Ok(());
        }
        topology.pool = self.pool.unwrap_or(topology.pool);
        settled.choices.push(choice("pool", topology.pool, self.why(self.pool.is_some(), "--pool")));
        topology.offload = self.offload.unwrap_or(topology.offload);
        settled.choices.push(choice(
            "offload",
            topology.offload,
            self.why(self.offload.is_some(), "--offload"),
        ));
        self.queue(settled)?;
        let by_class = settled.topology.order == Order::Priority;
        if by_class && self.class.is_empty() {
            settled
                .ignored("--order priority", "says nothing without --class: all requests are of one class");
        } else if !by_class && !self.class.is_empty() {
            settled.ignored(
                "--class",
                "orders nothing without --order priority; it still spares the high class from --in-flight, --queue-delay and a full queue",
            );
        }
        Ok(())
    }

    /// How many workers there are, and may become.
    fn how_many(&self, settled: &mut Settled, cores: usize) -> Result<()> {
        let topology = &mut settled.topology;
        let most = self.most_workers.unwrap_or(MOST_ELASTIC);
        ensure!((1..=MOST_WORKERS).contains(&most), "--most-workers {most}: must be 1 to {MOST_WORKERS}");
        let elastic = topology.most_workers > 0;
        (topology.workers, topology.most_workers) = match self.workers {
            Some(Count::Number(n)) => (n, 0),
            Some(Count::Auto) => (cores.min(most), most),
            None if elastic => (topology.workers.min(most), most),
            None => (topology.workers, 0),
        };
        let workers = topology.workers;
        ensure!(workers <= MOST_WORKERS, "--workers {workers}: must be at most {MOST_WORKERS}");
        let why = match self.workers {
            Some(Count::Auto) => "--workers auto: from one per usable core as many as the work needs".into(),
            None if elastic => "as many as the work needs, from one per usable core".into(),
            given => self.why(given.is_some(), "--workers"),
        };
        let value = match topology.most_workers {
            0 => workers.to_string(),
            most => format!("{workers} to {most}"),
        };
        let follows = topology.most_workers > 0;
        settled.choices.push(choice("workers", value, why));
        if self.most_workers.is_some() && !follows {
            settled.ignored("--most-workers", "says nothing where the number stays; give --workers auto");
        }
        Ok(())
    }

    /// Threads that own one connection each.
    fn threads(&self, settled: &mut Settled) -> Result<()> {
        let topology = &mut settled.topology;
        topology.workers = match self.workers {
            Some(Count::Number(n)) => n,
            _ => topology.workers,
        };
        ensure!(
            topology.workers <= MOST_WORKERS,
            "--workers {}: must be at most {MOST_WORKERS}",
            topology.workers
        );
        topology.spread = self.spread.unwrap_or(topology.spread);
        let why = match self.workers {
            Some(Count::Number(_)) => "--workers".into(),
            _ => {
                format!("{}: they wait most of the time, so there are more than cores", self.of_a_row())
            }
        };
        settled.choices.push(choice("workers", topology.workers, why));
        for (flag, given, why) in [
            ("--reactors", self.reactors.is_some(), "the workers own the connections"),
            ("--balance", self.balance.is_some(), "there is one queue, from which free threads take"),
            ("--rebalance", self.rebalance.is_some(), "a connection stays with its thread"),
            ("--pool", self.pool.is_some(), "there is one"),
            ("--offload", self.offload.is_some(), "the workers do it all"),
            ("--workers auto", self.workers == Some(Count::Auto), "their number stays"),
            ("--most-workers", self.most_workers.is_some(), "their number stays"),
            ("--class", !self.class.is_empty(), "a connection that waits has no route yet"),
        ] {
            if given {
                settled.ignored(flag, &format!("says nothing with --driver blocking: {why}"));
            }
        }
        self.queue(settled)
    }

    fn queue(&self, settled: &mut Settled) -> Result<()> {
        let topology = &mut settled.topology;
        topology.queue = self.queue.unwrap_or(topology.queue);
        topology.order = self.order.unwrap_or(topology.order);
        if topology.queue == Queue::None {
            settled.choices.push(choice("queue", "none", self.why(self.queue.is_some(), "--queue")));
            for (flag, given) in
                [("--order", self.order.is_some()), ("--queue-capacity", self.queue_capacity.is_some())]
            {
                if given {
                    settled.ignored(flag, "says nothing with --queue none: nothing waits");
                }
            }
            return Ok(());
        }
        if self.queue_capacity == Some(0) {
            bail!("--queue-capacity 0: must be at least 1; for no queue use --workers 0");
        }
        topology.queue_capacity = self.queue_capacity.unwrap_or(QUEUE_CAPACITY);
        let why = if self.queue_capacity.is_some() { "--queue-capacity" } else { "the default" };
        settled.choices.extend([
            choice("queue", topology.queue, self.why(self.queue.is_some(), "--queue")),
            choice("order", topology.order, self.why(self.order.is_some(), "--order")),
            choice("capacity", format!("{} may wait", topology.queue_capacity), why),
        ]);
        Ok(())
    }
}

impl Settled {
    fn ignored(&mut self, flag: &str, why: &str) {
        self.warnings.push(format!("{flag} {why}"));
    }
}

fn choice(setting: &'static str, value: impl ToString, why: impl Into<String>) -> Choice {
    Choice { setting, value: value.to_string(), why: why.into() }
}

#[cfg(test)]
mod tests;
