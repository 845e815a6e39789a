//! An experiment as it is declared: targets, factors, load and budgets, read from TOML and checked.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::error::Error;
use crate::results::CellKey;

/// An experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What it asks, in one line.
    pub title: String,
    /// The servers that are compared.
    #[serde(rename = "target")]
    pub targets: Vec<Target>,
    /// Connections of the load: one of the factors.
    pub connections: Vec<u32>,
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
    /// Files that are made for the experiment, and are the site where no directory is given.
    #[serde(default, rename = "file")]
    pub files: Vec<File>,
    /// What the figures must come to.
    #[serde(default, rename = "budget")]
    pub budgets: Vec<Budget>,
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
    /// More flags for `plimsoll serve`.
    #[serde(default)]
    pub args: Vec<String>,
    /// Any other server: a command that stays in the foreground. `{port}`, `{root}`, `{dir}` (a directory for
    /// its own files) and `{bin_dir}` (the directory of this program) are filled in.
    #[serde(default)]
    pub command: Vec<String>,
    /// Files that are written to `{dir}` before it starts, by name, with the same words filled in.
    #[serde(default)]
    pub config: std::collections::BTreeMap<String, String>,
    /// How to install it, for those who have not.
    pub install: Option<String>,
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

/// A bound on a ratio of two targets' medians, taken in every cell that both have.
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
}

/// A figure of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Processor time of the server per request.
    ServerCpuUsPerRequest,
    /// Requests per second.
    RequestsPerSecond,
}

/// Values that `--quick` takes in place of the plan's own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    connections: Option<Vec<u32>>,
    paths: Option<Vec<String>>,
    close: Option<Vec<bool>>,
    rounds: Option<u32>,
    duration_s: Option<f64>,
    warmup_s: Option<f64>,
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

/// Seconds that starting and stopping a server takes beside the load, for the estimate.
const START_STOP_S: f64 = 0.4;

impl Plan {
    /// Reads and checks a plan; `file` is its name in messages.
    ///
    /// # Errors
    /// What is wrong, where, and what would be right.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let plan: Plan = toml::from_str(text)
            .map_err(|error| Error::Plan { file: file.into(), problem: explain(&error) })?;
        plan.check().map_err(|problem| Error::Plan { file: file.into(), problem })?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), String> {
        for (name, empty) in [
            ("target", self.targets.is_empty()),
            ("connections", self.connections.is_empty()),
            ("paths", self.paths.is_empty()),
            ("close", self.close.is_empty()),
        ] {
            if empty {
                return Err(format!("{name} is empty, so there is nothing to run: give at least one"));
            }
        }
        let mut names = BTreeSet::new();
        for target in &self.targets {
            if !names.insert(&target.name) {
                return Err(format!("two targets are called {:?}: give each its own name", target.name));
            }
            if target.model.is_some() != target.command.is_empty() {
                return Err(format!("target {:?}: give either a model or a command", target.name));
            }
        }
        if let Some(path) = self.paths.iter().find(|path| !path.starts_with('/')) {
            return Err(format!("path {path:?}: must begin with /"));
        }
        if self.rounds == 0 || self.connections.contains(&0) || self.threads == 0 {
            return Err("rounds, connections and threads must be at least 1".into());
        }
        if !(0.05..=86_400.0).contains(&self.duration_s) || !(0.0..=86_400.0).contains(&self.warmup_s) {
            return Err("duration_s must be 0.05 to 86400, and warmup_s 0 to 86400".into());
        }
        for budget in &self.budgets {
            for name in [&budget.target, &budget.against] {
                if !names.contains(name) {
                    return Err(format!(
                        "a budget names the target {name:?}, which is not there{}",
                        did_you_mean(name, names.iter().copied())
                    ));
                }
            }
            if budget.at_most.is_none() && budget.at_least.is_none() {
                return Err(format!("the budget of {:?} has neither at_most nor at_least", budget.target));
            }
        }
        Ok(())
    }

    /// The plan that `--quick` runs.
    pub fn quicker(mut self) -> Self {
        let quick = std::mem::take(&mut self.quick);
        self.connections = quick.connections.unwrap_or(self.connections);
        self.paths = quick.paths.unwrap_or(self.paths);
        self.close = quick.close.unwrap_or(self.close);
        self.rounds = quick.rounds.unwrap_or(self.rounds);
        self.duration_s = quick.duration_s.unwrap_or(self.duration_s);
        self.warmup_s = quick.warmup_s.unwrap_or(self.warmup_s);
        self
    }

    /// Every point of the grid, in the order of the plan.
    pub fn cells(&self) -> Vec<CellKey> {
        let mut cells = Vec::new();
        for path in &self.paths {
            for &close in &self.close {
                for &connections in &self.connections {
                    for target in &self.targets {
                        cells.push(CellKey {
                            target: target.name.clone(),
                            connections,
                            path: path.clone(),
                            close,
                        });
                    }
                }
            }
        }
        cells
    }

    /// About how long all rounds take, in seconds.
    pub fn estimate_s(&self) -> f64 {
        let runs = self.cells().len() as f64 * f64::from(self.rounds);
        runs * (self.duration_s + self.warmup_s + START_STOP_S)
    }

    /// The target of this name.
    pub fn target(&self, name: &str) -> Option<&Target> {
        self.targets.iter().find(|target| target.name == name)
    }
}

/// TOML's own message, with the nearest known key where a key is unknown.
fn explain(error: &toml::de::Error) -> String {
    let text = error.to_string();
    let mut quoted = error.message().split('`').skip(1).step_by(2);
    let hint = match quoted.next() {
        Some(unknown) if error.message().starts_with("unknown") => did_you_mean(unknown, quoted),
        _ => String::new(),
    };
    format!("{}{hint}", text.trim_end())
}

/// `; did you mean "x"?` where one of the candidates is near enough.
pub(crate) fn did_you_mean(word: &str, candidates: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let scored = candidates.into_iter().map(|known| (strsim::jaro_winkler(word, known.as_ref()), known));
    match scored.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((score, known)) if score > 0.8 => format!("; did you mean {:?}?", known.as_ref()),
        _ => String::new(),
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
    "#;

    fn problem(text: &str) -> String {
        Plan::parse(text, "x.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_plan_is_a_grid_and_quick_shrinks_it() {
        let plan = Plan::parse(MINIMAL, "x.toml").unwrap();
        assert_eq!((plan.cells().len(), plan.rounds, &plan.close[..]), (2, 3, &[false][..]));
        let quick = plan.quicker();
        assert_eq!((quick.cells()[0].connections, quick.cells().len(), quick.duration_s), (2, 1, 0.1));
    }

    #[test]
    fn an_unknown_key_is_named_with_its_place_and_the_nearest_known_one() {
        let text = MINIMAL.replace("connections = [1, 8]", "conections = [1, 8]");
        let message = problem(&text);
        assert!(message.contains("line 3") && message.contains("conections"), "{message}");
        assert!(message.ends_with("did you mean \"connections\"?"), "{message}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let with = |from: &str, to: &str| problem(&MINIMAL.replace(from, to));
        assert_eq!(
            with("connections = [1, 8]", "connections = []"),
            "x.toml: connections is empty, so there is nothing to run: give at least one"
        );
        assert_eq!(with("paths = [\"/\"]", "paths = [\"x\"]"), "x.toml: path \"x\": must begin with /");
        assert_eq!(with("model = \"reactor\"", ""), "x.toml: target \"a\": give either a model or a command");
        assert!(with("duration_s = 1\n", "duration_s = 0\n").contains("duration_s must be"));
        let budget = "[[budget]]\ntarget = \"a\"\nagainst = \"b\"\nmetric = \"requests_per_second\"\nat_least = 1\n[quick]";
        assert!(
            with("[quick]", budget)
                .starts_with("x.toml: a budget names the target \"b\", which is not there")
        );
        let twice = "[[target]]\nname = \"a\"\nmodel = \"reactor\"\n[quick]";
        assert!(with("[quick]", twice).contains("two targets are called \"a\""));
    }
}
