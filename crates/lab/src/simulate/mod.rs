//! A server on a host as a discrete-event model: what a topology would do with cores, costs and a load that are not at hand.
//!
//! Threads take turns on the host's cores by processor sharing. Reactors and workers serve one request at a time, first
//! come, first served (or as the topology's order says). Nothing of the kernel, the network or the memory is in it but what the costs
//! say, and the same seed gives the same result.

mod agenda;
mod control;
mod fleet;
mod host;
mod outcome;
mod server;
#[cfg(test)]
mod theory;
mod workload;

use engine::Topology;
use engine::topology::{Kind, Order};

pub use self::control::{Controller, Observation};
pub use self::outcome::Outcome;
pub use self::workload::{Burst, Law, Load, Route};

/// Most threads of a model.
const MOST_THREADS: usize = 1 << 20;

/// What is modelled.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Seconds that are measured.
    pub seconds: f64,
    /// Seconds before that.
    pub warmup_s: f64,
    /// Cores of the host.
    pub cores: f64,
    /// Share of them that the load takes, 0 to below 1.
    pub load_share: f64,
    /// The threads of the server; not those of the blocking driver.
    pub topology: Topology,
    /// What a request costs beside its business time.
    pub costs: Costs,
    /// How requests come.
    pub load: Load,
    /// The kinds of requests, by their shares.
    pub mix: Vec<Route>,
    /// Whether they become others.
    pub change: Option<Change>,
}

/// Requests of which each takes something else from a moment on.
#[derive(Clone, Debug)]
pub struct Change {
    /// When, in seconds from the start.
    pub at_s: f64,
    /// The kinds of requests from then on, by their shares.
    pub mix: Vec<Route>,
}

/// What a request costs beside its business time, in microseconds of processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Costs {
    /// To receive, parse, answer and send it, on the reactor.
    pub reactor_us: f64,
    /// To hand it to a worker and the answer back: half of it on each side.
    pub handoff_us: f64,
    /// Within that hand-over, but on top of its cost: what only one worker of a pool can do at a time.
    pub lock_us: f64,
}

impl Setup {
    /// Cores that are left to the server.
    fn usable(&self) -> f64 {
        self.cores * (1.0 - self.load_share)
    }

    /// The kinds of requests, and what they become.
    fn mixes(&self) -> impl Iterator<Item = &Vec<Route>> {
        [&self.mix].into_iter().chain(self.change.as_ref().map(|change| &change.mix))
    }

    /// The kinds of requests at a moment.
    fn mix_at(&self, now: f64) -> &[Route] {
        self.change.as_ref().filter(|change| now >= change.at_s).map_or(&self.mix, |change| &change.mix)
    }

    /// # Errors
    /// What of it cannot be modelled, in words.
    fn check(&self) -> Result<(), String> {
        let Setup { topology, costs, .. } = self;
        let ensure = |good: bool, why: &str| if good { Ok(()) } else { Err(why.to_owned()) };
        let positive = |value: f64| value > 0.0 && value.is_finite();
        let natural = |value: f64| value >= 0.0 && value.is_finite();
        ensure(
            positive(self.seconds) && natural(self.warmup_s),
            "seconds must be above 0, and warmup_s not below",
        )?;
        ensure(positive(self.cores), "cores must be above 0")?;
        ensure((0.0..1.0).contains(&self.load_share), "load_share must be 0 to below 1")?;
        ensure(topology.driver != Kind::Blocking, "threads that own one connection each are not modelled")?;
        let threads = topology.reactors.saturating_add(topology.handlers());
        ensure((1..=MOST_THREADS).contains(&topology.reactors), "there must be a reactor")?;
        ensure(threads <= MOST_THREADS, "there are too many threads")?;
        let costs = [costs.reactor_us, costs.handoff_us, costs.lock_us];
        ensure(costs.into_iter().all(natural), "costs must not be below 0")?;
        let bad = |route: &Route| ![route.share, route.sleep_us, route.spin_us].into_iter().all(natural);
        for mix in self.mixes() {
            let shares = mix.iter().map(|route| route.share).sum::<f64>();
            ensure(shares > 0.0, "the mix needs a route with a share above 0")?;
            ensure(!mix.iter().any(bad), "shares and times of routes must not be below 0")?;
        }
        ensure(self.change.as_ref().is_none_or(|change| natural(change.at_s)), "at_s must not be below 0")?;
        self.load.check()?;
        ensure(topology.order != Order::Adaptive, "the adaptive order is not modelled")?;
        let free = costs[0] + costs[1] == 0.0 && !self.load.takes_time();
        let fills =
            matches!(self.load, Load::Closed { connections, .. } if connections > topology.queue_capacity);
        ensure(
            topology.pools() == 0 || !free || !fills,
            "a request that is turned away must take some time",
        )?;
        // Otherwise time would stand still while requests go round.
        let takes = |route: &Route| route.share == 0.0 || route.sleep_us + route.spin_us > 0.0;
        let some = costs[0] > 0.0 || self.load.takes_time() || self.mixes().flatten().all(takes);
        ensure(some, "a request must take some time")
    }
}

/// Runs the model.
///
/// # Errors
/// What of the set-up cannot be modelled, in words.
pub fn simulate(setup: &Setup) -> Result<Outcome, String> {
    setup.check()?;
    Ok(server::Server::new(setup, None).run())
}

/// Runs the model with a controller that may change the number of workers every `tick_s` seconds. Starting a thread costs
/// nothing; one that is not wanted any more ends as soon as it is idle.
///
/// # Errors
/// As [`simulate`]; or `tick_s` is not above 0, or the topology has no workers.
pub fn simulate_with(setup: &Setup, tick_s: f64, controller: &mut Controller<'_>) -> Result<Outcome, String> {
    setup.check()?;
    if !(tick_s > 0.0 && tick_s.is_finite()) || setup.topology.pools() == 0 {
        return Err("a controller needs a tick above 0 and a topology with workers".into());
    }
    Ok(server::Server::new(setup, Some((tick_s, controller))).run())
}
