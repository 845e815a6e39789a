//! What a plan may hold: every value is looked at before anything is sent.

use super::split::{MOST_PROCESSES, most_connections, processes_for};
use super::{Arrivals, Expect, Plan, Rate, Session, Stop, Wanted};
use crate::error::Error;
use crate::expect::parse_sha256;
use crate::mix::Mix;
use crate::target::Target;

/// Longest time a plan may ask for, in seconds: a week.
pub(crate) const LONGEST_S: f64 = 7.0 * 86_400.0;

/// The least time-out that a plan may have, in seconds.
pub(crate) const LEAST_TIMEOUT_S: f64 = 0.001;

/// Most source addresses.
const MOST_SOURCES: u32 = 250;

/// Most requests that are sent at once.
const MOST_PIPELINED: u32 = 1000;

/// Highest rate that a plan may ask for, in requests per second; no host comes near it.
const MOST_RATE: f64 = 1e8;

/// Lowest rate but for none at all: a request in eleven days.
const LEAST_RATE: f64 = 1e-6;

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
            Arrivals::Replay { speed, .. } if !(0.001..=1e6).contains(speed) => {
                Err(format!("speed {speed}: must be 0.001 to 1000000"))
            }
            Arrivals::Replay { .. } => Ok(()),
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
        let can_be = |rate: &f64| *rate == 0.0 || (LEAST_RATE..=MOST_RATE).contains(rate);
        if let Some(rate) = rates.iter().find(|rate| !can_be(rate)) {
            return Err(format!(
                "rate of {rate} requests per second: must be {LEAST_RATE} to {MOST_RATE:.0}, or 0 for none"
            ));
        }
        if !rates.iter().any(|rate| *rate > 0.0) {
            return Err("a rate of 0 requests per second all the time: some rate must be above 0".into());
        }
        times.into_iter().try_for_each(|seconds| time("stretch of a rate", seconds, 0.001))
    }
}

impl Plan {
    /// Checks every value.
    ///
    /// # Errors
    /// The first value that cannot be used, why, and what could be.
    pub fn validate(&self) -> Result<(), Error> {
        let bad = |problem: String| Err(Error::Plan(problem));
        let target = Target::parse(&self.url)?;
        if self.connections == 0 {
            return bad("connections 0: must be at least 1".into());
        }
        if !(1..=MOST_PROCESSES).contains(&self.processes) {
            return bad(format!("processes {}: must be 1 to {MOST_PROCESSES}", self.processes));
        }
        self.validate_descriptors().map_err(Error::Plan)?;
        self.validate_ports().map_err(Error::Plan)?;
        self.validate_network().map_err(Error::Plan)?;
        let (what, seconds) = match self.stop {
            Stop::Requests(0) => return bad("requests 0: must be at least 1".into()),
            Stop::Requests(_) => ("duration", 1.0),
            Stop::Seconds(seconds) => ("duration", seconds),
        };
        for (what, seconds, least) in [
            (what, seconds, 0.001),
            ("warm-up", self.warmup_s, 0.0),
            ("time-out", self.timeout_s, LEAST_TIMEOUT_S),
        ] {
            if !(least..=LONGEST_S).contains(&seconds) {
                return bad(format!("{what} of {seconds} s: must be {least} s to {LONGEST_S} s"));
            }
        }
        self.arrivals.validate().map_err(Error::Plan)?;
        // Every request is made once, to see that its places are known.
        Mix::new(&target, self, None, 0, 1).map_err(Error::Plan)?;
        self.validate_requests().map_err(Error::Plan)?;
        self.validate_answers().map_err(Error::Plan)?;
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

    /// Whether each process may have as many connections.
    fn validate_descriptors(&self) -> Result<(), String> {
        let Some(most) = most_connections(self.threads, self.processes) else { return Ok(()) };
        let connections = u64::from(self.connections);
        if connections <= most {
            return Ok(());
        }
        let limit = engine::host::descriptor_limit().unwrap_or_default();
        Err(format!(
            "connections {connections}: a process may have {limit} descriptors open here, which is enough for {most} \
             connections with as many processes and threads: take {} processes, raise the limit (ulimit -n), or ask for fewer",
            processes_for(self.connections, self.threads)
        ))
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

    /// Whether the network can be what is asked for.
    fn validate_network(&self) -> Result<(), String> {
        for (what, rate) in [("send", self.send_rate), ("receive", self.receive_rate)] {
            if rate != 0.0 && !(1.0..=1e9).contains(&rate) {
                return Err(format!(
                    "{what} rate of {rate} bytes per second: must be 1 to 1000000000, or 0 for no limit"
                ));
            }
        }
        let Some(link) = &self.link else { return Ok(()) };
        link.validate()?;
        match self.processes > 1 || self.sources > 0 {
            true => Err("a link is for one process, and for connections from one address".into()),
            false => Ok(()),
        }
    }

    fn validate_answers(&self) -> Result<(), String> {
        let Expect { statuses, sha256, .. } = &self.expect;
        if let Some(code) = statuses.iter().find(|code| !(200..=599).contains(*code)) {
            return Err(format!("status {code}: answers have 200 to 599"));
        }
        match sha256 {
            Some(text) if parse_sha256(text).is_none() => {
                Err(format!("hash {text:?}: must be the 64 hexadecimal digits that sha256sum prints"))
            }
            _ => Ok(()),
        }
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
}
