//! An experiment as it is declared: targets, factors, load and budgets, read from TOML and checked.

mod beside;
mod check;
mod claim;
mod engine;
mod explain;
mod factor;
mod load;
mod metric;
mod search;
mod stop;
mod without;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use crate::error::Error;
use crate::key::{CellKey, SEARCHED};

pub(crate) use self::engine::Engine;
pub use beside::Beside;
pub use claim::{Claim, Side};
pub use explain::did_you_mean;
pub use factor::Level;
pub(crate) use factor::filled;
pub use load::Load;
pub use metric::Metric;
pub use search::Search;
pub(crate) use stop::MOST_OF_AB;
pub use stop::StopRule;
pub use without::Without;

/// An experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What it compares, in one line.
    pub title: String,
    /// What it asks, in a sentence.
    #[serde(default)]
    pub question: String,
    /// The servers that are compared.
    #[serde(rename = "target")]
    pub targets: Vec<Target>,
    /// Factors of your own, each with its levels: `{name}` in a target, in a path or in the load is filled in with each of
    /// them. A factor in a path or in the load is a condition; one in a target is a setting of it, and has no effect on
    /// targets that do not name it.
    #[serde(default, rename = "factor")]
    pub factors: BTreeMap<String, Vec<Level>>,
    /// Factors that are conditions although targets name them, such as how long the work of a request takes.
    #[serde(default)]
    pub conditions: Vec<String>,
    /// Where the load is other than a plain closed loop.
    #[serde(default)]
    pub load: Load,
    /// Another load at the same time.
    pub beside: Option<Beside>,
    /// When a run ends before its time, and when a cell has rounds enough.
    #[serde(default)]
    pub stop: StopRule,
    /// Cells that are left out.
    #[serde(default)]
    pub without: Vec<Without>,
    /// Connections of the load: one of the factors; none where they are searched for.
    #[serde(default)]
    pub connections: Vec<u32>,
    /// Where each cell searches the most simultaneous clients in place of loads at given numbers of connections.
    pub search: Option<Search>,
    /// Paths that are requested: one of the factors.
    pub paths: Vec<String>,
    /// A connection per request, or keep-alive: one of the factors.
    #[serde(default = "keep_alive")]
    pub close: Vec<bool>,
    /// Times that every cell is run, each time in another order.
    #[serde(default = "three")]
    pub rounds: u32,
    /// Seconds of load in a cell that are measured.
    pub duration_s: f64,
    /// Seconds of load in a cell before that.
    #[serde(default)]
    pub warmup_s: f64,
    /// Threads of the load.
    #[serde(default = "one")]
    pub threads: u32,
    /// Cores of the server; empty for all.
    #[serde(default)]
    pub server_cpus: Vec<usize>,
    /// Cores of the load; empty for all.
    #[serde(default)]
    pub load_cpus: Vec<usize>,
    /// Seed of the order and of every resampling.
    #[serde(default)]
    pub seed: u64,
    /// The directory that is served; the command line can give another.
    pub root: Option<PathBuf>,
    /// Files that are made for the experiment, and are the site where no directory is given.
    #[serde(default, rename = "file")]
    pub files: Vec<File>,
    /// What the figures must come to.
    #[serde(default, rename = "budget")]
    pub budgets: Vec<Budget>,
    /// What others have claimed, to be reproduced or refuted.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// What `--quick` changes.
    #[serde(default)]
    pub quick: Quick,
}

/// A server under test.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Its name in the results.
    pub name: String,
    /// A model of Plimsoll's own.
    pub model: Option<String>,
    /// More flags for `plimsoll serve`, with the same words filled in as in a command.
    #[serde(default)]
    pub args: Vec<String>,
    /// Any other server: a command that stays in the foreground. `{port}`, `{root}`, `{dir}` (a directory for
    /// its own files) and `{bin_dir}` (the directory of this program) are filled in.
    #[serde(default)]
    pub command: Vec<String>,
    /// Files that are written to `{dir}` before it starts, by name, with the same words filled in.
    #[serde(default)]
    pub config: BTreeMap<String, String>,
    /// A program that it needs beside the first word of its command, or any file that it needs, by its whole path.
    pub needs: Option<String>,
    /// How to install it, for those who have not.
    pub install: Option<String>,
    /// A command that prints its version, for the record of where an experiment ran.
    #[serde(default)]
    pub version: Vec<String>,
}

impl Target {
    /// Every text of it in which words are filled in.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let words = self.model.iter().chain(&self.args).chain(&self.command).chain(self.config.values());
        words.map(String::as_str)
    }
}

/// A file that is made for the experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its path below the root.
    pub path: String,
    /// Its size.
    pub bytes: usize,
}

/// A bound on a ratio of two targets' medians, taken under every load that both have; where a target has several settings, with
/// its best by that figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Whose figure.
    pub target: String,
    /// Over whose.
    pub against: String,
    /// Which figure.
    pub metric: Metric,
    /// The ratio may not be more.
    pub at_most: Option<f64>,
    /// The ratio may not be less.
    pub at_least: Option<f64>,
    /// Only at this many connections.
    pub connections: Option<u32>,
    /// Only where each request has a connection of its own, or only where it has not.
    pub close: Option<bool>,
}

/// Values that `--quick` takes in place of the plan's own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    connections: Option<Vec<u32>>,
    search: Option<Search>,
    #[serde(default)]
    stop: StopRule,
    paths: Option<Vec<String>>,
    close: Option<Vec<bool>>,
    rounds: Option<u32>,
    duration_s: Option<f64>,
    warmup_s: Option<f64>,
    threads: Option<u32>,
    server_cpus: Option<Vec<usize>>,
    load_cpus: Option<Vec<usize>>,
    seed: Option<u64>,
    root: Option<PathBuf>,
    /// Levels of some factors.
    #[serde(default, rename = "factor")]
    factors: BTreeMap<String, Vec<Level>>,
}

fn keep_alive() -> Vec<bool> {
    vec![false]
}

fn one() -> u32 {
    1
}

fn three() -> u32 {
    3
}

/// Where a load goes that is only looked at: nobody serves there.
pub(crate) fn nowhere() -> SocketAddr {
    ([127, 0, 0, 1], 1).into()
}

/// Seconds that starting and stopping a server takes beside the load, for the estimate.
const START_STOP_S: f64 = 0.4;

impl Plan {
    /// Reads and checks a plan, its quick values too; `file` is its name in messages.
    ///
    /// # Errors
    /// What is wrong, in which line, and what would be right.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let refuse =
            |problem: explain::Problem| Error::Plan { file: file.into(), problem: problem.placed(text) };
        let plan: Plan =
            toml::from_str(text).map_err(|error| refuse(explain::Problem::from_toml(&error, text)))?;
        without::check(&plan).map_err(refuse)?;
        check::all(&plan).map_err(refuse)?;
        check::all(&plan.clone().quicker()).map_err(|problem| refuse(problem.within("quick")))?;
        check::budgets(&plan).map_err(refuse)?;
        claim::check(&plan).map_err(refuse)?;
        Ok(plan)
    }

    /// The plan that `--quick` runs.
    pub fn quicker(mut self) -> Self {
        let quick = std::mem::take(&mut self.quick);
        self.connections = quick.connections.unwrap_or(self.connections);
        // What there is no search of has nothing to be changed.
        self.search = self.search.map(|search| search.with(quick.search.unwrap_or_default()));
        self.stop = self.stop.quicker(quick.stop);
        self.paths = quick.paths.unwrap_or(self.paths);
        self.close = quick.close.unwrap_or(self.close);
        self.rounds = quick.rounds.unwrap_or(self.rounds);
        self.duration_s = quick.duration_s.unwrap_or(self.duration_s);
        self.warmup_s = quick.warmup_s.unwrap_or(self.warmup_s);
        self.threads = quick.threads.unwrap_or(self.threads);
        self.server_cpus = quick.server_cpus.unwrap_or(self.server_cpus);
        self.load_cpus = quick.load_cpus.unwrap_or(self.load_cpus);
        self.seed = quick.seed.unwrap_or(self.seed);
        self.root = quick.root.or(self.root);
        self.factors.extend(quick.factors);
        self
    }

    /// Every point of the grid that is not left out, in the order of the plan.
    pub fn cells(&self) -> Vec<CellKey> {
        let mut cells = Vec::new();
        let connections = if self.search.is_some() { &[SEARCHED][..] } else { &self.connections };
        for path in &self.paths {
            for &close in &self.close {
                for &connections in connections {
                    for target in &self.targets {
                        let own = CellKey {
                            target: target.name.clone(),
                            connections,
                            path: path.clone(),
                            close,
                            ..CellKey::default()
                        };
                        cells.extend(self.settings(target, own));
                    }
                }
            }
        }
        cells.retain(|cell| !self.without.iter().any(|without| without.names(cell)));
        cells
    }

    /// A cell at every combination of the levels of the factors that have an effect on it.
    fn settings(&self, target: &Target, cell: CellKey) -> Vec<CellKey> {
        let mut cells = vec![cell.clone()];
        for (name, levels, is_condition) in self.factors_of(target, &cell.path) {
            let at = |cell: &CellKey, level: &Level| {
                let mut cell = cell.clone();
                let levels = if is_condition { &mut cell.condition } else { &mut cell.setting };
                levels.insert(name.clone(), level.to_string());
                cell
            };
            cells = cells.iter().flat_map(|cell| levels.iter().map(move |level| at(cell, level))).collect();
        }
        for cell in &mut cells {
            cell.path = filled(&cell.path, &cell.condition);
        }
        cells
    }

    /// The factors that have an effect on a target at a path, each with its levels and whether it is a condition.
    fn factors_of(&self, target: &Target, path: &str) -> impl Iterator<Item = (&String, &Vec<Level>, bool)> {
        self.factors.iter().filter_map(move |(name, levels)| {
            let names = |text: &str| text.contains(&format!("{{{name}}}"));
            let is_condition = names(path) || self.load_texts().any(|text| names(text));
            let is_named = target.texts().any(names);
            (is_condition || is_named).then(|| (name, levels, is_condition || self.conditions.contains(name)))
        })
    }

    /// How many points the grid has, with those that are left out: counted, not made, since there may be too many.
    fn count_cells(&self) -> u64 {
        let loads =
            self.close.len() as u64 * if self.search.is_some() { 1 } else { self.connections.len() as u64 };
        let of = |target: &Target, path: &String| {
            let levels = self.factors_of(target, path).map(|(_, levels, _)| levels.len() as u64);
            levels.fold(loads, u64::saturating_mul)
        };
        let cells =
            self.targets.iter().flat_map(|target| self.paths.iter().map(move |path| of(target, path)));
        cells.fold(0, u64::saturating_add)
    }

    /// About how long one run takes, in seconds.
    pub(crate) fn estimate_of_run_s(&self) -> f64 {
        let load_s = self.estimate_of_search_s().unwrap_or(self.duration_s + self.warmup_s);
        load_s + START_STOP_S
    }

    /// About how long all rounds take, in seconds.
    pub fn estimate_s(&self) -> f64 {
        let runs = self.cells().len() as f64 * f64::from(self.rounds);
        runs * self.estimate_of_run_s()
    }

    /// Every text of the loads in which factors are filled in.
    fn load_texts(&self) -> impl Iterator<Item = &String> {
        self.load.texts().chain(self.beside.iter().flat_map(Beside::texts))
    }

    /// The target of this name.
    pub fn target(&self, name: &str) -> Option<&Target> {
        self.targets.iter().find(|target| target.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = r#"
        title = "t"
        connections = [1, 8]
        paths = ["/"]
        duration_s = 1
        [[target]]
        name = "a"
        model = "reactor"
        [quick]
        connections = [2]
        duration_s = 0.1
        root = "site"
    "#;

    #[test]
    fn a_plan_is_a_grid_and_quick_shrinks_it() {
        let plan = Plan::parse(MINIMAL, "x.toml").unwrap();
        assert_eq!((plan.cells().len(), plan.rounds, &plan.close[..]), (2, 3, &[false][..]));
        let quick = plan.quicker();
        assert_eq!((quick.cells()[0].connections, quick.cells().len(), quick.duration_s), (2, 1, 0.1));
        assert_eq!((quick.threads, quick.root), (1, Some("site".into())));
    }

    #[test]
    fn the_estimate_counts_every_run_with_its_start_and_stop() {
        let plan = Plan::parse(MINIMAL, "x.toml").unwrap();
        assert!((plan.estimate_s() - 2.0 * 3.0 * (1.0 + START_STOP_S)).abs() < 1e-9);
    }
}
