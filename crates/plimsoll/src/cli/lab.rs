//! `plimsoll lab`: whole experiments.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use lab::{Options, Progress};
use load::Switch;

use super::live::LiveLine;
use super::output::print;
use super::{Failure, say};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the experiments that come with the program
    List,
    /// Run an experiment and write its report
    Run(RunArgs),
    /// Compare two results of an experiment, and exit with 1 where the second is proven to be worse
    Compare {
        /// Directory of the first, such as the last version
        first: PathBuf,
        /// Directory of the second
        second: PathBuf,
    },
    /// Write the report, summary and table of a finished experiment again, from its results.json, judged by the rules of this
    /// version
    Report {
        /// Directory of the experiment
        dir: PathBuf,
        /// Draw a surface beside each heat map
        #[arg(long)]
        surface: bool,
    },
    /// Measure what requests cost here, and predict each topology on hosts with other numbers of cores
    Predict(super::predict::Args),
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// An experiment by name, or a file that ends in .toml
    experiment: String,
    /// Take the experiment's quick values: a first look in minutes
    #[arg(long)]
    quick: bool,
    /// Directory to serve [default: files that the experiment makes]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Directory for the results; must not be there yet [default: out/NAME-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with an experiment that was interrupted: the directory of its results
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    resume: Option<PathBuf>,
    /// Look only so long, where the answer is, instead of running every cell in every round
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    budget: Option<Duration>,
}

pub(super) fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.command {
        Command::List => {
            for (name, title) in lab::known() {
                print(format_args!("{name:<20} {title}\n"))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Run(args) => run_one(args),
        Command::Compare { first, second } => compare(&first, &second),
        Command::Predict(args) => super::predict::run(&args),
        Command::Report { dir, surface } => {
            report_again(&dir, surface)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Writes what people and other programs read of results, judged by the rules of this program. The results stay as they are.
fn report_again(dir: &Path, surface: bool) -> Result<(), Failure> {
    let mut results = read(dir)?;
    if let Err(error) = lab::judge_again(&mut results) {
        say!("plimsoll: the verdicts stay those of the program that made the results: {error}");
    }
    let html = if surface { lab::report::html_with_surfaces(&results) } else { lab::report::html(&results) };
    let files = [
        ("cells.csv", lab::csv(&results)),
        ("summary.md", lab::report::markdown(&results)),
        ("report.html", html),
    ];
    for (name, text) in files {
        let file = dir.join(name);
        lab::replace(&file, &text).with_context(|| format!("cannot write {}", file.display()))?;
        print(format_args!("{}\n", file.display()))?;
    }
    Ok(())
}

/// The results in a directory.
fn read(dir: &Path) -> Result<lab::Results, Failure> {
    let file = dir.join("results.json");
    let text = fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))
        .map_err(Failure::usage)?;
    Ok(serde_json::from_str(&text)
        .with_context(|| format!("{} is not the results of an experiment", file.display()))?)
}

fn compare(first: &Path, second: &Path) -> Result<ExitCode, Failure> {
    let (first, second) = (read(first)?, read(second)?);
    let changes = lab::compare::compare(&first, &second);
    if changes.is_empty() {
        return Err(Failure::usage(anyhow::anyhow!("the two results have no cell in common")));
    }
    print(lab::compare::text(&first, &second, &changes))?;
    let worse = changes.iter().filter(|change| change.worse).count();
    Ok(if worse == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_one(args: RunArgs) -> Result<ExitCode, Failure> {
    let experiment = lab::find(&args.experiment).map_err(Failure::usage)?;
    let plan = lab::Plan::parse(&experiment.plan, &args.experiment).map_err(Failure::usage)?;
    let plan = if args.quick { plan.quicker() } else { plan };
    let cancel = Switch::default();
    super::stop_on_signal(&cancel, |signal| say!("{signal}: what has been measured so far is kept"))?;
    let options = Options {
        resume: args.resume.is_some(),
        budget: args.budget,
        out: args.resume.or(args.out).unwrap_or_else(|| default_out(&experiment.name)),
        name: experiment.name,
        plan: experiment.plan,
        quick: args.quick,
        root: args.root,
        program: super::own_program()?,
        command: super::command_line(),
        cancel,
    };
    let runs = plan.cells().len() * plan.rounds as usize;
    match args.budget {
        Some(budget) => {
            say!("{}: as much of {runs} runs as {} allow", plan.title, seconds(budget.as_secs_f64()))
        }
        None => say!("{}: {runs} runs, about {}", plan.title, seconds(plan.estimate_s())),
    }
    let further = plan.most_runs() - runs;
    if further > 0 && args.budget.is_none() {
        say!("up to {further} more runs where the rounds of a cell differ too much");
    }
    for missing in lab::missing(&plan, &options.program) {
        say!("plimsoll: warning: {missing}");
    }
    let line = LiveLine::new();
    let summary = lab::run(&options, &mut |progress| line.show(&how_far(progress)))?;
    drop(line);
    for loss in &summary.losses {
        say!("plimsoll: warning: {loss}");
    }
    let table = lab::report::text_table(&summary.results);
    print(format_args!("{table}\nreport: {}\n", summary.report.display()))?;
    let results = &summary.results;
    let interrupted = results.runs.len() < results.planned_runs as usize;
    let failed = !summary.budgets_met || results.cells.is_empty() || interrupted;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

pub(super) fn default_out(name: &str) -> PathBuf {
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let time: String = time.chars().filter(|c| c.is_ascii_digit() || *c == 'T').collect();
    PathBuf::from("out").join(format!("{name}-{time}"))
}

fn seconds(seconds: f64) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(seconds.ceil() as u64))
}

/// How far an experiment is, in a line.
pub(super) fn how_far(Progress { done, total, cell, left }: &Progress) -> String {
    format!("{}/{total} {cell}, {} left ", done + 1, seconds(left.as_secs_f64()))
}
