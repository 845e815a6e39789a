//! Other load generators as the load of an experiment, and one like Webbench.

mod ab;
mod child;
mod h2load;
mod text;
mod tsung;
mod wrk;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use load::fleet::PART;
use load::host::Sample;
use load::{Outcome, Phase, Plan, Stop, Switch};

use crate::command::find;
use crate::plan::Engine;

impl Engine {
    /// Its program, where the host has it.
    ///
    /// # Errors
    /// It is not installed; with how to install it.
    pub(crate) fn program(self) -> Result<PathBuf, String> {
        let name = self.name();
        let package = match self {
            Engine::Ab => "apache2-utils",
            Engine::H2load => "nghttp2-client",
            _ => name,
        };
        find(name).ok_or_else(|| format!("{name} is not installed: apt-get install {package}"))
    }

    /// A command that prints its version; `None` for one of ours.
    pub(crate) fn version_command(self) -> Option<Vec<String>> {
        let flag = match self {
            Engine::Ab => "-V",
            Engine::Wrk | Engine::Tsung => "-v",
            Engine::H2load => "--version",
            Engine::Webbench => return None,
        };
        Some([self.name(), flag].map(String::from).into())
    }

    /// Runs a load for so many seconds, or until its requests are made, where it is our own with `program` as its processes;
    /// `watch` is called with the phase every now and then.
    ///
    /// # Errors
    /// It is not installed, failed, or printed something else than expected; or it was stopped.
    pub(crate) fn run(
        self,
        program: &Path,
        plan: &Plan,
        seconds: f64,
        stop: &Switch,
        watch: &mut dyn FnMut(Phase),
    ) -> Result<Outcome, String> {
        let twice = |tool, watch: &mut dyn FnMut(Phase)| {
            run_twice(&self.program()?, tool, plan, seconds, stop, watch)
                .map_err(|error| format!("{}: {error}", self.name()))
        };
        let mut outcome = match self {
            Engine::Ab => twice(ab::TOOL, watch)?,
            Engine::Wrk => twice(wrk::TOOL, watch)?,
            Engine::H2load => twice(h2load::TOOL, watch)?,
            Engine::Tsung => tsung::run(&self.program()?, plan, seconds, stop, watch)
                .map_err(|error| format!("tsung: {error}"))?,
            // Ours, and judged already.
            Engine::Webbench => {
                let mut observer = |progress: &load::Progress| watch(progress.phase);
                return load::webbench::run(program, &[PART], plan, stop, &mut observer)
                    .map_err(|error| format!("webbench: {error}"));
            }
        };
        outcome.client.cpu_us_per_request = outcome.client.cpu_s * 1e6 / outcome.requests.max(1) as f64;
        outcome.response_time_us.count = outcome.requests;
        // They do not tell their threads apart: all of them together, over as many cores as they can use.
        let cores = f64::from(plan.threads()).min(plan.cores() as f64);
        outcome.client.busiest_thread_share = outcome.client.cpu_s / outcome.duration_s.max(1e-9) / cores;
        let suspicions = std::mem::take(&mut outcome.verdict);
        outcome.verdict = load::verdict::judge(&outcome);
        suspicions.reasons().iter().for_each(|reason| outcome.verdict.suspect(reason.clone()));
        Ok(outcome)
    }
}

/// A generator that is a program which prints its figures at the end.
struct Tool {
    /// Its words for a load of so many seconds.
    words: fn(&Plan, &str) -> Vec<String>,
    /// How what it prints is read: to how many answers had an error status, or to nothing where there are no figures.
    read: fn(&str, &mut Outcome) -> Option<u64>,
    /// The option that names a file for figures which it does not print; they are read behind the others.
    file: Option<&'static str>,
}

/// Runs a generator that knows no warm-up: once for that, and once to be measured.
fn run_twice(
    program: &Path,
    tool: Tool,
    plan: &Plan,
    seconds: f64,
    stop: &Switch,
    watch: &mut dyn FnMut(Phase),
) -> Result<Outcome, String> {
    let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    let call = |plan: &Plan, seconds: f64, phase: Phase, watch: &mut dyn FnMut(Phase)| {
        let mut command = Command::new(program);
        if let Some(option) = tool.file {
            command.arg(option).arg(file.path());
        }
        // All of them count in whole seconds.
        command.args((tool.words)(plan, &(seconds.round().max(1.0) as u64).to_string()));
        let mut go_on = |_: u32, _: &str| {
            watch(phase);
            true
        };
        let printed = child::output(command, child::limit(seconds, plan), stop, &mut go_on)
            .map_err(|error| error.to_string())?;
        let more = fs::read_to_string(file.path()).map_err(|error| error.to_string())?;
        Ok::<_, String>(printed + "\n" + &more)
    };
    if plan.warmup_s >= 0.5 {
        call(
            &Plan { stop: Stop::Seconds(plan.warmup_s), ..plan.clone() },
            plan.warmup_s,
            Phase::Warmup,
            watch,
        )?;
    }
    let (begin, used) = (Sample::now(), child::used_s());
    let text = call(plan, seconds, Phase::Measuring, watch)?;
    watch(Phase::Draining);
    let mut outcome = Outcome { threads: plan.threads(), ..Outcome::empty(plan) };
    (outcome.host, outcome.client.cpu_s) = (Sample::now().since(&begin), child::used_s() - used);
    let bad = (tool.read)(&text, &mut outcome).ok_or_else(|| nothing_in(&text))?;
    let good = outcome.requests.saturating_sub(bad);
    outcome.statuses.extend([(200, good), (500, bad)].into_iter().filter(|(_, count)| *count > 0));
    // The time it took, with more digits than are printed.
    outcome.duration_s = outcome.requests as f64 / outcome.requests_per_second.max(1e-9);
    outcome.bytes_per_second = outcome.bytes_received as f64 / outcome.duration_s.max(1e-9);
    Ok(outcome)
}

/// What is said where the figures are missing in what a generator printed.
fn nothing_in(text: &str) -> String {
    let last: Vec<&str> = text.lines().rev().take(3).collect();
    format!("it printed nothing to go by; at the end: {}", last.join(" / "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An outcome before anything was read.
    pub(super) fn empty() -> Outcome {
        Outcome::empty(&Plan::new("http://x/"))
    }

    /// What is read in a text, with the answers of an error status among those of 500.
    pub(super) fn seen(read: fn(&str, &mut Outcome) -> Option<u64>, text: &str) -> Outcome {
        let mut outcome = empty();
        let bad = read(text, &mut outcome).unwrap();
        outcome.statuses.insert(500, bad);
        outcome
    }

    #[test]
    fn what_is_not_understood_is_no_figure() {
        for Tool { read, .. } in [ab::TOOL, wrk::TOOL, h2load::TOOL] {
            assert!(read("command not found\n", &mut empty()).is_none());
        }
    }
}
