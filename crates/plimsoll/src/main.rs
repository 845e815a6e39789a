//! The program: `plimsoll serve`, `plimsoll bench` and `plimsoll lab`.
#![forbid(unsafe_code)]

mod cli;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let args = cli::Args::parse();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_env("PLIMSOLL_LOG").unwrap_or_else(|_| EnvFilter::new("warn")))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    match cli::run(args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("plimsoll: {:#}", error.cause);
            error.status()
        }
    }
}
