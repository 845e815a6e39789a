//! The command line: what can be asked, and how each command ends.

mod bench;
mod capacity;
pub(crate) mod config;
mod daemon;
mod lab;
mod live;
mod merge;
mod output;
mod predict;
mod serve;
mod topology;
mod tune;
mod value;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use engine::Stop;
use plimsoll::signals::Watch;

pub(crate) use output::say;

/// A web server that knows how much load it can carry.
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 100,
    after_help = "Exit status: 0 done, 1 the run failed or missed its goal, 2 bad usage."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a directory over HTTP
    Serve(Box<serve::Args>),
    /// Load an HTTP server and measure it
    Bench(Box<bench::Args>),
    /// Find the load that a server carries within a target
    Capacity(Box<capacity::Args>),
    /// One process of a load
    #[command(hide = true, name = bench::PART)]
    LoadPart,
    /// Add up interval logs of HdrHistogram, such as those of several loads, and read their percentiles
    Merge(merge::Args),
    /// Find the best settings for this host and its work
    Tune(Box<tune::Args>),
    /// Run a whole experiment and write its report
    Lab(lab::Args),
}

/// Why a command failed, and whose fault it is.
pub(crate) struct Failure {
    /// What happened, and what to do about it.
    pub(crate) cause: anyhow::Error,
    /// The command was asked for something that makes no sense.
    usage: bool,
}

impl Failure {
    fn usage(cause: impl Into<anyhow::Error>) -> Self {
        Failure { cause: cause.into(), usage: true }
    }

    /// The exit status: 2 for bad usage, 1 otherwise.
    pub(crate) fn status(&self) -> ExitCode {
        ExitCode::from(if self.usage { 2 } else { 1 })
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(cause: E) -> Self {
        Failure { cause: cause.into(), usage: false }
    }
}

/// What is wrong with a command line, in one line: the message, and the hint if there is one.
pub(crate) fn one_line(message: &str) -> String {
    let said = message.split("\nUsage:").next().unwrap_or_default();
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("For more"));
    let parts: Vec<&str> =
        lines.map(|line| line.trim_start_matches("error: ").trim_start_matches("tip: ")).collect();
    parts.join("; ").replace(":;", ":")
}

/// This command as it was given, so that a report can say how to repeat it.
pub(crate) fn command_line() -> String {
    let words =
        std::env::args().skip(1).map(|word| if word.contains(' ') { format!("'{word}'") } else { word });
    std::iter::once("plimsoll".to_string()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The program itself, which some commands start once more.
fn own_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find this program's own file")
}

/// Has a signal set `cancel`, after telling `announce` its name. To be called before any thread is started.
fn stop_on_signal(cancel: &Stop, announce: impl FnOnce(&str) + Send + 'static) -> anyhow::Result<()> {
    Watch::start().context("cannot watch for signals")?.then_stop(cancel.clone(), announce);
    Ok(())
}

/// Runs the command that was asked for.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Serve(args) => serve::run(*args),
        Command::Bench(args) => bench::run(*args),
        Command::LoadPart => bench::part(),
        Command::Capacity(args) => capacity::run(*args),
        Command::Merge(args) => merge::run(&args),
        Command::Tune(args) => tune::run(*args),
        Command::Lab(args) => lab::run(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_command_line_is_explained_in_one_line() {
        let explain = |args: &[&str]| {
            one_line(&Args::try_parse_from([&["plimsoll"], args].concat()).unwrap_err().to_string())
        };
        assert_eq!(
            explain(&["serve", "--reactor", "2"]),
            "unexpected argument '--reactor' found; a similar argument exists: '--reactors'"
        );
        assert_eq!(explain(&["bench"]), "the following required arguments were not provided: <URL>");
        let model = explain(&["serve", "--model", "multireactor"]);
        assert!(
            model.starts_with("invalid value 'multireactor' for '--model <MODEL>'; [possible values: auto,")
        );
        assert!(model.contains("; a similar value exists: ") && !model.contains('\n'), "{model}");
        assert!(
            explain(&["serve", "--idle-timeout", "soon"])
                .starts_with("invalid value 'soon' for '--idle-timeout <TIME>'")
        );
    }
}
