//! What to send: a declared load, as a plain value that can be stored, shipped and repeated.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::target::Target;

/// A load against one URL, in closed loop: every connection sends its next request when it has the answer to the
/// last. `Plan::new(url)` is a complete plan; its fields can then be changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// `http://host[:port]/path[?query]`; the only scheme is `http`.
    pub url: String,
    /// Connections held open, each with one request under way (closed loop). At least 1.
    pub connections: u32,
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
    /// Request method.
    pub method: String,
    /// Extra request fields, in order. `Host` may be given; otherwise it is taken from the URL.
    pub fields: Vec<(String, String)>,
    /// Cores the load's threads are pinned to, in turn; empty means not pinned.
    pub cpus: Vec<usize>,
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

impl Plan {
    /// 64 connections for 10 seconds, without warm-up, with as many threads as there are cores.
    pub fn new(url: impl Into<String>) -> Self {
        Plan {
            url: url.into(),
            connections: 64,
            threads: 0,
            stop: Stop::Seconds(10.0),
            warmup_s: 0.0,
            timeout_s: 15.0,
            close: false,
            method: "GET".into(),
            fields: Vec::new(),
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

    /// Threads that the load will use.
    pub fn threads(&self) -> u32 {
        let wanted =
            if self.threads == 0 { engine::host::Cores::detect().usable() as u32 } else { self.threads };
        wanted.min(self.connections).max(1)
    }
}
