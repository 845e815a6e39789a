//! What to send: a declared load, as a plain value that can be stored, shipped and repeated.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::target::Target;

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
    /// Threads that share the connections; 0 means one per usable core, and never more than connections.
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

/// Longest time a plan may ask for, in seconds: a week.
const LONGEST_S: f64 = 7.0 * 86_400.0;

/// Descriptors a load needs beside those of its connections.
const DESCRIPTORS_BESIDE: u64 = 32;

/// Most source addresses.
const MOST_SOURCES: u32 = 250;

/// Most requests that are sent at once.
const MOST_PIPELINED: u32 = 1000;

/// Highest rate that a plan may ask for, in requests per second; no host comes near it.
const MOST_RATE: f64 = 1e8;

impl Arrivals {
    fn validate(&self) -> Result<(), String> {
        let time = |what: &str, seconds: f64, least: f64| match (least..=LONGEST_S).contains(&seconds) {
            true => Ok(()),
            false => Err(format!("{what} of {seconds} s: must be {least} s to {LONGEST_S} s")),
        };
        match self {
            Arrivals::Closed { think_s } => time("think time", *think_s, 0.0),
            Arrivals::Open { rate, session, .. } => {
                rate.validate(time)?;
                let Some(Session { go_on, think_s }) = session else { return Ok(()) };
                if !(0.0..1.0).contains(go_on) {
                    return Err(format!("probability {go_on} of going on: must be at least 0 and below 1"));
                }
                time("think time", *think_s, 0.0)
            }
        }
    }
}

impl Rate {
    fn validate(&self, time: impl Fn(&str, f64, f64) -> Result<(), String>) -> Result<(), String> {
        let (rates, times): (Vec<f64>, Vec<f64>) = match self {
            Rate::Steady { rate } => (vec![*rate], vec![]),
            Rate::Ramp { from, to, seconds } => (vec![*from, *to], vec![*seconds]),
            Rate::Steps { rates, each_s } => (rates.clone(), vec![*each_s]),
            Rate::OnOff { rate, on_s, off_s } => (vec![*rate], vec![*on_s, *off_s]),
            Rate::TwoState { low, high, low_s, high_s } => (vec![*low, *high], vec![*low_s, *high_s]),
        };
        if let Some(rate) = rates.iter().find(|rate| !(0.0..=MOST_RATE).contains(*rate)) {
            return Err(format!("rate of {rate} requests per second: must be 0 to {MOST_RATE:.0}"));
        }
        if !rates.iter().any(|rate| *rate > 0.0) {
            return Err("a rate of 0 requests per second all the time: some rate must be above 0".into());
        }
        times.into_iter().try_for_each(|seconds| time("stretch of a rate", seconds, 0.001))
    }

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
            cpus: Vec::new(),
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that cannot be used, why, and what could be.
    pub fn validate(&self) -> Result<(), Error> {
        let bad = |problem: String| Err(Error::Plan(problem));
        Target::parse(&self.url)?;
        if self.connections == 0 {
            return bad("connections 0: must be at least 1".into());
        }
        if let Some(limit) = engine::host::descriptor_limit()
            && u64::from(self.connections) + DESCRIPTORS_BESIDE > limit
        {
            let most = limit.saturating_sub(DESCRIPTORS_BESIDE);
            return bad(format!(
                "connections {}: this process may have {limit} descriptors open, which is enough for {most} \
                 connections; raise the limit (ulimit -n) or ask for fewer",
                self.connections
            ));
        }
        self.validate_ports().map_err(Error::Plan)?;
        let (what, seconds) = match self.stop {
            Stop::Requests(0) => return bad("requests 0: must be at least 1".into()),
            Stop::Requests(_) => ("duration", 1.0),
            Stop::Seconds(seconds) => ("duration", seconds),
        };
        for (what, seconds, least) in
            [(what, seconds, 0.001), ("warm-up", self.warmup_s, 0.0), ("time-out", self.timeout_s, 0.001)]
        {
            if !(least..=LONGEST_S).contains(&seconds) {
                return bad(format!("{what} of {seconds} s: must be {least} s to {LONGEST_S} s"));
            }
        }
        self.arrivals.validate().map_err(Error::Plan)?;
        self.validate_requests().map_err(Error::Plan)?;
        if self.method.is_empty()
            || !self.method.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            return bad(format!("method {:?}: must be a word such as GET", self.method));
        }
        for (name, value) in &self.fields {
            if wire::put_field(&mut Vec::new(), name, value.as_bytes()).is_err() {
                return bad(format!(
                    "field {name:?}: {value:?}: the name must be a token, the value without control bytes"
                ));
            }
            if ["connection", "content-length", "transfer-encoding"]
                .iter()
                .any(|own| name.eq_ignore_ascii_case(own))
            {
                return bad(format!(
                    "field {name}: the load sets it itself; for a connection per request use `close`"
                ));
            }
        }
        Ok(())
    }

    /// Whether there are ports enough on this side.
    fn validate_ports(&self) -> Result<(), String> {
        if self.sources > MOST_SOURCES {
            return Err(format!("sources {}: must be at most {MOST_SOURCES}", self.sources));
        }
        let ports = crate::host::ports();
        let all = ports.saturating_mul(u64::from(self.sources.max(1)));
        if u64::from(self.connections) <= all {
            return Ok(());
        }
        Err(format!(
            "connections {}: this host has {ports} ports for connections to one server (net.ipv4.ip_local_port_range); \
             with {} source addresses there are enough",
            self.connections,
            u64::from(self.connections).div_ceil(ports.max(1))
        ))
    }

    fn validate_requests(&self) -> Result<(), String> {
        let plain = self.arrivals == Arrivals::default() && !self.close;
        match self.pipeline {
            1 => {}
            2..=MOST_PIPELINED if plain => {}
            2..=MOST_PIPELINED => {
                return Err("pipelining is for closed loops that keep connections and do not think".into());
            }
            other => return Err(format!("pipeline {other}: must be 1 to {MOST_PIPELINED}")),
        }
        for Wanted { path, weight } in &self.targets {
            if !path.starts_with('/') || path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
                return Err(format!(
                    "path {path:?}: must begin with / and have no spaces; write them with %"
                ));
            }
            if !(0.0..=1e9).contains(weight) {
                return Err(format!("weight {weight} of {path}: must be 0 to 1000000000"));
            }
        }
        if !self.targets.is_empty() && self.targets.iter().all(|wanted| wanted.weight == 0.0) {
            return Err("every path weighs 0: some weight must be above 0".into());
        }
        Ok(())
    }

    /// Threads that the load will use.
    pub fn threads(&self) -> u32 {
        let wanted =
            if self.threads == 0 { engine::host::Cores::detect().usable() as u32 } else { self.threads };
        wanted.min(self.connections).max(1)
    }
}
