//! One run of one cell: a fresh server, a load on it, and what both used meanwhile.

use std::path::{Path, PathBuf};

use load::sample::{Sampler, ServerUse};
use load::{Arrivals, Outcome, Spacing, Stop, Switch};
use rustix::thread::CpuSet;

use crate::command::Places;
use crate::engine::Engine;
use crate::plan::{Plan, Target, filled};
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
        let load = self.load(key, &server)?;
        let mut watch = |phase| {
            sampler.look(phase);
            if !stop.is_set() && (self.cancel.is_set() || server.check().is_err()) {
                stop.set();
            }
        };
        let engine = self.filled(&self.plan.load.engine, key).unwrap_or_else(|| "plimsoll".into());
        let outcome = match Engine::named(&engine)? {
            None => load::run_until(&load, &stop, &mut |progress| watch(progress.phase))
                .map_err(|error| error.to_string()),
            Some(engine) => engine.run(&load, &stop, &mut watch),
        };
        server.check()?;
        let outcome = outcome?;
        let used = sampler.finish(outcome.requests).ok_or("the load ended before it was measured")?;
        Ok((outcome, used))
    }

    fn start(&self, target: &Target, key: &CellKey, dir: &Path) -> Result<Server, String> {
        let places = Places { root: &self.root, dir, program: self.program, port: free_port()?, cell: key };
        Start { target, places, cores: &self.server_cores, path: &key.path, cancel: self.cancel }.start()
    }

    /// A text of the load with the cell's levels in it.
    fn filled(&self, text: &Option<String>, key: &CellKey) -> Option<String> {
        Some(filled(text.as_ref()?, &key.condition))
    }

    fn load(&self, key: &CellKey, server: &Server) -> Result<load::Plan, String> {
        let plan = self.plan;
        let said = |what: &str, error: &dyn std::fmt::Display| format!("load.{what}: {error}");
        let think_s = match self.filled(&plan.load.think, key) {
            Some(think) => {
                humantime::parse_duration(&think).map_err(|error| said("think", &error))?.as_secs_f64()
            }
            None => 0.0,
        };
        let arrivals = match self.filled(&plan.load.rate, key).filter(|rate| rate != "closed") {
            Some(rate) => Arrivals::Open {
                rate: rate.parse().map_err(|error| said("rate", &error))?,
                spacing: Spacing::Poisson,
                seed: plan.seed,
                session: None,
            },
            None => Arrivals::Closed { think_s },
        };
        let link = match self.filled(&plan.load.link, key).filter(|link| link != "none") {
            Some(link) => Some(link.parse().map_err(|error| said("link", &error))?),
            None => None,
        };
        let receive_rate = match self.filled(&plan.load.receive_rate, key) {
            Some(rate) => rate.parse().map_err(|error| said("receive_rate", &error))?,
            None => 0.0,
        };
        let load = load::Plan {
            arrivals,
            link,
            receive_rate,
            sources: plan.load.sources,
            connections: key.connections,
            threads: plan.threads,
            stop: Stop::Seconds(plan.duration_s),
            warmup_s: plan.warmup_s,
            timeout_s: plan.load.timeout_s.unwrap_or(TIMEOUT_S),
            close: key.close,
            cpus: plan.load_cpus.clone(),
            ..load::Plan::new(format!("http://{}{}", server.address(), key.path))
        };
        load.validate().map_err(|error| error.to_string())?;
        Ok(load)
    }
}
