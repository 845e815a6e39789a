//! One run of one cell: a fresh server, a load on it, and what both used meanwhile.

use std::path::{Path, PathBuf};

use load::sample::{Sampler, ServerUse};
use load::{Outcome, Phase, Switch};
use rustix::thread::CpuSet;

use crate::command::Places;
use crate::key::CellKey;
use crate::plan::{Plan, Target};
use crate::process::{Server, Start, free_port};

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
    /// Starts the server of a cell, loads it, and stops it; the server's own files go to `dir`. `look` is called with the
    /// phase of the load every now and then.
    ///
    /// # Errors
    /// Why there are no figures, in words. Nothing is left running.
    pub(crate) fn measure(
        &self,
        key: &CellKey,
        round: u32,
        dir: &Path,
        look: &mut dyn FnMut(Phase),
    ) -> Result<(Outcome, ServerUse), String> {
        let mut server =
            self.start(self.plan.target(&key.target).ok_or("the plan has no such target")?, key, dir)?;
        let pid = server.pid();
        let mut sampler = Sampler::new(pid);
        // The load is stopped for two reasons: the experiment is, or there is nothing left to load.
        let stop = Switch::default();
        let load = self.plan.load_of(key, round, server.address())?;
        load.validate().map_err(|error| error.to_string())?;
        let mut watch = |phase| {
            sampler.look(phase);
            look(phase);
            if !stop.is_set() && (self.cancel.is_set() || server.check().is_err()) {
                stop.set();
            }
        };
        let outcome = match self.plan.engine_of(key)? {
            None => load::run_until(&load, &stop, &mut |progress| watch(progress.phase))
                .map_err(|error| error.to_string()),
            Some(engine) => engine.run(&load, &stop, &mut watch),
        };
        server.check()?;
        let outcome = outcome?;
        let used = sampler.finish(outcome.answered()).ok_or("the load ended before it was measured")?;
        Ok((outcome, used))
    }

    fn start(&self, target: &Target, key: &CellKey, dir: &Path) -> Result<Server, String> {
        let places = Places { root: &self.root, dir, program: self.program, port: free_port()?, cell: key };
        Start { target, places, cores: &self.server_cores, path: &key.path, cancel: self.cancel }.start()
    }
}
