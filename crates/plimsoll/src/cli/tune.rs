//! `plimsoll tune`: the best settings for this host and its work, as a file.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use lab::tune::{Wanted, config, tune};
use lab::{Options, Summary};
use load::Switch;

use super::live::LiveLine;
use super::output::print;
use super::{Failure, say};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Directory to serve [default: one made with a page of 1 KiB]
    dir: Option<PathBuf>,
    /// Business time of a request: 200us, 30ms
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    work: Option<Duration>,
    /// What business time does: wait, as for a database, or compute
    #[arg(long, value_name = "MODE", default_value = "sleep", value_parser = ["sleep", "spin"], requires = "work")]
    work_mode: String,
    /// Path that is requested
    #[arg(long, value_name = "PATH", default_value = "/")]
    path: String,
    /// Connections of the load
    #[arg(short, long, value_name = "N", default_value_t = 64)]
    connections: u32,
    /// A connection for every request
    #[arg(long)]
    close: bool,
    /// How long the search may take
    #[arg(long, value_name = "TIME", default_value = "2min", value_parser = humantime::parse_duration)]
    budget: Duration,
    /// Where the settings are written, for `plimsoll serve --config`
    #[arg(long, value_name = "FILE", default_value = "plimsoll.toml")]
    write: PathBuf,
    /// Directory for the measurements and their report; must not be there yet [default: out/tune-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: Args) -> Result<ExitCode, Failure> {
    let wanted = Wanted {
        work: args
            .work
            .map(|work| (humantime::format_duration(work).to_string().replace(' ', ""), args.work_mode)),
        path: args.path,
        connections: args.connections,
        close: args.close,
        budget: args.budget,
        cores: engine::host::Cores::detect().usable(),
    };
    let cancel = Switch::default();
    super::stop_on_signal(&cancel, |signal| say!("{signal}: nothing is written"))?;
    let command = super::command_line();
    let out = args.out.unwrap_or_else(|| super::lab::default_out("tune"));
    // The name and the plan are the search's own.
    let options = Options {
        root: args.dir,
        command: command.clone(),
        cancel,
        ..Options::new("", "", out, super::own_program()?)
    };
    let line = LiveLine::new();
    let tuned = tune(&wanted, &options, &mut |progress| line.show(&super::lab::how_far(progress)))?;
    drop(line);
    let text = config(&tuned, &wanted, &command);
    lab::replace(&args.write, &text).with_context(|| format!("cannot write {}", args.write.display()))?;
    let settings: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let validated = tuned.validation.as_ref().map_or(String::new(), |validation| {
        format!("report of the best side by side: {}\n", validation.report.display())
    });
    let doubts = doubts("the search", Some(&tuned.search))
        + &doubts("the comparison side by side", tuned.validation.as_ref());
    print(format_args!(
        "{}\n\n{}\n\n{doubts}written to {file}: plimsoll serve --config {file} DIR\nreport: {}\n{validated}",
        tuned.why,
        settings.join("\n"),
        tuned.search.report.display(),
        file = args.write.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Why the figures of an experiment need care, where they do.
fn doubts(name: &str, experiment: Option<&Summary>) -> String {
    let Some(Summary { results, .. }) = experiment else { return String::new() };
    results.verdict.sentences_of(name).map(|line| line + "\n").collect()
}
