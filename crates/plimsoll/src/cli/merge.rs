//! `plimsoll merge`: interval logs of HdrHistogram, added up.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use load::report::duration;

use super::Failure;
use super::output::print;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Interval logs, as `plimsoll bench --format hdr` and other tools write them; times in microseconds
    #[arg(required = true)]
    logs: Vec<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let texts: Vec<String> = args
        .logs
        .iter()
        .map(|log| fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display())))
        .collect::<anyhow::Result<_>>()
        .map_err(Failure::usage)?;
    let (times, seconds) = load::hdr::merge(texts.iter().map(String::as_str)).map_err(Failure::usage)?;
    let mut text =
        format!("{} response times of {:.1} s in {} logs\n", times.count, seconds.as_secs_f64(), texts.len());
    for (name, us) in times.percentiles() {
        text += &format!("  {name:<8} {:>10}\n", us.map_or("n/a".into(), |us| duration(us as f64)));
    }
    text += &format!("  {:<8} {:>10}\n", "max", duration(times.max as f64));
    print(text)?;
    Ok(ExitCode::SUCCESS)
}
