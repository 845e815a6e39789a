//! How much load a server carries within a target: a search that no single noisy run decides.
//!
//! The level (requests per second in open loop, or simultaneous clients in closed loop) is doubled until the target is
//! missed, and the interval between the last level that kept it and the first that missed it is halved until it is narrow
//! enough. A level that missed is tried again, and counts as missed only if it misses twice in three; the level that is
//! the answer is tried again at the end, three times as long.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::outcome::Outcome;
use crate::plan::{Arrivals, Plan, Rate, Spacing, Stop};
use crate::progress::Progress;
use crate::run::run_until;
use crate::threshold::Threshold;
use crate::{Switch, verdict};

/// Most probes of one search.
const MOST_PROBES: usize = 60;

/// Steps that the search goes down at the end, if its answer does not last.
const CONFIRMATIONS: u32 = 5;

/// Answers beyond those that are needed, as a factor: some are late.
const SPARE: f64 = 1.2;

/// Longest probe, in seconds.
const LONGEST_S: f64 = 600.0;

/// Times a level is halved at the start before the search gives up.
const HALVINGS: u32 = 4;

/// What is looked for.
#[derive(Clone, Debug)]
pub struct Search {
    /// The load; its arrivals and its stop are the search's own affair.
    pub plan: Plan,
    /// What is varied.
    pub what: What,
    /// What must be kept.
    pub target: Vec<Threshold>,
    /// Seconds of one probe.
    pub probe_s: f64,
    /// How narrow the answer must be: highest over lowest, less 1.
    pub precision: f64,
    /// The highest level to try.
    pub most: f64,
}

/// What is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Requests per second, in open loop.
    Rate,
    /// Simultaneous clients, each with one request under way.
    Clients,
}

impl What {
    /// What a level counts.
    pub fn unit(self) -> &'static str {
        match self {
            What::Rate => "requests per second",
            What::Clients => "clients",
        }
    }
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// What was varied.
    pub what: What,
    /// The highest level that kept the target.
    pub at_least: f64,
    /// The lowest level that missed it; `None` if none did.
    pub below: Option<f64>,
    /// Whether `at_least` kept the target again at the end.
    pub confirmed: bool,
    /// Why the search stopped there.
    pub reason: String,
    /// Every probe, in the order in which they were made.
    pub probes: Vec<Probe>,
}

/// One probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The level that was tried.
    pub level: f64,
    /// Whether it kept the target.
    pub kept: bool,
    /// What it missed, and what cannot be trusted about it.
    pub reasons: Vec<String>,
    /// Answers per second.
    pub requests_per_second: f64,
    /// Median and 99th percentile of the response time, in microseconds.
    pub p50_us: Option<u64>,
    /// The 99th percentile of the same.
    pub p99_us: Option<u64>,
    /// The longest.
    pub max_us: u64,
    /// The load generator was at its own limit, so that a miss may not be the server's.
    pub client_bound: bool,
}

impl Probe {
    /// The 99th percentile of the response time in microseconds; the longest where too few answers came for one.
    pub fn late_us(&self) -> u64 {
        self.p99_us.unwrap_or(self.max_us)
    }

    /// The median of the response time in microseconds; where too few answers came for one, as late as any.
    pub fn early_us(&self) -> u64 {
        self.p50_us.unwrap_or_else(|| self.late_us())
    }
}

/// What is told while a search runs.
pub enum News<'a> {
    /// A level is being tried.
    Trying(f64, &'a Progress),
    /// A probe is done.
    Done(&'a Probe),
}

/// Searches.
///
/// # Errors
/// A load cannot be run at all, or even the lowest level misses the target, or the search was cancelled.
pub fn search(search: &Search, cancel: &Switch, news: &mut dyn FnMut(News<'_>)) -> Result<Capacity, Error> {
    let start = match search.what {
        What::Clients => 1.0,
        What::Rate => {
            // A tenth of what it does when nobody waits for it.
            let stop = Stop::Seconds(search.probe_s.min(3.0));
            let plan = Plan { arrivals: Arrivals::default(), stop, ..search.plan.clone() };
            let peak = run_until(&plan, cancel, &mut |progress| news(News::Trying(0.0, progress)))?;
            (peak.requests_per_second / 10.0).max(1.0)
        }
    };
    let mut measure = |level: f64, seconds: f64, news: &mut dyn FnMut(News<'_>)| {
        let plan = at_level(search, level, seconds);
        let outcome = run_until(&plan, cancel, &mut |progress| news(News::Trying(level, progress)))?;
        if cancel.is_set() {
            return Err(Error::Nothing("the search was cancelled".into()));
        }
        Ok(outcome)
    };
    Hunt { search, probes: Vec::new(), measure: &mut measure, news }.run(start)
}

/// The load of one probe.
fn at_level(search: &Search, level: f64, seconds: f64) -> Plan {
    let plan = Plan { stop: Stop::Seconds(seconds), ..search.plan.clone() };
    match search.what {
        What::Clients => Plan { connections: level as u32, arrivals: Arrivals::default(), ..plan },
        What::Rate => {
            let arrivals = Arrivals::Open {
                rate: Rate::Steady { rate: level },
                spacing: Spacing::Poisson,
                seed: 1,
                session: None,
            };
            Plan { arrivals, ..plan }
        }
    }
}

type Measure<'a> = dyn FnMut(f64, f64, &mut dyn FnMut(News<'_>)) -> Result<Outcome, Error> + 'a;

/// A search under way.
struct Hunt<'a> {
    search: &'a Search,
    probes: Vec<Probe>,
    measure: &'a mut Measure<'a>,
    news: &'a mut dyn FnMut(News<'_>),
}

impl Hunt<'_> {
    fn run(mut self, start: f64) -> Result<Capacity, Error> {
        let (mut low, mut high) = self.bracket(start)?;
        while let Some(missed) = high {
            let next = self.between(low, missed);
            if missed / low <= 1.0 + self.search.precision || next <= low || next >= missed || self.is_tired()
            {
                break;
            }
            if self.keeps(next)? { low = next } else { high = Some(next) }
        }
        let mut confirmed = self.probe(low, self.search.probe_s * 3.0)?;
        // What was kept for a short while only is too much; the next lower step may last.
        for _ in 0..CONFIRMATIONS {
            let next = self.level(low / (1.0 + self.search.precision));
            if confirmed || next >= low {
                break;
            }
            (low, high) = (next, Some(low));
            confirmed = self.probe(low, self.search.probe_s * 3.0)?;
        }
        let reason = self.reason(high);
        Ok(Capacity {
            what: self.search.what,
            at_least: low,
            below: high,
            confirmed,
            reason,
            probes: self.probes,
        })
    }

    /// The last level that kept the target, going up, and the first that missed it.
    fn bracket(&mut self, start: f64) -> Result<(f64, Option<f64>), Error> {
        let mut level = self.level(start.min(self.search.most));
        let mut halved = 0;
        let mut missed = None;
        while !self.keeps(level)? {
            missed = Some(level);
            halved += 1;
            if halved > HALVINGS || level <= 1.0 {
                let why = self.probes.last().map(|probe| probe.reasons.join("; ")).unwrap_or_default();
                return Err(Error::Nothing(format!("even {level:.0} is too much for the target: {why}")));
            }
            level = self.level(level / 2.0);
        }
        while missed.is_none() && level < self.search.most && !self.is_tired() {
            let next = self.level((level * 2.0).min(self.search.most));
            if self.keeps(next)? { level = next } else { missed = Some(next) }
        }
        Ok((level, missed))
    }

    /// Whether a level keeps the target: at once, or in two of three probes.
    fn keeps(&mut self, level: f64) -> Result<bool, Error> {
        let seconds = self.search.probe_s;
        Ok(self.probe(level, seconds)? || (self.probe(level, seconds)? && self.probe(level, seconds)?))
    }

    fn probe(&mut self, level: f64, seconds: f64) -> Result<bool, Error> {
        let seconds = self.long_enough(level, seconds);
        let mut outcome = (self.measure)(level, seconds, self.news)?;
        // How fast clients are answered is only known now: too few answers to tell are no miss.
        let needed = self.samples_needed();
        if (outcome.response_time_us.count as f64) < needed && outcome.requests_per_second > 0.0 {
            let longer = (needed * SPARE / outcome.requests_per_second).min(LONGEST_S);
            if longer > seconds {
                outcome = (self.measure)(level, longer, self.news)?;
            }
        }
        let mut reasons: Vec<String> =
            self.search.target.iter().filter_map(|threshold| threshold.missed_by(&outcome)).collect();
        let unsent = outcome.offered.as_ref().is_some_and(|offered| offered.unsent > 0);
        if unsent {
            reasons.push("not all that was due could be sent: every connection was busy".into());
        }
        let kept = reasons.is_empty() && outcome.answered() > 0;
        let client_bound = verdict::client_is_at_its_limit(&outcome);
        if client_bound {
            reasons.push("the load generator is at its own limit".into());
        }
        let probe = Probe {
            level,
            kept,
            reasons,
            requests_per_second: outcome.requests_per_second,
            p50_us: outcome.response_time_us.p50,
            p99_us: outcome.response_time_us.p99,
            max_us: outcome.response_time_us.max,
            client_bound,
        };
        (self.news)(News::Done(&probe));
        self.probes.push(probe);
        Ok(kept)
    }

    /// Seconds in which enough is answered to know what the target asks for.
    fn long_enough(&self, level: f64, seconds: f64) -> f64 {
        let needed = self.samples_needed() * SPARE;
        let rate = match self.search.what {
            What::Rate => level,
            What::Clients => {
                self.probes.last().map_or(f64::INFINITY, |probe| probe.requests_per_second.max(1.0))
            }
        };
        seconds.max((needed / rate).min(LONGEST_S))
    }

    fn samples_needed(&self) -> f64 {
        self.search.target.iter().map(Threshold::samples_needed).fold(1.0, f64::max)
    }

    fn is_tired(&self) -> bool {
        self.probes.len() >= MOST_PROBES
    }

    /// Clients come in whole numbers.
    fn level(&self, level: f64) -> f64 {
        match self.search.what {
            What::Rate => level,
            What::Clients => level.floor().max(1.0),
        }
    }

    /// The geometric mean: relative steps suit a relative precision.
    fn between(&self, low: f64, high: f64) -> f64 {
        self.level((low * high).sqrt())
    }

    fn reason(&self, high: Option<f64>) -> String {
        let Some(high) = high else {
            return "the highest level that was to be tried still keeps the target".into();
        };
        let missed = self.probes.iter().rfind(|probe| probe.level == high && !probe.kept);
        missed.map(|probe| probe.reasons.join("; ")).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search_of(what: What, target: &str, most: f64) -> Search {
        let target = vec![target.parse().unwrap()];
        Search { plan: Plan::new("http://x/"), what, target, probe_s: 1.0, precision: 0.02, most }
    }

    /// Hunts on a server whose 99th percentile at a level is known.
    fn hunt(search: &Search, p99_us: impl Fn(f64, usize) -> f64) -> Result<Capacity, Error> {
        let mut made = 0;
        let mut measure = |level: f64, _: f64, _: &mut dyn FnMut(News<'_>)| {
            made += 1;
            let mut outcome = Outcome::empty(&search.plan);
            (outcome.requests, outcome.requests_per_second) = (1000, level);
            outcome.response_time_us.p99 = Some(p99_us(level, made) as u64);
            Ok(outcome)
        };
        Hunt { search, probes: Vec::new(), measure: &mut measure, news: &mut |_| () }.run(10.0)
    }

    /// M/M/1: the response time is exponential with rate mu - lambda, here with mu of 10,000.
    fn queue(level: f64) -> f64 {
        if level < 10_000.0 { 100f64.ln() / (10_000.0 - level) * 1e6 } else { 1e9 }
    }

    #[test]
    fn the_load_within_the_target_is_found_in_an_interval() {
        // ln(100) / (mu - lambda) = 50 ms at lambda = 9907.9.
        let found = hunt(&search_of(What::Rate, "p99<50ms", 1e6), |level, _| queue(level)).unwrap();
        let below = found.below.unwrap();
        assert!(found.at_least <= 9907.9 && below >= 9907.9 && below / found.at_least <= 1.02, "{found:?}");
        assert!(found.confirmed && found.reason.contains("p99<50ms: it is "), "{}", found.reason);
    }

    #[test]
    fn one_noisy_probe_decides_nothing() {
        // Every fifth probe is bad, whatever the level.
        let noisy = |level: f64, made: usize| if made.is_multiple_of(5) { 1e9 } else { queue(level) };
        let found = hunt(&search_of(What::Rate, "p99<50ms", 1e6), noisy).unwrap();
        assert!((9500.0..=9907.9).contains(&found.at_least), "{found:?}");
    }

    #[test]
    fn clients_come_in_whole_numbers_and_a_limit_ends_the_search() {
        let found = hunt(&search_of(What::Clients, "p99<1s", 1000.0), |level, _| level * 3000.0).unwrap();
        assert!((327.0..=333.0).contains(&found.at_least) && found.at_least.fract() == 0.0, "{found:?}");
        let found = hunt(&search_of(What::Clients, "p99<1s", 100.0), |_, _| 1.0).unwrap();
        assert_eq!((found.at_least, found.below), (100.0, None));
        assert!(found.reason.contains("highest level"), "{}", found.reason);
    }

    #[test]
    fn a_target_that_nothing_keeps_is_said() {
        let error = hunt(&search_of(What::Rate, "p99<50ms", 1e6), |_, _| 1e9).unwrap_err().to_string();
        assert!(error.contains("p99<50ms"), "{error}");
    }
}
