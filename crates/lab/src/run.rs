//! Running an experiment: every cell in every round, in shuffled order, each with a server of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use load::{Outcome, Switch, Verdict};

use crate::cell::Bench;
use crate::cores::{self, Kept};
use crate::environment;
use crate::error::Error;
use crate::gates::judge_run;
use crate::order::{self, Search};
use crate::plan::Plan;
use load::sample::ServerUse;

use crate::results::{CellKey, Results, Run, SCHEMA};
use crate::store::Store;
use crate::summary::summarise;

/// What to run, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The experiment's name, for the report.
    pub name: String,
    /// The plan's text.
    pub plan: String,
    /// Take the plan's quick values.
    pub quick: bool,
    /// The directory that the servers serve; without one, the plan's own, or the files that the plan makes.
    pub root: Option<PathBuf>,
    /// Where to write; must not be there yet.
    pub out: PathBuf,
    /// The program that serves our own models: this one.
    pub program: PathBuf,
    /// The command line that was given, for the report.
    pub command: String,
    /// Go on with an experiment that was interrupted, in the same directory.
    pub resume: bool,
    /// Look only as long as this, where the answer is; without it every cell is run in every round.
    pub budget: Option<Duration>,
    /// Ends the experiment early; what was measured is kept.
    pub cancel: Switch,
}

/// What can be said while an experiment runs.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Runs that are over.
    pub done: usize,
    /// Runs in all.
    pub total: usize,
    /// The run under way, in words.
    pub cell: String,
    /// About how long the rest takes.
    pub left: Duration,
}

/// A finished or interrupted experiment.
#[derive(Debug)]
pub struct Summary {
    /// Everything.
    pub results: Results,
    /// The report.
    pub report: PathBuf,
    /// Every budget of the plan is kept. One without figures is not.
    pub budgets_met: bool,
}

/// Runs an experiment to its end, or until it is cancelled.
///
/// # Errors
/// The plan cannot be used on this host, or its results cannot be written. A run that fails is part of the
/// results.
pub fn run(options: &Options, observer: &mut dyn FnMut(&Progress)) -> Result<Summary, Error> {
    let plan = Plan::parse(&options.plan, &options.name)?;
    let plan = if options.quick { plan.quicker() } else { plan };
    let made = tempfile::tempdir().map_err(Error::file(std::env::temp_dir()))?;
    let refuse = |problem| Error::Plan { file: options.name.clone(), problem };
    let bench = Bench {
        plan: &plan,
        root: root(&plan, options, made.path())?,
        program: &options.program,
        server_cores: choose("server_cpus", &plan.server_cpus).map_err(refuse)?,
        cancel: &options.cancel,
    };
    let load_cores = choose("load_cpus", &plan.load_cpus).map_err(refuse)?;
    let (store, before) = match options.resume {
        true => Store::resume(&options.out, &options.plan)?,
        false => (Store::create(&options.out, &options.plan)?, Vec::new()),
    };
    let results = begin(&plan, options);
    // Looking at the server must not take its core either. The server's threads get their own cores.
    let _kept = Kept::to(&load_cores).map_err(|error| refuse(format!("load_cpus: {error}")))?;
    let mut measure = |number, key: &CellKey| bench.measure(key, &store.own_files(number, &key.target));
    let campaign = Campaign { plan: &plan, store: &store, cancel: &options.cancel, budget: options.budget };
    let results = campaign.run(results, before, observer, &mut measure)?;
    let budgets_met = results.budgets.iter().all(|budget| budget.met);
    Ok(Summary { report: store.report(), results, budgets_met })
}

fn choose(key: &str, wanted: &[usize]) -> Result<rustix::thread::CpuSet, String> {
    let allowed = cores::allowed().map_err(|error| format!("{key}: {error}"))?;
    cores::choose(wanted, &allowed).map_err(|why| format!("{key}: {why}"))
}

/// The directory that is served: the one that was given, or one made with the plan's own files.
fn root(plan: &Plan, options: &Options, made: &Path) -> Result<PathBuf, Error> {
    if let Some(root) = options.root.as_ref().or(plan.root.as_ref()) {
        return fs::canonicalize(root).map_err(Error::file(root));
    }
    if plan.files.is_empty() {
        let problem = "this experiment serves a directory of yours: give it with --root DIR".into();
        return Err(Error::Plan { file: options.name.clone(), problem });
    }
    // Servers that give up root privileges must be able to read it.
    fs::set_permissions(made, PermissionsExt::from_mode(0o755)).map_err(Error::file(made))?;
    for file in &plan.files {
        let path = made.join(&file.path);
        // Printable, not too regular, and the same every time.
        let content: Vec<u8> = (0..file.bytes).map(|at| b'a' + (at * 7 % 26) as u8).collect();
        let parent = path.parent().unwrap_or(made);
        fs::create_dir_all(parent).map_err(Error::file(parent))?;
        fs::write(&path, content).map_err(Error::file(&path))?;
    }
    Ok(made.into())
}

/// Results before the first run.
fn begin(plan: &Plan, options: &Options) -> Results {
    Results {
        schema: SCHEMA.into(),
        name: options.name.clone(),
        title: plan.title.clone(),
        question: plan.question.clone(),
        command: options.command.clone(),
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        plan: options.plan.clone(),
        seed: plan.seed,
        rounds: plan.rounds,
        environment: environment::capture(plan, &options.program),
        planned_runs: plan.cells().len() as u32 * plan.rounds,
        runs: Vec::new(),
        cells: Vec::new(),
        findings: Vec::new(),
        budgets: Vec::new(),
        claims: Vec::new(),
        verdict: Verdict::Valid,
    }
}

/// Measures one run of a cell; its number counts from 0 over the whole experiment.
type Measure<'a> = dyn FnMut(usize, &CellKey) -> Result<(Outcome, ServerUse), String> + 'a;

/// Longest part of the time that may go into writing down what is known so far.
const KEEPING: u32 = 20;

/// All runs of an experiment.
struct Campaign<'a> {
    plan: &'a Plan,
    store: &'a Store,
    cancel: &'a Switch,
    budget: Option<Duration>,
}

impl Campaign<'_> {
    /// Makes all runs but those that were made before, and keeps each of them.
    fn run(
        &self,
        mut results: Results,
        before: Vec<Run>,
        observer: &mut dyn FnMut(&Progress),
        measure: &mut Measure<'_>,
    ) -> Result<Results, Error> {
        let start = Instant::now();
        let mut fixed = order::rounds(self.plan).into_iter();
        let mut search = self.budget.map(|budget| Search::new(self.plan, budget));
        let total = results.planned_runs as usize;
        let first = before.len();
        results.runs = before;
        let mut keep_at = start;
        loop {
            let made = |run: &Run, (round, cell): (u32, &CellKey)| run.round == round && run.cell == *cell;
            let next = match &mut search {
                Some(search) => search.next(&results.runs),
                None => {
                    fixed.find(|(round, _, cell)| !results.runs.iter().any(|run| made(run, (*round, cell))))
                }
            };
            let Some((round, position, cell)) = next else { break };
            let number = results.runs.len();
            let left = self.left(start, number - first, total.saturating_sub(number));
            observer(&Progress { done: number, total, cell: cell.to_string(), left });
            let measured =
                if self.cancel.is_set() { Err("interrupted".into()) } else { measure(number, &cell) };
            if self.cancel.is_set() {
                // A run that was cut short measures something else than the others.
                break;
            }
            let run = judged(measured, Run { cell, round, position, ..Run::default() });
            // Each run is whole in a file of its own: a lab that is killed loses the run under way, and no more.
            self.store.keep_run(number, &run)?;
            results.runs.push(run);
            if Instant::now() >= keep_at {
                let begun = Instant::now();
                summarise(&mut results, self.plan);
                self.store.keep(&results)?;
                keep_at = Instant::now() + begun.elapsed() * KEEPING;
            }
        }
        if search.is_some() && !self.cancel.is_set() {
            results.planned_runs = results.runs.len() as u32;
        }
        summarise(&mut results, self.plan);
        self.store.keep(&results)?;
        self.store.keep_reports(&results)?;
        Ok(results)
    }

    /// About how long the rest takes.
    fn left(&self, start: Instant, made: usize, to_make: usize) -> Duration {
        if let Some(budget) = self.budget {
            return budget.saturating_sub(start.elapsed());
        }
        let each = match made {
            0 => self.plan.estimate_of_run_s(),
            made => start.elapsed().as_secs_f64() / made as f64,
        };
        Duration::from_secs_f64(each * to_make as f64)
    }
}

fn judged(measured: Result<(Outcome, ServerUse), String>, run: Run) -> Run {
    match measured {
        Ok((outcome, server)) => {
            let verdict = judge_run(&outcome, &server);
            Run { outcome: Some(outcome), server: Some(server), verdict, ..run }
        }
        Err(why) => Run { verdict: Verdict::Invalid(vec![why.clone()]), failure: Some(why), ..run },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    const PLAN: &str = r#"
        title = "t"
        connections = [1, 10, 100]
        paths = ["/"]
        duration_s = 1
        seed = 7
        [[target]]
        name = "a"
        model = "reactor"
        [[target]]
        name = "b"
        model = "reactor"
        [[budget]]
        target = "a"
        against = "b"
        metric = "requests_per_second"
        at_least = 1.5
    "#;

    /// A surface that every test can compute: a rises with connections, b stays at 1000.
    fn surface(key: &CellKey) -> (Outcome, ServerUse) {
        let rate = if key.target == "a" { 1_000.0 + 100.0 * f64::from(key.connections) } else { 1_000.0 };
        fake::measured(key, rate, 10.0)
    }

    fn campaign<'a>(plan: &'a Plan, store: &'a Store, cancel: &'a Switch) -> Campaign<'a> {
        Campaign { plan, store, cancel, budget: None }
    }

    /// Runs the plan over a measurement that is made up; gives the results and the directory.
    fn run_over(measure: &mut Measure<'_>, cancel: &Switch) -> (Results, tempfile::TempDir) {
        let plan = Plan::parse(PLAN, "x.toml").unwrap();
        let out = tempfile::tempdir().unwrap();
        let store = Store::create(&out.path().join("x"), PLAN).unwrap();
        let mut results = fake::results(&[], 0, |_, _| (0.0, 0.0));
        (results.rounds, results.planned_runs) = (plan.rounds, 18);
        (campaign(&plan, &store, cancel).run(results, Vec::new(), &mut |_| {}, measure).unwrap(), out)
    }

    fn stored(out: &tempfile::TempDir) -> Results {
        serde_json::from_slice(&fs::read(out.path().join("x/results.json")).unwrap()).unwrap()
    }

    #[test]
    fn every_round_has_every_cell_in_an_order_of_its_own_that_the_seed_decides() {
        let plan = Plan::parse(PLAN, "x.toml").unwrap();
        let all = order::rounds(&plan);
        assert_eq!(all.len(), 18);
        let round = |n: u32| all.iter().filter(|run| run.0 == n).map(|run| run.2.clone()).collect::<Vec<_>>();
        assert_ne!(round(0), round(1));
        for n in 0..3 {
            let (mut shuffled, mut cells) = (round(n), plan.cells());
            shuffled.sort();
            cells.sort();
            assert_eq!(shuffled, cells);
        }
        assert_eq!(all, order::rounds(&plan));
        assert_ne!(all, order::rounds(&Plan { seed: 100, ..plan.clone() }));
        // Part of the format: a stored seed gives the same order in every version.
        let first: Vec<String> =
            all.iter().take(3).map(|run| format!("{} {}", run.2.target, run.2.connections)).collect();
        assert_eq!(first, ["a 1", "b 10", "b 100"]);
    }

    #[test]
    fn a_known_surface_comes_out_as_it_is() {
        let (results, out) = run_over(&mut |_, key| Ok(surface(key)), &Switch::default());
        assert_eq!((results.runs.len(), results.cells.len()), (18, 6));
        for cell in &results.cells {
            let expected = surface(&cell.key).0.requests_per_second;
            assert_eq!(cell.requests_per_second.median, expected);
            assert_eq!(cell.tied_best, cell.key.target == "a", "{}", cell.key);
        }
        let met: Vec<bool> = results.budgets.iter().map(|budget| budget.met).collect();
        assert_eq!(met, [false, true, true]);
        assert_eq!(results.verdict, Verdict::Valid);
        let directory = out.path().join("x");
        for file in ["plan.toml", "results.json", "cells.csv", "summary.md", "report.html"] {
            assert!(directory.join(file).exists(), "{file}");
        }
        assert_eq!(fs::read_dir(directory.join("runs")).unwrap().count(), 18);
    }

    #[test]
    fn a_run_that_fails_is_told_and_the_others_go_on() {
        let mut measure = |_, key: &CellKey| match (key.target.as_str(), key.connections) {
            ("b", 100) => Err("the server ended (signal: 9)".to_string()),
            _ => Ok(surface(key)),
        };
        let (results, _out) = run_over(&mut measure, &Switch::default());
        assert_eq!((results.runs.len(), results.cells.len()), (18, 5));
        let failed: Vec<_> = results.runs.iter().filter(|run| run.failure.is_some()).collect();
        assert_eq!(failed.len(), 3);
        assert_eq!(failed[0].verdict, Verdict::Invalid(vec!["the server ended (signal: 9)".into()]));
        let why = "3 of 18 runs failed, such as b at 100 connections, /: the server ended (signal: 9)";
        assert_eq!(results.verdict, Verdict::Suspect(vec![why.into()]));
        assert!(!results.budgets[2].met);
    }

    #[test]
    fn an_experiment_that_was_killed_goes_on_where_it_was() {
        let out = tempfile::tempdir().unwrap();
        let plan = Plan::parse(PLAN, "x.toml").unwrap();
        let directory = out.path().join("x");
        let cancel = Switch::default();
        let empty = || Results { planned_runs: 18, rounds: 3, ..fake::results(&[], 0, |_, _| (0.0, 0.0)) };
        let mut first = |number, key: &CellKey| {
            if number == 7 {
                cancel.set();
            }
            Ok(surface(key))
        };
        let store = Store::create(&directory, PLAN).unwrap();
        campaign(&plan, &store, &cancel).run(empty(), Vec::new(), &mut |_| {}, &mut first).unwrap();
        // Half of a run was on the disk when it was killed, and the summary was not.
        fs::write(directory.join("runs/00007-a.part"), "{").unwrap();
        fs::remove_file(directory.join("results.json")).unwrap();
        let (store, before) = Store::resume(&directory, PLAN).unwrap();
        assert_eq!(before.len(), 7);
        let mut made = 0;
        let mut second = |_: usize, key: &CellKey| {
            made += 1;
            Ok(surface(key))
        };
        let cancel = Switch::default();
        let results =
            campaign(&plan, &store, &cancel).run(empty(), before, &mut |_| {}, &mut second).unwrap();
        assert_eq!((made, results.runs.len(), results.cells.len()), (11, 18, 6));
        assert_eq!(results.verdict, Verdict::Valid);
        assert!(Store::resume(&directory, "title = 2").is_err());
    }

    #[test]
    fn an_interrupted_experiment_keeps_what_was_measured_and_says_so() {
        let cancel = Switch::default();
        let mut measure = |number, key: &CellKey| {
            if number == 4 {
                cancel.set();
            }
            Ok(surface(key))
        };
        let (results, out) = run_over(&mut measure, &cancel);
        assert_eq!((results.runs.len(), stored(&out).runs.len()), (4, 4));
        assert_eq!(
            results.verdict.reasons()[0],
            "it was interrupted after 4 of 18 runs: some cells were not measured in every round"
        );
        assert!(out.path().join("x/report.html").exists());
    }

    #[test]
    fn progress_counts_and_the_rest_is_estimated_from_the_plan_at_first() {
        let (mut told, out) = (Vec::new(), tempfile::tempdir().unwrap());
        let plan = Plan::parse(PLAN, "x.toml").unwrap();
        let store = Store::create(&out.path().join("x"), PLAN).unwrap();
        let results = fake::results(&[], 0, |_, _| (0.0, 0.0));
        let mut observer = |progress: &Progress| told.push((progress.done, progress.total, progress.left));
        let mut measure = |_: usize, key: &CellKey| Ok(surface(key));
        let results = Results { planned_runs: 18, ..results };
        let cancel = Switch::default();
        campaign(&plan, &store, &cancel).run(results, Vec::new(), &mut observer, &mut measure).unwrap();
        assert_eq!((told.len(), told[0].0, told[17].0, told[0].1), (18, 0, 17, 18));
        assert!((told[0].2.as_secs_f64() - plan.estimate_s()).abs() < 1e-6 && told[17].2 < told[0].2);
    }
}
