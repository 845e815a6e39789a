//! `plimsoll lab predict`: what each topology would do on hosts of other sizes.

use std::process::ExitCode;
use std::time::Duration;

use ::lab::predict::{MOST_WORK_US, Wanted, Work, predict, text};
use anyhow::ensure;
use load::Switch;

use super::Failure;
use super::live::LiveLine;
use super::output::Files;

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
            program: super::own_program()?,
            cancel,
        })
    }
}

/// Measures, predicts and tells. Exits with 1 where nothing can be predicted.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let cancel = Switch::default();
    let wanted = args.wanted(cancel.clone()).map_err(Failure::usage)?;
    let files = Files::open(args.json.as_deref(), None).map_err(Failure::usage)?;
    super::stop_on_signal(&cancel, |_| ())?;
    let line = LiveLine::new();
    let found =
        predict(&wanted, &mut |done, total, model| line.show(&format!("{}/{total} {model} ", done + 1)))?;
    drop(line);
    files.give(&found, || Ok(text(&found)), String::new)?;
    Ok(if found.forecasts.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
