//! What to send: a declared load, as a plain value that can be stored, shipped and repeated.

mod check;
mod split;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::link::Link;

pub(crate) use check::{LEAST_TIMEOUT_S, LONGEST_S};
pub use split::processes_for;
pub(crate) use split::{MOST_PROCESSES, most_connections};

/// A load against one URL. `Plan::new(url)` is a complete plan, of a closed loop; its fields can then be changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// `http://host[:port]/path[?query]`; the only scheme is `http`.
    pub url: String,
    /// Connections held open, each with one request under way. At least 1. In an open loop this is how many requests can
    /// be under way at the same time; those that are due and find no connection free wait for one, and that counts.
    pub connections: u32,
    /// When requests are sent.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Threads that share the connections; 0 means one per usable core. Never more than connections, and of several processes
    /// each has as many as another, so that it may be a few more.
    pub threads: u32,
    /// When to stop.
    pub stop: Stop,
    /// Seconds of load before measuring starts; its requests are sent but not recorded.
    pub warmup_s: f64,
    /// Seconds a connect or a whole response may take before it is counted as a time-out.
    pub timeout_s: f64,
    /// One connection per request (`Connection: close`), as ab without -k and Webbench do.
    pub close: bool,
    /// Requests that are sent at once on a connection before the first answer is awaited (pipelining); only in a closed
    /// loop without think time.
    #[serde(default = "one")]
    pub pipeline: u32,
    /// What to ask for instead of the URL's own path; empty for that.
    #[serde(default)]
    pub targets: Vec<Wanted>,
    /// Content of each request.
    #[serde(default)]
    pub body: String,
    /// Request method.
    pub method: String,
    /// Extra request fields, in order. `Host` may be given; otherwise it is taken from the URL.
    pub fields: Vec<(String, String)>,
    /// Addresses of this host that connections come from, in turn, 127.0.0.2 and on: each has as many ports of its own. Only
    /// for servers on 127.0.0.0/8; 0 leaves it to the kernel.
    #[serde(default)]
    pub sources: u32,
    /// What an answer must be to count as one.
    #[serde(default)]
    pub expect: Expect,
    /// Bytes per second that each connection sends, as over a bad network; 0 for as fast as it can.
    #[serde(default)]
    pub send_rate: f64,
    /// Bytes per second that each connection takes; 0 for as fast as it can.
    #[serde(default)]
    pub receive_rate: f64,
    /// A network between the load and a server on this host; `None` for the loopback interface alone.
    #[serde(default)]
    pub link: Option<Link>,
    /// Processes that share the threads, for more connections than one process may have descriptors; [`crate::fleet`] starts
    /// them, and [`crate::run`] has one whatever this says.
    #[serde(default = "one")]
    pub processes: u32,
    /// Cores the load's threads are pinned to, in turn; empty means not pinned.
    pub cpus: Vec<usize>,
}

fn one() -> u32 {
    1
}

/// Something to ask for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Path and query.
    pub path: String,
    /// How often it is asked for, in relation to the others. If all are equal they take turns.
    pub weight: f64,
}

/// What an answer must be to count as one; anything else is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Status codes; empty for any.
    pub statuses: Vec<u16>,
    /// Length of the content, in bytes.
    pub length: Option<u64>,
    /// SHA-256 of the content, in 64 hexadecimal digits, as sha256sum prints it.
    pub sha256: Option<String>,
}

/// When requests are sent (Schroeder, Wierman, Harchol-Balter: Open Versus Closed, NSDI 2006).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrivals {
    /// Closed loop: each connection sends its next request so many seconds after it has the answer to the last. A slow
    /// server slows its own load down.
    Closed {
        /// Seconds.
        think_s: f64,
    },
    /// Open loop: requests are due at times that do not depend on the server, and their response time counts from then.
    Open {
        /// How many are due.
        rate: Rate,
        /// How they follow each other.
        spacing: Spacing,
        /// The same seed makes the same load.
        seed: u64,
        /// Partly open: what is due is the first request of a session.
        #[serde(default)]
        session: Option<Session>,
    },
    /// Open loop: what an access log asks for, when it was asked for then. Only its GETs.
    Replay {
        /// A log in the combined format, or in JSON as `plimsoll serve` writes it.
        log: PathBuf,
        /// 2 for twice as fast.
        speed: f64,
    },
}

impl Arrivals {
    /// Whether requests are due at times that do not depend on the server.
    pub fn is_open(&self) -> bool {
        !matches!(self, Arrivals::Closed { .. })
    }

    /// Whether the rate is not meant to change over time.
    pub fn is_level(&self) -> bool {
        matches!(self, Arrivals::Closed { .. } | Arrivals::Open { rate: Rate::Steady { .. }, .. })
    }
}

impl Default for Arrivals {
    fn default() -> Self {
        Arrivals::Closed { think_s: 0.0 }
    }
}

/// A rate over time, in requests per second and seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "snake_case", deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields' names say it, and the units are above")]
pub enum Rate {
    /// The same all the time.
    Steady { rate: f64 },
    /// From one rate to another, evenly, and then that one.
    Ramp { from: f64, to: f64, seconds: f64 },
    /// One rate after the other, and then the last one.
    Steps { rates: Vec<f64>, each_s: f64 },
    /// A rate, then nothing, and again.
    OnOff { rate: f64, on_s: f64, off_s: f64 },
    /// Two rates, each for a time drawn from an exponential distribution with its mean: a Markov-modulated process, whose
    /// bursts come when nobody expects them.
    TwoState { low: f64, high: f64, low_s: f64, high_s: f64 },
}

/// How requests follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// Evenly, as a metronome does.
    Constant,
    /// As those of many who do not know of each other: exponential gaps.
    Poisson,
}

/// A visitor who sends more than one request over one connection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Probability of another request after an answer, below 1.
    pub go_on: f64,
    /// Seconds between an answer and the next request.
    pub think_s: f64,
}

/// When a load stops.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// After this many seconds of measuring.
    Seconds(f64),
    /// After this many measured requests.
    Requests(u64),
}

impl Stop {
    /// How long the measuring takes, where that is known before.
    pub fn duration(self) -> Option<Duration> {
        match self {
            Stop::Seconds(seconds) => Some(Duration::from_secs_f64(seconds)),
            Stop::Requests(_) => None,
        }
    }
}

impl Rate {
    /// The mean over a long time, in requests per second; of a ramp and of steps, the last rate.
    pub fn in_the_long_run(&self) -> f64 {
        match self {
            Rate::Steady { rate } => *rate,
            Rate::Ramp { to, .. } => *to,
            Rate::Steps { rates, .. } => rates.last().copied().unwrap_or_default(),
            Rate::OnOff { rate, on_s, off_s } => rate * on_s / (on_s + off_s),
            Rate::TwoState { low, high, low_s, high_s } => (low * low_s + high * high_s) / (low_s + high_s),
        }
    }
}

impl Plan {
    /// 64 connections for 10 seconds, without warm-up, with as many threads as there are cores.
    pub fn new(url: impl Into<String>) -> Self {
        Plan {
            url: url.into(),
            connections: 64,
            arrivals: Arrivals::default(),
            threads: 0,
            stop: Stop::Seconds(10.0),
            warmup_s: 0.0,
            timeout_s: 15.0,
            close: false,
            pipeline: 1,
            targets: Vec::new(),
            body: String::new(),
            method: "GET".into(),
            fields: Vec::new(),
            sources: 0,
            expect: Expect::default(),
            send_rate: 0.0,
            receive_rate: 0.0,
            link: None,
            processes: 1,
            cpus: Vec::new(),
        }
    }

    /// The seed of whatever is drawn.
    pub(crate) fn seed(&self) -> u64 {
        match self.arrivals {
            Arrivals::Open { seed, .. } => seed,
            Arrivals::Closed { .. } | Arrivals::Replay { .. } => 1,
        }
    }

    /// Threads that the load will use: as many in each of its processes.
    pub fn threads(&self) -> u32 {
        split::threads(self.threads, self.processes).min(self.connections).max(1)
    }

    /// Cores that the load may use: those that it is kept to, or all that there are for this process.
    pub fn cores(&self) -> usize {
        if self.cpus.is_empty() { engine::host::usable() } else { self.cpus.len() }
    }
}
