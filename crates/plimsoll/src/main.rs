//! The program: `plimsoll serve`, `plimsoll bench` and `plimsoll lab`.
#![forbid(unsafe_code)]

mod cli;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand as NoCommand;
use clap::{CommandFactory, Parser};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let arguments = match cli::config::expanded(std::env::args_os(), &cli::Args::command()) {
        Ok(arguments) => arguments,
        Err(error) => {
            cli::say!("plimsoll: {error:#}");
            return ExitCode::from(2);
        }
    };
    let args = match cli::Args::try_parse_from(arguments) {
        Ok(args) => args,
        // Help and the version are printed as they are.
        Err(asked) if !asked.use_stderr() || asked.kind() == NoCommand => asked.exit(),
        Err(error) => {
            cli::say!("plimsoll: {}", cli::one_line(&error.to_string()));
            return ExitCode::from(2);
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_env("PLIMSOLL_LOG").unwrap_or_else(|_| EnvFilter::new("warn")))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    engine::host::raise_descriptor_limit();
    match cli::run(args) {
        Ok(code) => code,
        Err(error) => {
            cli::say!("plimsoll: {:#}", error.cause);
            error.status()
        }
    }
}
