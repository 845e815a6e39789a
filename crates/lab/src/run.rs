//! Running an experiment: from a plan's text and what the host has, through all runs, to a report.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use load::{Switch, Verdict};

use crate::campaign::{Campaign, Progress};
use crate::cell::Bench;
use crate::cores::{self, Kept};
use crate::environment;
use crate::error::Error;
use crate::key::CellKey;
use crate::plan::Plan;
use crate::results::{Results, Run, SCHEMA};
use crate::resume;
use crate::store::{Before, Store};

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

impl Options {
    /// The whole experiment of a plan in a file, with what it makes itself.
    pub fn new(
        name: impl Into<String>,
        plan: impl Into<String>,
        out: impl Into<PathBuf>,
        program: PathBuf,
    ) -> Self {
        let name = name.into();
        Options {
            command: format!("plimsoll lab run {name}.toml"),
            name,
            plan: plan.into(),
            quick: false,
            root: None,
            out: out.into(),
            program,
            resume: false,
            budget: None,
            cancel: Switch::default(),
        }
    }
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
    /// Where an experiment was gone on with: the files that could not be read, so that their runs were made again; a sentence
    /// each.
    pub losses: Vec<String>,
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
    if options.budget.is_some() && plan.stop.further().is_some() {
        let problem = "a budget chooses by itself what is run again: leave --budget out, or within and most_rounds of [stop]";
        return Err(refuse(problem.into()));
    }
    let bench = Bench {
        plan: &plan,
        root: root(&plan, options, made.path())?,
        program: &options.program,
        server_cores: choose("server_cpus", &plan.server_cpus).map_err(refuse)?,
        cancel: &options.cancel,
    };
    let load_cores = choose("load_cpus", &plan.load_cpus).map_err(refuse)?;
    let (store, before) = match options.resume {
        true => {
            let (store, before) = Store::resume(&options.out, &options.plan)?;
            let cells = plan.cells();
            if !before.kept.files().all(|(_, run)| cells.contains(&run.cell) && is_of(&plan, run)) {
                return Err(Error::OtherPlan(options.out.clone()));
            }
            (store, before)
        }
        false => (Store::create(&options.out, &options.plan)?, Before::default()),
    };
    let now = begin(&plan, options);
    let losses = before.losses();
    let results = match before.results {
        Some(results) => resume::gone_on_with(results, now, before.kept.next),
        None => now,
    };
    // Looking at the server must not take its core either. The server's threads get their own cores.
    let _kept = Kept::to(&load_cores).map_err(|error| refuse(format!("load_cpus: {error}")))?;
    let mut measure =
        |number, round, key: &CellKey| bench.run(key, round, &store.own_files(number, &key.target));
    let campaign = Campaign { plan: &plan, store: &store, cancel: &options.cancel, budget: options.budget };
    let results = campaign.run(results, before.kept, observer, &mut measure)?;
    let budgets_met = results.budgets.iter().all(|budget| budget.met);
    Ok(Summary { report: store.report(), results, budgets_met, losses })
}

/// Whether a run was made with this very plan: the quick form of one has the same file.
fn is_of(plan: &Plan, run: &Run) -> bool {
    let same_time = |outcome: &load::Outcome| {
        let same = match &run.search {
            Some(found) => found.probe_s == plan.duration_s,
            None => outcome.plan.stop == plan.stops(),
        };
        same && outcome.plan.warmup_s == plan.warmup_s
    };
    run.outcome.as_ref().is_none_or(same_time)
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
        let parent = path.parent().unwrap_or(made);
        fs::create_dir_all(parent).map_err(Error::file(parent))?;
        write_file(&path, file.bytes).map_err(Error::file(&path))?;
    }
    Ok(made.into())
}

/// Makes a file of so many bytes: printable, not too regular, and the same every time.
fn write_file(path: &Path, bytes: usize) -> io::Result<()> {
    // It repeats itself after 26 bytes.
    let part: Vec<u8> = (0..26 * 1024_usize).map(|at| b'a' + (at * 7 % 26) as u8).collect();
    let mut file = File::create(path)?;
    let mut left = bytes;
    while left > 0 {
        let now = left.min(part.len());
        file.write_all(&part[..now])?;
        left -= now;
    }
    Ok(())
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
        unmeasured: Vec::new(),
        findings: Vec::new(),
        budgets: Vec::new(),
        claims: Vec::new(),
        verdict: Verdict::Valid,
    }
}
