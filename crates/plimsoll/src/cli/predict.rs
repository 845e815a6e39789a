//! `plimsoll lab predict`: what each topology would do on hosts of other sizes.

use std::fs;
use std::io::{IsTerminal, Write, stderr};
use std::process::ExitCode;
use std::time::Duration;

use ::lab::predict::{MOST_WORK_US, Wanted, Work, predict, text};
use anyhow::{Context, ensure};
use load::Switch;
use plimsoll::signals::Watch;

use super::Failure;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Cores of the hosts
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "8,16,64", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cores: Vec<u16>,
    /// Business time of a request: 200us, up to 100ms
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    work: Option<Duration>,
    /// What business time does: wait, as for a database, or compute
    #[arg(long, value_name = "MODE", default_value = "sleep", value_parser = ["sleep", "spin"], requires = "work")]
    work_mode: String,
    /// Connections of the load, each of which sends its next request after the last answer
    #[arg(short, long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,
    /// Predict no model whose prediction for this host is further off than this, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 25.0)]
    within: f64,
    /// Measure this host in seconds instead of a minute
    #[arg(long)]
    quick: bool,
    /// Write the prediction as JSON to a file, or with - to standard output in place of the text
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
}

impl Args {
    fn wanted(&self, cancel: Switch) -> anyhow::Result<Wanted> {
        let work_us = self.work.unwrap_or_default().as_secs_f64() * 1e6;
        ensure!(
            work_us <= MOST_WORK_US,
            "--work {}: must be at most {}, so that it can be measured here in seconds",
            humantime::format_duration(self.work.unwrap_or_default()),
            humantime::format_duration(Duration::from_secs_f64(MOST_WORK_US / 1e6))
        );
        ensure!(
            self.within > 0.0 && self.within.is_finite(),
            "--within {}: must be above 0 per cent",
            self.within
        );
        let work = match self.work_mode.as_str() {
            "spin" => Work { spin_us: work_us, ..Work::default() },
            _ => Work { sleep_us: work_us, ..Work::default() },
        };
        let mut cores: Vec<usize> = self.cores.iter().map(|cores| usize::from(*cores)).collect();
        cores.sort_unstable();
        cores.dedup();
        Ok(Wanted {
            cores,
            work,
            connections: self.connections,
            within: self.within / 100.0,
            quick: self.quick,
            program: std::env::current_exe().context("cannot find this program's own file")?,
            cancel,
        })
    }
}

/// Measures, predicts and tells. Exits with 1 where nothing can be predicted.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let cancel = Switch::default();
    let wanted = args.wanted(cancel.clone()).map_err(Failure::usage)?;
    Watch::start().context("cannot watch for signals")?.then_stop(cancel, |_| ());
    let watched = stderr().is_terminal();
    let mut follow = |done: usize, total: usize, model: &str| {
        if watched {
            // Where the terminal is gone there is nobody to tell.
            let _ = write!(stderr(), "\r\x1b[K{}/{total} {model} ", done + 1);
            let _ = stderr().flush();
        }
    };
    let found = predict(&wanted, &mut follow)?;
    if watched {
        let _ = write!(stderr(), "\r\x1b[K");
    }
    let json = || serde_json::to_string_pretty(&found);
    match args.json.as_deref() {
        Some("-") => println!("{}", json()?),
        Some(file) => {
            fs::write(file, json()? + "\n").with_context(|| format!("cannot write {file}"))?;
            print!("{}", text(&found));
        }
        None => print!("{}", text(&found)),
    }
    Ok(if found.forecasts.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
