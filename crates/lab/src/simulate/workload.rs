//! What is asked of a modelled server: how requests come, and how long each takes.

use rand::{Rng, RngExt};

/// Microseconds to seconds.
pub(super) const US: f64 = 1e-6;

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Each of so many connections sends its next request after the last answer.
    Closed {
        /// Connections.
        connections: usize,
        /// Mean time between an answer and the next request, exponential, in microseconds.
        think_us: f64,
        /// What a request costs the load, which does one after the other on a core of its own, in microseconds; 0 for a load that
        /// is never the limit.
        client_us: f64,
    },
    /// Requests come at random (Poisson), each on a connection of its own.
    Open {
        /// Requests per second, while they come.
        rate: f64,
        /// Whether they stop and go.
        burst: Option<Burst>,
    },
}

/// Requests that stop and go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Seconds in which they come.
    pub on_s: f64,
    /// Seconds after that in which none comes.
    pub off_s: f64,
}

impl Load {
    /// # Errors
    /// What of it makes no sense, in words.
    pub(super) fn check(&self) -> Result<(), String> {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        let natural = |value: f64| value >= 0.0 && value.is_finite();
        let good = match self {
            Load::Closed { connections, think_us, client_us } => {
                (1..=1 << 24).contains(connections) && natural(*think_us) && natural(*client_us)
            }
            Load::Open { rate, burst } => {
                positive(*rate) && burst.is_none_or(|Burst { on_s, off_s }| positive(on_s) && natural(off_s))
            }
        };
        if good { Ok(()) } else { Err(format!("the load makes no sense: {self:?}")) }
    }

    /// Whether there is always some time between two requests, whatever the server does.
    pub(super) fn takes_time(&self) -> bool {
        match self {
            Load::Closed { think_us, client_us, .. } => think_us + client_us > 0.0,
            Load::Open { .. } => true,
        }
    }
}

impl Burst {
    /// The moment at which requests have come for so many seconds.
    pub(super) fn moment(&self, on_s: f64) -> f64 {
        let times = (on_s / self.on_s).floor();
        times * (self.on_s + self.off_s) + (on_s - times * self.on_s)
    }
}

/// How a time is spread around its mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Always the same.
    Constant,
    /// Exponential.
    Exponential,
}

/// A kind of request: its business time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    /// Its weight among all routes.
    pub share: f64,
    /// Mean time in which the thread waits, in microseconds.
    pub sleep_us: f64,
    /// Mean time in which the thread computes, in microseconds.
    pub spin_us: f64,
    /// How both are spread.
    pub law: Law,
}

impl Route {
    /// The times of one request to wait and to compute, in seconds.
    pub(super) fn draw(&self, dice: &mut impl Rng) -> (f64, f64) {
        match self.law {
            Law::Constant => (self.sleep_us * US, self.spin_us * US),
            Law::Exponential => (exponential(self.sleep_us * US, dice), exponential(self.spin_us * US, dice)),
        }
    }
}

/// One of several routes, by their shares.
pub(super) fn choose<'a>(mix: &'a [Route], dice: &mut impl Rng) -> &'a Route {
    if mix.len() == 1 {
        return &mix[0];
    }
    let total: f64 = mix.iter().map(|route| route.share).sum();
    let mut left = dice.random::<f64>() * total;
    let chosen = mix.iter().find(|route| {
        left -= route.share;
        left < 0.0
    });
    // What is left after all of them is rounding.
    chosen.unwrap_or(&mix[mix.len() - 1])
}

/// An exponential time of this mean.
pub(super) fn exponential(mean: f64, dice: &mut impl Rng) -> f64 {
    if mean == 0.0 { 0.0 } else { -(1.0 - dice.random::<f64>()).ln() * mean }
}
