//! One run of one cell: a fresh server, a load on it, and what both used meanwhile.

use std::path::{Path, PathBuf};

use load::sample::{Sampler, ServerUse};
use load::{Outcome, Stop, Switch};
use rustix::thread::CpuSet;

use crate::command::Places;
use crate::plan::{Plan, Target};
use crate::process::{Server, Start, free_port};
use crate::results::CellKey;

/// How long a response may take, in seconds: source D's limit.
const TIMEOUT_S: f64 = 15.0;

/// All that the runs of an experiment have in common.
pub(crate) struct Bench<'a> {
    /// The experiment.
    pub(crate) plan: &'a Plan,
    /// The directory that is served.
    pub(crate) root: PathBuf,
    /// The program that serves our own models.
    pub(crate) program: &'a Path,
    /// The cores of the server.
    pub(crate) server_cores: CpuSet,
    /// Ends a run early.
    pub(crate) cancel: &'a Switch,
}

impl Bench<'_> {
    /// Starts the server of a cell, loads it, and stops it; the server's own files go to `dir`.
    ///
    /// # Errors
    /// Why there are no figures, in words. Nothing is left running.
    pub(crate) fn measure(&self, key: &CellKey, dir: &Path) -> Result<(Outcome, ServerUse), String> {
        let mut server =
            self.start(self.plan.target(&key.target).ok_or("the plan has no such target")?, key, dir)?;
        let pid = server.pid();
        let mut sampler = Sampler::new(pid);
        // The load is stopped for two reasons: the experiment is, or there is nothing left to load.
        let stop = Switch::default();
        let outcome = load::run_until(&self.load(key, &server), &stop, &mut |progress| {
            sampler.look(progress);
            if !stop.is_set() && (self.cancel.is_set() || server.check().is_err()) {
                stop.set();
            }
        });
        server.check()?;
        let outcome = outcome.map_err(|error| error.to_string())?;
        let used = sampler.finish(outcome.requests).ok_or("the load ended before it was measured")?;
        Ok((outcome, used))
    }

    fn start(&self, target: &Target, key: &CellKey, dir: &Path) -> Result<Server, String> {
        let places = Places { root: &self.root, dir, program: self.program, port: free_port()? };
        Start { target, places, cores: &self.server_cores, path: &key.path, cancel: self.cancel }.start()
    }

    fn load(&self, key: &CellKey, server: &Server) -> load::Plan {
        let plan = self.plan;
        load::Plan {
            connections: key.connections,
            threads: plan.threads,
            stop: Stop::Seconds(plan.duration_s),
            warmup_s: plan.warmup_s,
            timeout_s: TIMEOUT_S,
            close: key.close,
            cpus: plan.load_cpus.clone(),
            ..load::Plan::new(format!("http://{}{}", server.address(), key.path))
        }
    }
}
