//! Flags of business time, for experiments.

use std::time::Duration;

use server::app::Site;
use server::app::workload::{MOST_WORK, Work, Workloads};

/// Business time, for experiments.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Workload")]
pub(super) struct WorkFlags {
    /// Adds business time to every request of the site: 200us, 30ms
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    work: Option<Duration>,
    /// What business time does: wait, as for a database, or compute
    #[arg(long, value_enum, default_value = "sleep")]
    work_mode: WorkMode,
    /// Serve /fast, /slow, /work?sleep=..&spin=..&one_in=..&bytes=.., /bytes?n=.., /stream?rate=..&for=.. and /echo too; always
    /// with --work
    #[arg(long)]
    workloads: bool,
    /// Business time of /slow
    #[arg(long, value_name = "TIME", default_value = "30ms", value_parser = humantime::parse_duration)]
    slow_duration: Duration,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum WorkMode {
    /// The thread sleeps
    Sleep,
    /// The thread computes
    Spin,
}

impl WorkFlags {
    /// The site with the workloads that were asked for.
    pub(super) fn around(&self, site: Site) -> anyhow::Result<Workloads<Site>> {
        for (flag, time) in
            [("--work", self.work.unwrap_or_default()), ("--slow-duration", self.slow_duration)]
        {
            anyhow::ensure!(
                time <= MOST_WORK,
                "{flag} {}: must be at most 60s",
                humantime::format_duration(time)
            );
        }
        let time = self.work.unwrap_or_default();
        let each = match self.work_mode {
            WorkMode::Sleep => Work { sleep: time, ..Work::NONE },
            WorkMode::Spin => Work { spin: time, ..Work::NONE },
        };
        let routes = self.workloads || self.work.is_some();
        Ok(Workloads::new(site, each, routes.then_some(self.slow_duration)))
    }
}
