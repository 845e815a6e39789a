//! How much load a server carries within a target: a search that no single noisy run decides.
//!
//! The level (requests per second in open loop, or simultaneous clients in closed loop) is doubled until the target is
//! missed, and the interval between the last level that kept it and the first that missed it is halved until it is narrow
//! enough. A level is decided by two of three probes, but for one that keeps the target by far. Where a client waited about as
//! long as its probe, it may have been answered only since the load had ended: then the probe is made again, longer than an
//! answer may take. Where few answers come a percentile is kept or missed as soon as chance is no explanation; until then the
//! probe is made longer, up to ten minutes, and what is open even then is no miss. The level that is the answer is tried
//! again at the end, three times as long, and as often as was asked for. Where an open loop has too few connections for its
//! rate, which the server is not to blame for, it gets more. Before each probe the server is waited for until it has done
//! with what the last one left behind, so that a level is not blamed for the one before.

mod drain;
mod hunt;
mod judge;

use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::drain::Drain;

use crate::Switch;
use crate::error::Error;
use crate::outcome::Outcome;
use crate::plan::{Arrivals, Plan, Rate, Spacing, Stop, most_connections};
use crate::progress::Progress;
use crate::run::run_until;
use crate::threshold::Threshold;

/// Descriptors of each process that are kept for whatever else the program has open.
const DESCRIPTORS_KEPT: u64 = 32;

/// Clients where there is no limit of descriptors.
const CLIENTS: f64 = 10_000.0;

/// What is looked for.
#[derive(Clone, Debug)]
pub struct Search {
    /// The load. Its stop is the search's own affair, and so are its arrivals, but for the time that clients think; its warm-up
    /// comes before each probe. An open loop begins with its connections, and gets more where they are too few.
    pub plan: Plan,
    /// What is varied.
    pub what: What,
    /// What must be kept.
    pub target: Vec<Threshold>,
    /// Seconds of one probe.
    pub probe_s: f64,
    /// Longer probes of the answer at the end, of which most must keep the target.
    pub confirmations: u32,
    /// How narrow the answer must be: highest over lowest, less 1.
    pub precision: f64,
    /// The first level to try; where none is given, one client, or a tenth of the rate without a schedule.
    pub start: Option<f64>,
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

    /// What must be kept if nothing is said, as thresholds are written. Of clients it is every answer within 15 s, as in source
    /// D: a share of errors would hide clients that get no answer among those that get many.
    pub fn usual_target(self) -> [&'static str; 2] {
        match self {
            What::Rate => ["p99<50ms", "errors<0.1%"],
            What::Clients => ["max<15s", "errors<0%"],
        }
    }
}

/// The most clients that the processes of a load can have at a time: as many as it has descriptors and ports for.
pub fn most_clients(plan: &Plan) -> f64 {
    let descriptors = most_connections(plan.threads, plan.processes);
    let kept = DESCRIPTORS_KEPT * u64::from(plan.processes);
    let descriptors = descriptors.map_or(CLIENTS, |most| most.saturating_sub(kept) as f64);
    let ports = crate::host::ports() as f64 * f64::from(plan.sources.max(1));
    descriptors.min(ports).max(1.0)
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
    /// Whose limit it was.
    #[serde(default)]
    pub end: End,
    /// Why the search stopped there.
    pub reason: String,
    /// Seconds of a probe.
    #[serde(default)]
    pub probe_s: f64,
    /// The highest level that was to be tried.
    #[serde(default)]
    pub most: f64,
    /// Every probe, in the order in which they were made.
    pub probes: Vec<Probe>,
}

impl Capacity {
    /// Probes that missed the target, and may have done so for what the probe before had left behind.
    pub fn spoilt(&self) -> usize {
        self.probes.iter().filter(|probe| probe.undrained && probe.missed()).count()
    }

    /// Why the figures of the last probe that kept the answer's level need care; none where they do not.
    pub fn doubts(&self) -> &[String] {
        let answer = self.probes.iter().rfind(|probe| probe.kept && probe.level == self.at_least);
        answer.map_or(&[], |probe| &probe.doubts)
    }

    /// Whether the server may carry more than was found.
    pub fn is_lower_bound(&self) -> bool {
        self.end != End::Server
    }
}

/// Whose limit ended a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The server's: it missed the target.
    #[default]
    Server,
    /// The load generator's or the host's, where the target was missed: the server may carry more.
    Generator,
    /// Nobody's: the highest level that was to be tried kept the target.
    Highest,
}

/// One probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The level that was tried.
    pub level: f64,
    /// Whether it kept the target.
    pub kept: bool,
    /// Too few answers came to tell whether it did, however long it was: it is no miss.
    #[serde(default)]
    pub undecided: bool,
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
    /// Connections of the load.
    #[serde(default)]
    pub connections: u32,
    /// The seed of the load: another for each.
    #[serde(default)]
    pub seed: u64,
    /// Where it kept the target: why its figures need care, by the verdict of its load.
    #[serde(default)]
    pub doubts: Vec<String>,
    /// The load generator was at its own limit, so that a miss may not be the server's.
    pub client_bound: bool,
    /// The server had not done with the probe before, for as long as it was waited for: a miss may be due to that.
    #[serde(default)]
    pub undrained: bool,
}

impl Probe {
    /// Whether it missed the target.
    pub fn missed(&self) -> bool {
        !self.kept && !self.undecided
    }

    /// What it says of the level, in a word or two.
    pub fn word(&self) -> &'static str {
        match (self.kept, self.undecided) {
            (_, true) => "not known",
            (true, _) => "kept",
            _ => "missed",
        }
    }

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
    /// The search begins, and takes about so long where every probe is clear.
    Expected(Duration),
    /// A level is being tried.
    Trying(f64, &'a Progress),
    /// The server has not done with the last probe yet, and was waited for so long.
    Draining(Duration),
    /// A probe is done.
    Done(&'a Probe),
}

/// What a search does to a server, which is up to the caller. An error of any of it ends the search.
pub trait Means {
    /// Runs the load of a probe, and tells how it goes on.
    ///
    /// # Errors
    /// The load cannot be run, or the search is to end.
    fn load(&mut self, plan: &Plan, observer: &mut dyn FnMut(&Progress)) -> Result<Outcome, Error>;

    /// Runs a load that is a single request.
    ///
    /// # Errors
    /// As for [`Means::load`].
    fn ask(&mut self, plan: &Plan) -> Result<Outcome, Error>;

    /// Waits so long.
    ///
    /// # Errors
    /// The search is to end.
    fn pause(&mut self, time: Duration) -> Result<(), Error>;
}

/// Loads from this process.
struct Here<'a> {
    cancel: &'a Switch,
}

impl Here<'_> {
    fn go_on(&self) -> Result<(), Error> {
        if self.cancel.is_set() {
            return Err(Error::Nothing("the search was cancelled".into()));
        }
        Ok(())
    }
}

impl Means for Here<'_> {
    fn load(&mut self, plan: &Plan, observer: &mut dyn FnMut(&Progress)) -> Result<Outcome, Error> {
        let outcome = run_until(plan, self.cancel, observer)?;
        self.go_on()?;
        Ok(outcome)
    }

    fn ask(&mut self, plan: &Plan) -> Result<Outcome, Error> {
        self.load(plan, &mut |_| ())
    }

    fn pause(&mut self, time: Duration) -> Result<(), Error> {
        thread::sleep(time);
        self.go_on()
    }
}

/// Searches.
///
/// # Errors
/// A load cannot be run at all, or even the lowest level misses the target, or the search was cancelled.
pub fn search(search: &Search, cancel: &Switch, news: &mut dyn FnMut(News<'_>)) -> Result<Capacity, Error> {
    search_by(search, &mut Here { cancel }, news)
}

/// Searches with loads that the caller runs; the last of them is a probe of the level that is the answer. The server must be idle.
///
/// # Errors
/// A load fails, or even the lowest level misses the target.
pub fn search_by(
    search: &Search,
    means: &mut dyn Means,
    news: &mut dyn FnMut(News<'_>),
) -> Result<Capacity, Error> {
    let drain = Drain::of_idle(&search.plan, means)?;
    let start = match (search.start, search.what) {
        (Some(start), _) => start,
        (None, What::Clients) => 1.0,
        (None, What::Rate) => {
            // A tenth of what it does when nobody waits for it.
            let stop = Stop::Seconds(search.probe_s.min(3.0));
            let plan = Plan { arrivals: Arrivals::default(), stop, ..search.plan.clone() };
            let peak = means.load(&plan, &mut |progress| news(News::Trying(0.0, progress)))?;
            (peak.requests_per_second / 10.0).max(1.0)
        }
    };
    hunt::Hunt::new(search, drain, means, news).run(start)
}

/// The load of one probe.
fn at_level(search: &Search, level: f64, connections: u32, seconds: f64, seed: u64) -> Plan {
    let plan = Plan { stop: Stop::Seconds(seconds), ..search.plan.clone() };
    match search.what {
        What::Clients => {
            let arrivals = if plan.arrivals.is_open() { Arrivals::default() } else { plan.arrivals };
            Plan { connections: level as u32, arrivals, ..plan }
        }
        What::Rate => {
            let arrivals = Arrivals::Open {
                rate: Rate::Steady { rate: level },
                spacing: Spacing::Poisson,
                seed,
                session: None,
            };
            Plan { arrivals, connections, ..plan }
        }
    }
}
