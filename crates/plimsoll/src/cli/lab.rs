//! `plimsoll lab`: whole experiments.

use std::process::ExitCode;

use super::Failure;

#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(_: Args) -> Result<ExitCode, Failure> {
    Ok(ExitCode::SUCCESS)
}
