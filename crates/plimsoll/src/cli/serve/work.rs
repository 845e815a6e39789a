//! Flags of business time, for experiments.

use std::time::Duration;

use server::app::Site;
use server::app::workload::{MOST_WORK, Work, Workloads};

/// Business time of /slow where nobody says it.
const SLOW: Duration = Duration::from_millis(30);

/// Business time, for experiments.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Workload")]
pub(super) struct WorkFlags {
    /// Adds business time to every request of the site: 200us, 30ms
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    work: Option<Duration>,
    /// What business time does: wait, as for a database, or compute [default: sleep]
    #[arg(long, value_enum)]
    work_mode: Option<WorkMode>,
    /// Serve /fast, /slow, /work?sleep=..&spin=..&one_in=..&bytes=.., /bytes?n=.., /stream?rate=..&for=.. and /echo too; always
    /// with --work
    #[arg(long)]
    workloads: bool,
    /// Business time of /slow [default: 30ms]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    slow_duration: Option<Duration>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum WorkMode {
    /// The thread sleeps
    Sleep,
    /// The thread computes
    Spin,
}

/// Business time as it was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Business {
    /// Of each request of the site.
    each: Work,
    /// Of /slow, where there are workloads.
    slow: Option<Duration>,
}

impl WorkFlags {
    /// What is to be added to a site.
    pub(super) fn resolve(&self) -> anyhow::Result<Business> {
        let (time, slow) = (self.work.unwrap_or_default(), self.slow_duration.unwrap_or(SLOW));
        for (flag, time) in [("--work", time), ("--slow-duration", slow)] {
            anyhow::ensure!(
                time <= MOST_WORK,
                "{flag} {}: must be at most 60s",
                humantime::format_duration(time)
            );
        }
        let each = match self.work_mode.unwrap_or(WorkMode::Sleep) {
            WorkMode::Sleep => Work { sleep: time, ..Work::NONE },
            WorkMode::Spin => Work { spin: time, ..Work::NONE },
        };
        Ok(Business { each, slow: self.has_workloads().then_some(slow) })
    }

    /// What was asked for and has no effect.
    pub(super) fn warnings(&self) -> Vec<String> {
        let asked = [
            (self.work_mode.is_some() && self.work.is_none(), "--work-mode says nothing without --work"),
            (
                self.slow_duration.is_some() && !self.has_workloads(),
                "--slow-duration says nothing without --workloads or --work: there is no /slow",
            ),
        ];
        asked.iter().filter(|(ignored, _)| *ignored).map(|(_, why)| (*why).to_owned()).collect()
    }

    fn has_workloads(&self) -> bool {
        self.workloads || self.work.is_some()
    }
}

impl Business {
    /// The site with it.
    pub(super) fn around(self, site: Site) -> Workloads<Site> {
        Workloads::new(site, self.each, self.slow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        work: WorkFlags,
    }

    #[test]
    fn what_says_nothing_draws_a_warning() {
        let warnings =
            |flags: &[&str]| <Line as clap::Parser>::parse_from([&["serve"], flags].concat()).work.warnings();
        for (flags, expected) in [
            (&["--work-mode", "spin"][..], "--work-mode says nothing without --work"),
            (&["--workloads", "--work-mode", "sleep"], "--work-mode says nothing without --work"),
            (&["--slow-duration", "5ms"], "--slow-duration says nothing without --workloads or --work"),
        ] {
            let warnings = warnings(flags);
            assert!(warnings.len() == 1 && warnings[0].starts_with(expected), "{expected}: {warnings:?}");
        }
        for flags in [
            &[][..],
            &["--work", "5ms", "--work-mode", "spin", "--slow-duration", "5ms"],
            &["--workloads", "--slow-duration", "5ms"],
        ] {
            assert_eq!(warnings(flags), [""; 0], "{flags:?}");
        }
    }
}
