//! Running an experiment: every cell in every round, in shuffled order, each with a server of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use load::{Phase, Stop, Switch};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::environment;
use crate::error::Error;
use crate::gates::judge_run;
use crate::plan::Plan;
use crate::process::{Places, Server};
use crate::results::{CellKey, Results, Run, SCHEMA, ServerUse, Verdict};
use crate::sample::Sample;
use crate::store::Store;
use crate::summary::summarise;

/// How long a response may take in a cell, in seconds: source D's limit.
const TIMEOUT_S: f64 = 15.0;

/// What to run, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The experiment's name, for the report.
    pub name: String,
    /// The plan's text.
    pub plan: String,
    /// Take the plan's quick values.
    pub quick: bool,
    /// The directory that the servers serve; without one, the files that the plan makes.
    pub root: Option<PathBuf>,
    /// Where to write; must not be there yet.
    pub out: PathBuf,
    /// The program that serves our own models: this one.
    pub program: PathBuf,
    /// The command line that was given, for the report.
    pub command: String,
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

/// A finished experiment.
#[derive(Debug)]
pub struct Summary {
    /// Everything.
    pub results: Results,
    /// The report.
    pub report: PathBuf,
}

/// Runs an experiment to its end.
///
/// # Errors
/// The plan cannot be used, or its results cannot be written. A run that fails is part of the results.
pub fn run(options: &Options, observer: &mut dyn FnMut(&Progress)) -> Result<Summary, Error> {
    let plan = Plan::parse(&options.plan, &options.name)?;
    let plan = if options.quick { plan.quicker() } else { plan };
    let made = tempfile::tempdir().map_err(Error::file(std::env::temp_dir()))?;
    let root = root(&plan, options, made.path())?;
    let store = Store::create(&options.out, &options.plan)?;
    let mut results = Results {
        schema: SCHEMA.into(),
        name: options.name.clone(),
        title: plan.title.clone(),
        command: options.command.clone(),
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        plan: options.plan.clone(),
        seed: plan.seed,
        rounds: plan.rounds,
        environment: environment::capture(&plan, &options.program),
        runs: Vec::new(),
        cells: Vec::new(),
        findings: Vec::new(),
        budgets: Vec::new(),
        verdict: Verdict::Valid,
    };
    let order = order(&plan);
    let total = order.len();
    let start = Instant::now();
    for (number, (round, position, key)) in order.into_iter().enumerate() {
        if options.cancel.is_set() {
            break;
        }
        let each = if number == 0 {
            plan.estimate_s() / total as f64
        } else {
            start.elapsed().as_secs_f64() / number as f64
        };
        let left = Duration::from_secs_f64(each * (total - number) as f64);
        observer(&Progress { done: number, total, cell: key.to_string(), left });
        let scratch = store.scratch(number, &key.target);
        let run = run_cell(
            &plan,
            &key,
            (round, position),
            &Places { root: &root, dir: &scratch, program: &options.program },
            &options.cancel,
        );
        if options.cancel.is_set() {
            // A run that was cut short measures something else than the others.
            break;
        }
        store.keep_run(number, &run)?;
        results.runs.push(run);
    }
    let interrupted = results.runs.len() < total;
    summarise(&mut results, &plan, interrupted);
    let report = store.keep(&results)?;
    Ok(Summary { results, report })
}

/// The directory that is served: the one that was given, or one made with the plan's own files.
fn root(plan: &Plan, options: &Options, made: &Path) -> Result<PathBuf, Error> {
    if let Some(root) = &options.root {
        return fs::canonicalize(root).map_err(Error::file(root));
    }
    if plan.files.is_empty() {
        return Err(Error::Plan {
            file: options.name.clone(),
            problem: "this experiment serves a directory of yours: give it with --root DIR".into(),
        });
    }
    // Servers that give up root privileges must be able to read it.
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(made, readable).map_err(Error::file(made))?;
    for file in &plan.files {
        let path = made.join(file.path.trim_start_matches('/'));
        // Printable, not too regular, and the same every time.
        let content: Vec<u8> = (0..file.bytes).map(|at| b'a' + (at * 7 % 26) as u8).collect();
        let parent = path.parent().unwrap_or(made);
        fs::create_dir_all(parent).map_err(Error::file(parent))?;
        fs::write(&path, content).map_err(Error::file(&path))?;
    }
    Ok(made.into())
}

/// All runs in the order they are made: every round holds every cell, shuffled anew, so that a drift of the
/// host falls on all cells alike.
fn order(plan: &Plan) -> Vec<(u32, u32, CellKey)> {
    let mut order = Vec::new();
    for round in 0..plan.rounds {
        let mut cells = plan.cells();
        cells.shuffle(&mut ChaCha8Rng::seed_from_u64(plan.seed.wrapping_add(round.into())));
        order.extend((0u32..).zip(cells).map(|(position, key)| (round, position, key)));
    }
    order
}

fn run_cell(
    plan: &Plan,
    key: &CellKey,
    (round, position): (u32, u32),
    places: &Places<'_>,
    cancel: &Switch,
) -> Run {
    let measured = measure(plan, key, places, cancel);
    let run = Run {
        cell: key.clone(),
        round,
        position,
        outcome: None,
        server: None,
        failure: None,
        verdict: Verdict::Valid,
    };
    match measured {
        Ok((outcome, server)) => {
            let verdict = judge_run(&outcome);
            Run { outcome: Some(outcome), server: Some(server), verdict, ..run }
        }
        Err(why) => Run { verdict: Verdict::Invalid(vec![why.clone()]), failure: Some(why), ..run },
    }
}

/// Starts the server of a cell, loads it, and stops it.
fn measure(
    plan: &Plan,
    key: &CellKey,
    places: &Places<'_>,
    cancel: &Switch,
) -> Result<(load::Outcome, ServerUse), String> {
    let target = plan.target(&key.target).ok_or("the target is not in the plan")?;
    let mut server = Server::start(target, places, &plan.server_cpus, &key.path)?;
    let load = load::Plan {
        connections: key.connections,
        threads: plan.threads,
        stop: Stop::Seconds(plan.duration_s),
        warmup_s: plan.warmup_s,
        timeout_s: TIMEOUT_S,
        close: key.close,
        cpus: plan.load_cpus.clone(),
        ..load::Plan::new(format!("http://{}{}", server.address(), key.path))
    };
    let pid = server.pid();
    let (mut from, mut until) = (None, None);
    let outcome = load::run_until(&load, cancel, &mut |progress| match progress.phase {
        Phase::Warmup => {}
        Phase::Measuring => {
            from.get_or_insert_with(|| Sample::of_tree(pid));
        }
        Phase::Draining => {
            until.get_or_insert_with(|| Sample::of_tree(pid));
        }
    });
    let outcome = outcome.map_err(|error| error.to_string())?;
    server.check()?;
    let from = from.unwrap_or_default();
    Ok((outcome.clone(), until.unwrap_or(from).since(&from, outcome.requests)))
}
