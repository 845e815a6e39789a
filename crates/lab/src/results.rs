//! What an experiment yields: every cell of every round, and the summary over the rounds.

use load::Verdict;
use load::capacity::Capacity;
use load::sample::ServerUse;
use serde::{Deserialize, Serialize};

use crate::key::CellKey;

/// Version of the JSON form of [`Results`].
pub const SCHEMA: &str = "plimsoll.lab/1";

/// A finished (or interrupted) experiment: the plan, where it ran, every run and what they come to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the experiment: the file's stem.
    pub name: String,
    /// One line of what it compares.
    pub title: String,
    /// What it asks, in a sentence; may be empty.
    #[serde(default)]
    pub question: String,
    /// The command that repeats it.
    pub command: String,
    /// When it started, RFC 3339 in UTC.
    pub started: String,
    /// The plan file, as it was read.
    pub plan: String,
    /// Seed of every shuffle and resampling.
    pub seed: u64,
    /// Rounds asked for.
    pub rounds: u32,
    /// Where it ran, as (name, value): kernel, CPU model, cores, pinning, versions, limits, sysctls.
    pub environment: Vec<(String, String)>,
    /// Runs that were asked for; more than `runs` has where the experiment was interrupted.
    #[serde(default)]
    pub planned_runs: u32,
    /// Every run, in the order they were made.
    pub runs: Vec<Run>,
    /// One entry per cell, over its rounds.
    pub cells: Vec<Cell>,
    /// Cells of the plan without a figure: those that were not looked at, and those of which no run is of use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmeasured: Vec<CellKey>,
    /// What the experiment says, a sentence each, most important first.
    pub findings: Vec<String>,
    /// The plan's budgets, and how they came out.
    pub budgets: Vec<BudgetOutcome>,
    /// What others have claimed, and what came of it.
    #[serde(default)]
    pub claims: Vec<ClaimOutcome>,
    /// Whether the figures can be trusted, and if not, why.
    pub verdict: Verdict,
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimOutcome {
    /// The claim.
    pub text: String,
    /// Whose it is.
    pub source: String,
    /// What the method behind it could show, and what it could not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The cells that were compared, and by what if that is not their rate.
    pub compared: String,
    /// The ratio that was measured, or the figure itself where there is one side only; `None` where a side was not.
    pub ratio: Option<Estimate>,
    /// What that says about the claim.
    pub judgement: Judgement,
    /// Why it is undecided, where that is not to be seen from the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What a measurement says about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// The whole interval agrees with it.
    Reproduced,
    /// The whole interval contradicts it.
    Refuted,
    /// Neither, or it was not measured.
    Undecided,
}

impl Judgement {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Judgement::Reproduced => "reproduced",
            Judgement::Refuted => "refuted",
            Judgement::Undecided => "undecided",
        }
    }
}

/// How a budget came out in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetOutcome {
    /// The bound in words: `plimsoll / floor, CPU per request, 64 connections: at most 1.25`.
    pub text: String,
    /// The ratio that was measured; `None` where a side could not be measured.
    pub ratio: Option<Estimate>,
    /// Whether the median ratio keeps the bound. A ratio that was not measured does not.
    pub met: bool,
    /// Whether the whole interval keeps the bound, or the whole interval misses it; never without one.
    #[serde(default)]
    pub clear: bool,
}

/// One run of one cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Which cell.
    pub cell: CellKey,
    /// Round, from 0.
    pub round: u32,
    /// Position in the shuffled order of its round, from 0.
    pub position: u32,
    /// What the load generator measured, in a search at the most clients that it found; `None` where the run failed.
    pub outcome: Option<load::Outcome>,
    /// What the server's process tree used while measuring.
    pub server: Option<ServerUse>,
    /// What the load beside measured, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<load::Outcome>,
    /// What a search found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Capacity>,
    /// Why the run failed, or `None`.
    pub failure: Option<String>,
    /// Whether this run can be trusted.
    pub verdict: Verdict,
}

/// What was measured in one run.
pub(crate) struct Measured {
    /// By the load.
    pub(crate) outcome: load::Outcome,
    /// Of the server meanwhile.
    pub(crate) server: ServerUse,
    /// By the load beside, where there is one.
    pub(crate) beside: Option<load::Outcome>,
    /// By a search, where the plan asks for one; the other figures are those at the level which it found.
    pub(crate) search: Option<Capacity>,
}

impl From<(load::Outcome, ServerUse)> for Measured {
    fn from((outcome, server): (load::Outcome, ServerUse)) -> Self {
        Measured { outcome, server, beside: None, search: None }
    }
}

impl Run {
    /// Whether its figures mean something.
    pub(crate) fn is_sound(&self) -> bool {
        self.failure.is_none() && !matches!(self.verdict, Verdict::Invalid(_))
    }

    /// Requests per second.
    pub(crate) fn rate(&self) -> Option<f64> {
        Some(self.outcome.as_ref()?.requests_per_second)
    }

    /// The most clients that a search found.
    pub(crate) fn clients(&self) -> Option<f64> {
        Some(self.search.as_ref()?.at_least)
    }

    /// What contenders are compared by: the clients that a search found, and requests per second where there was none.
    pub(crate) fn figure(&self) -> Option<f64> {
        self.clients().or_else(|| self.rate())
    }

    /// Processor time of the server per request, in microseconds; no time at all is no measurement.
    pub(crate) fn cpu(&self) -> Option<f64> {
        Some(self.server.as_ref()?.cpu_us_per_request).filter(|cpu| *cpu > 0.0)
    }

    /// Bytes of answers per second; a load that does not count them has none.
    pub(crate) fn bytes_per_second(&self) -> Option<f64> {
        Some(self.outcome.as_ref()?.bytes_per_second).filter(|bytes| *bytes > 0.0)
    }

    /// Most resident memory of the server's processes, in bytes; none at all is no measurement.
    pub(crate) fn peak_rss(&self) -> Option<f64> {
        Some(self.server.as_ref()?.peak_rss_bytes as f64).filter(|bytes| *bytes > 0.0)
    }

    /// Mean response time, in microseconds; none where no request was timed.
    pub(crate) fn mean(&self) -> Option<f64> {
        Some(self.outcome.as_ref()?.response_time_us.mean).filter(|mean| *mean > 0.0)
    }

    /// Median response time, in microseconds.
    pub(crate) fn p50(&self) -> Option<f64> {
        Some(self.outcome.as_ref()?.response_time_us.p50? as f64)
    }

    /// 99th percentile of the response time, in microseconds.
    pub(crate) fn p99(&self) -> Option<f64> {
        Some(self.outcome.as_ref()?.response_time_us.p99? as f64)
    }

    /// Requests per second of the load beside.
    pub(crate) fn beside_rate(&self) -> Option<f64> {
        Some(self.beside.as_ref()?.requests_per_second)
    }

    /// 99th percentile of the response time of the load beside, in microseconds.
    pub(crate) fn beside_p99(&self) -> Option<f64> {
        Some(self.beside.as_ref()?.response_time_us.p99? as f64)
    }
}

impl BudgetOutcome {
    /// Whether it was judged by a figure alone, since one round has no interval.
    pub(crate) fn is_of_one_round(&self) -> bool {
        self.ratio.is_some_and(|ratio| ratio.interval().is_none())
    }
}

impl Results {
    /// Runs of a cell whose figures mean something.
    pub(crate) fn sound<'a>(&'a self, key: &'a CellKey) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.cell == *key && run.is_sound())
    }

    /// The values of one figure over the rounds of one cell; none if a round lacks it, so that a median is never one
    /// of the better rounds only.
    pub(crate) fn values(&self, key: &CellKey, get: impl Fn(&Run) -> Option<f64>) -> Vec<f64> {
        self.sound(key).map(get).collect::<Option<_>>().unwrap_or_default()
    }
}

/// The fastest of some cells, or the one that holds most clients where those were searched for.
pub(crate) fn fastest<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Option<&'a Cell> {
    let figure =
        |cell: &Cell| cell.held.as_ref().map_or(cell.requests_per_second, |held| held.clients).median;
    cells.into_iter().max_by(|a, b| figure(a).total_cmp(&figure(b)))
}

/// A cell over its rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// Which cell.
    pub key: CellKey,
    /// Rounds that succeeded.
    pub rounds: u32,
    /// The most clients that a search found; the other figures are those at so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Requests per second.
    pub requests_per_second: Estimate,
    /// Bytes of answers per second; `None` where the load does not count them.
    #[serde(default)]
    pub bytes_per_second: Option<Estimate>,
    /// Median response time, in microseconds.
    pub p50_us: Option<Estimate>,
    /// 99th percentile of the response time, in microseconds; `None` where the sample does not support it.
    pub p99_us: Option<Estimate>,
    /// Processor time of the server per request, in microseconds.
    pub server_cpu_us_per_request: Option<Estimate>,
    /// Most resident memory of the server's processes, in bytes; what they share counts for each of them.
    #[serde(default)]
    pub peak_rss_bytes: Option<Estimate>,
    /// Failed requests over all rounds.
    pub errors: u64,
    /// What the load beside came to, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// Statistically tied with the best cell of its group (same connections, path and close) by requests
    /// per second, or by the clients that a search found.
    pub tied_best: bool,
    /// The same figure over that of the best cell of its group.
    pub ratio_to_best: Option<Estimate>,
}

impl Cell {
    /// Whether it is shown as best, or not to be told from it. Of one round nothing is known: it is marked only where no other
    /// is faster.
    pub(crate) fn is_marked(&self) -> bool {
        let is_best = self.ratio_to_best.is_some_and(|ratio| ratio.median >= 1.0);
        self.tied_best && (self.rounds > 1 || is_best)
    }
}

/// What the load beside came to in a cell, over its rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Requests per second.
    pub requests_per_second: Estimate,
    /// 99th percentile of its response time, in microseconds; `None` where the sample does not support it.
    pub p99_us: Option<Estimate>,
    /// Failed requests over all rounds.
    pub errors: u64,
}

/// The most simultaneous clients of a cell, over its rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// How many.
    pub clients: Estimate,
    /// It may hold more: in some round the search ended at a limit of the host, of the load generator or of the plan.
    pub at_least: bool,
    /// It may hold fewer for long: in some round no number was held again for longer at the end.
    #[serde(default)]
    pub brief: bool,
    /// Why the search ended, in the round nearest to the median.
    pub why: String,
}

/// A median over rounds with its 95 % bootstrap interval, which up to five rounds is their range. One round has none: nothing
/// is known of how much rounds differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Median over the rounds.
    pub median: f64,
    /// Lower end of the interval; `None` where there is none.
    pub low: Option<f64>,
    /// Upper end of the interval; `None` where there is none.
    pub high: Option<f64>,
}

impl Estimate {
    /// Both ends of the interval; `None` where one round is all there is.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// The same in another unit, of which this one is so many.
    pub(crate) fn times(self, factor: f64) -> Self {
        let scale = |value: f64| value * factor;
        Estimate { median: scale(self.median), low: self.low.map(scale), high: self.high.map(scale) }
    }
}
