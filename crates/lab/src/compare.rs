//! Two results of the same experiment side by side: two versions, two hosts, and whether one is worse.

mod conditions;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;

use load::verdict::failed_share;

use crate::key::CellKey;
use crate::plan::Metric;
use crate::results::{Cell, Estimate, Results, Run};
use crate::stats::{estimate, permutation_p, ratio, rejected};
use crate::summary::{Slack, is_brief};

pub use text::text;

/// How far a figure may get worse before it counts, relative.
const TOLERANCE: f64 = 0.03;

/// The same of the requests that are answered: one in a thousand that fails is too many for a single load as well.
const TOLERANCE_OF_FAILURES: f64 = 0.001;

/// Share of what is called different which may be so by chance (Benjamini and Hochberg, 1995).
const FALSE_DISCOVERIES: f64 = 0.1;

/// What became of a cell of one result in another.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which cell.
    pub cell: CellKey,
    /// What was found.
    pub found: Found,
    /// Proven to be worse: the whole interval of a ratio is beyond what is tolerated, and a permutation test of all cells says
    /// so too; or the cell has no figure any more.
    pub worse: bool,
    /// Proven to be better.
    pub better: bool,
}

/// What two results have of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// A figure in both.
    Figure {
        /// Which figure.
        name: &'static str,
        /// What it was in the first.
        before: Estimate,
        /// What it is in the second.
        after: Estimate,
        /// The second over the first.
        ratio: Estimate,
        /// Whether that of the first, and that of the second, is a bound.
        slack: [Slack; 2],
        /// Whether either was seen for a short while only, which tells nothing of what lasts.
        brief: bool,
    },
    /// Runs without a figure in one of them.
    Runs {
        /// How many of the first gave a figure.
        before: Sound,
        /// How many of the second did.
        after: Sound,
        /// Why the last of the second did not.
        why: Option<String>,
    },
}

/// How many runs of a cell gave figures that mean something, of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sound {
    /// Runs with figures.
    pub sound: usize,
    /// All of them.
    pub runs: usize,
}

/// A figure, and how it is read.
struct Figure {
    name: &'static str,
    more_is_better: bool,
    tolerance: f64,
    get: fn(&Run) -> Option<f64>,
    /// What may make it a bound.
    metric: Option<Metric>,
    /// What it is where there is nothing to tell of it.
    usual: Option<f64>,
}

impl Figure {
    const fn of(
        name: &'static str,
        more_is_better: bool,
        get: fn(&Run) -> Option<f64>,
        metric: Metric,
    ) -> Self {
        Figure { name, more_is_better, tolerance: TOLERANCE, get, metric: Some(metric), usual: None }
    }
}

// Few: each figure more makes what is needed to prove one of them different stricter.
const FIGURES: [Figure; 5] = [
    Figure::of("clients held", true, Run::clients, Metric::ClientsHeld),
    Figure::of("requests per second", true, Run::rate, Metric::RequestsPerSecond),
    Figure::of("CPU us per request", false, Run::cpu, Metric::ServerCpuUsPerRequest),
    Figure::of("p99 us", false, Run::p99, Metric::P99Us),
    Figure {
        name: "% of requests answered properly",
        more_is_better: true,
        tolerance: TOLERANCE_OF_FAILURES,
        get: answered,
        metric: None,
        usual: Some(100.0),
    },
];

/// How many of a hundred requests had a proper answer.
fn answered(run: &Run) -> Option<f64> {
    failed_share(run.outcome.as_ref()?).map(|failed| 100.0 * (1.0 - failed).max(0.0))
}

/// Every figure of every cell that both results have, and every cell that has runs without a figure in either.
pub fn compare(first: &Results, second: &Results) -> Vec<Change> {
    // Runs that fail are rare, and no reason to ask more of the figures.
    let (figures, runs) = (figures(first, second), runs(first, second));
    [figures, runs].into_iter().flat_map(proven).collect()
}

/// Those of some changes that are proven, by how likely each is by chance, remain better or worse.
fn proven(found: Vec<(Change, f64)>) -> Vec<Change> {
    let (mut changes, chances): (Vec<Change>, Vec<f64>) = found.into_iter().unzip();
    let proven = rejected(&chances, FALSE_DISCOVERIES);
    for (change, proven) in changes.iter_mut().zip(proven) {
        // That nothing is left of a cell needs no proof.
        change.worse = change.is_lost() || change.worse && proven;
        change.better &= proven;
    }
    changes
}

impl Change {
    /// Whether a cell that had a figure has none any more, though it was run.
    fn is_lost(&self) -> bool {
        matches!(self.found, Found::Runs { before, after, .. } if before.sound > 0 && after.sound == 0)
    }
}

/// Every figure that a cell has in both, and how likely it is that far apart by chance.
fn figures(first: &Results, second: &Results) -> Vec<(Change, f64)> {
    let before: BTreeMap<&CellKey, &Cell> = first.cells.iter().map(|cell| (&cell.key, cell)).collect();
    let both = second.cells.iter().filter_map(|after| Some((*before.get(&after.key)?, after)));
    let of_cell = |(before, after): (&Cell, &Cell)| {
        let changes = FIGURES.iter().filter_map(|figure| change(figure, (first, before), (second, after)));
        changes.collect::<Vec<_>>()
    };
    both.flat_map(of_cell).collect()
}

fn change(
    figure: &Figure,
    (first, was): (&Results, &Cell),
    (second, is): (&Results, &Cell),
) -> Option<(Change, f64)> {
    let (before, after) = (first.values(&was.key, figure.get), second.values(&is.key, figure.get));
    if before.iter().chain(&after).all(|value| figure.usual == Some(*value)) {
        return None;
    }
    let ratio = ratio(&after, &before, second.seed)?;
    let slack =
        |results, cell| figure.metric.map_or_else(Slack::default, |metric| Slack::of(results, cell, metric));
    let slack = [slack(first, was), slack(second, is)];
    let brief = figure.metric.is_some_and(|metric| is_brief(was, metric) || is_brief(is, metric));
    // Without an interval nothing is proven, nor by what may not last.
    let ends = slack[1].widen(ratio, slack[0]).filter(|_| !brief);
    let less = ends.is_some_and(|(_, high)| high < 1.0 - figure.tolerance);
    let more = ends.is_some_and(|(low, _)| low > 1.0 + figure.tolerance);
    let (worse, better) = if figure.more_is_better { (less, more) } else { (more, less) };
    let found = Found::Figure {
        name: figure.name,
        before: estimate(&before, first.seed)?,
        after: estimate(&after, second.seed)?,
        ratio,
        slack,
        brief,
    };
    let chance = permutation_p(&before, &after, second.seed);
    Some((Change { cell: is.key.clone(), found, worse, better }, chance))
}

/// Every cell that was run in both and has runs without a figure, and how likely it is that many of them by chance.
fn runs(first: &Results, second: &Results) -> Vec<(Change, f64)> {
    let (first, second) = (by_cell(first), by_cell(second));
    let both = first.iter().filter_map(|(cell, before)| Some((*cell, before, second.get(cell)?)));
    let changes = both.filter_map(|(cell, before, after)| {
        let last = before.iter().chain(after).rfind(|run| !run.is_sound())?;
        let why = last.failure.clone().or_else(|| last.verdict.reasons().first().cloned());
        let values = |runs: &[&Run]| runs.iter().map(|run| f64::from(run.is_sound())).collect::<Vec<_>>();
        let chance = permutation_p(&values(before), &values(after), 0);
        let (before, after) = (Sound::of(before), Sound::of(after));
        let less = before.share() - after.share();
        let why = why.filter(|_| after.sound < after.runs);
        let found = Found::Runs { before, after, why };
        Some((Change { cell: cell.clone(), found, worse: less > 0.0, better: less < 0.0 }, chance))
    });
    changes.collect()
}

/// The runs of each cell that was run.
fn by_cell(results: &Results) -> BTreeMap<&CellKey, Vec<&Run>> {
    let mut runs = BTreeMap::<_, Vec<_>>::new();
    for run in &results.runs {
        runs.entry(&run.cell).or_default().push(run);
    }
    runs
}

impl Sound {
    fn of(runs: &[&Run]) -> Self {
        Sound { sound: runs.iter().filter(|run| run.is_sound()).count(), runs: runs.len() }
    }

    fn share(self) -> f64 {
        self.sound as f64 / self.runs as f64
    }
}
