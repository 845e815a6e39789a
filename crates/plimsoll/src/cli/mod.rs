//! The command line: what can be asked, and how each command ends.

mod bench;
mod lab;
mod serve;
mod signals;
mod topology;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    Serve(serve::Args),
    /// Load an HTTP server and measure it
    Bench(bench::Args),
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

/// Runs the command that was asked for.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Serve(args) => serve::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Lab(args) => lab::run(args),
    }
}
