//! One run of one cell: a fresh server, a load on it, and what both used meanwhile.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use load::capacity::{self, Means, News};
use load::fleet::{self, PART};
use load::sample::Sampler;
use load::{Error, Outcome, Phase, Switch};
use rustix::thread::CpuSet;

use crate::command::Places;
use crate::key::CellKey;
use crate::plan::Plan;
use crate::process::{Server, Start, free_port};
use crate::results::Measured;

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
    /// Makes the run that the plan asks for: a load, or a search.
    ///
    /// # Errors
    /// Why there are no figures, in words. Nothing is left running.
    pub(crate) fn run(&self, key: &CellKey, round: u32, dir: &Path) -> Result<Measured, String> {
        match self.plan.search {
            Some(_) => self.search(key, round, dir),
            None => self.measure(key, round, dir, &mut |_| {}),
        }
    }

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
    ) -> Result<Measured, String> {
        let mut server = self.start(key, dir)?;
        let load = self.plan.load_of(key, round, server.address())?;
        let beside = self.plan.load_beside(key, round, server.address())?;
        self.load(&mut server, key, &load, beside.as_ref(), look)
    }

    /// Starts the server of a cell, searches how many clients it holds, and stops it.
    fn search(&self, key: &CellKey, round: u32, dir: &Path) -> Result<Measured, String> {
        let mut server = self.start(key, dir)?;
        let search = self.plan.search_of(key, round, server.address())?.ok_or("the plan has no search")?;
        let mut held = 0.0_f64;
        let mut means = Probing { bench: self, server: &mut server, key, last: None, why: None };
        let found = capacity::search_by(&search, &mut means, &mut |news| {
            if let News::Done(probe) = news
                && probe.kept
            {
                held = held.max(probe.level);
            }
        });
        let found = found.map_err(|error| match means.why.take() {
            Some(why) => format!("{why}, and had held {held:.0}"),
            None => error.to_string(),
        })?;
        let last = means.last.take().ok_or("the search made no probe")?;
        Ok(Measured { search: Some(found), ..last })
    }

    /// One load on a server that runs, and another beside it where there is one.
    fn load(
        &self,
        server: &mut Server,
        key: &CellKey,
        load: &load::Plan,
        beside: Option<&load::Plan>,
        look: &mut dyn FnMut(Phase),
    ) -> Result<Measured, String> {
        let mut sampler = Sampler::new(server.pid());
        // The load is stopped for two reasons: the experiment is, or there is nothing left to load.
        let stop = Switch::default();
        load.validate().map_err(|error| error.to_string())?;
        let engine = self.plan.engine_of(key)?;
        // Our own load ends with its requests, however long they take; other generators know both limits.
        let is_over = |since: Instant| since.elapsed().as_secs_f64() >= self.plan.duration_s;
        let is_limited = engine.is_none() && self.plan.stop.requests.is_some();
        let mut begin = None;
        let mut watch = |phase| {
            sampler.look(phase);
            look(phase);
            if phase == Phase::Measuring && is_limited && is_over(*begin.get_or_insert_with(Instant::now)) {
                stop.set();
            }
            if !stop.is_set() && (self.cancel.is_set() || server.check().is_err()) {
                stop.set();
            }
        };
        let mut main = || match engine {
            None => fleet::run(self.program, &[PART], load, &stop, &mut |progress| watch(progress.phase))
                .map_err(|error| error.to_string()),
            Some(engine) => engine.run(self.program, load, self.plan.duration_s, &stop, &mut watch),
        };
        let (outcome, beside) = match beside {
            None => (main(), Ok(None)),
            Some(beside) => both(&mut main, beside, &stop),
        };
        if is_limited {
            // Few requests may be over before anybody has looked, and nobody knows their end ahead.
            let missed = [Phase::Measuring, Phase::Draining].into_iter().skip(usize::from(begin.is_some()));
            missed.for_each(|phase| sampler.look(phase));
        }
        server.check()?;
        let (outcome, beside) = (outcome?, beside?);
        if self.cancel.is_set() {
            return Err("interrupted".into());
        }
        let answered = outcome.answered() + beside.as_ref().map_or(0, Outcome::answered);
        let server = sampler.finish(answered).ok_or("the load ended before it was measured")?;
        Ok(Measured { outcome, server, beside, search: None })
    }

    fn start(&self, key: &CellKey, dir: &Path) -> Result<Server, String> {
        let target = self.plan.target(&key.target).ok_or("the plan has no such target")?;
        let places = Places { root: &self.root, dir, program: self.program, port: free_port()?, cell: key };
        Start { target, places, cores: &self.server_cores, path: &key.path, cancel: self.cancel }.start()
    }
}

/// A search on a server of ours.
struct Probing<'a, 'b> {
    bench: &'a Bench<'b>,
    server: &'a mut Server,
    key: &'a CellKey,
    /// What the last probe measured.
    last: Option<Measured>,
    /// Why the search failed.
    why: Option<String>,
}

impl Probing<'_, '_> {
    /// Ends the search for a reason.
    fn fail<T>(&mut self, why: String) -> Result<T, Error> {
        self.why = Some(why);
        Err(Error::Nothing(String::new()))
    }

    /// Whether the experiment and the server go on.
    fn go_on(&mut self) -> Result<(), Error> {
        if self.bench.cancel.is_set() {
            return self.fail("interrupted".into());
        }
        self.server.check().or_else(|why| self.fail(why))
    }
}

impl Means for Probing<'_, '_> {
    fn load(&mut self, plan: &load::Plan, _: &mut dyn FnMut(&load::Progress)) -> Result<Outcome, Error> {
        match self.bench.load(self.server, self.key, plan, None, &mut |_| {}) {
            Ok(measured) => Ok(self.last.insert(measured).outcome.clone()),
            Err(why) => self.fail(format!("{why} (it was asked to hold {} clients)", plan.connections)),
        }
    }

    fn ask(&mut self, plan: &load::Plan) -> Result<Outcome, Error> {
        let outcome = load::run_until(plan, self.bench.cancel, &mut |_| {});
        self.go_on()?;
        outcome.or_else(|error| self.fail(error.to_string()))
    }

    fn pause(&mut self, time: Duration) -> Result<(), Error> {
        thread::sleep(time);
        self.go_on()
    }
}

/// A load as it was measured, or why it could not be.
type Tried<T> = Result<T, String>;

/// Runs a load, and another one beside it from beginning to end.
fn both(
    main: &mut dyn FnMut() -> Tried<Outcome>,
    beside: &load::Plan,
    stop: &Switch,
) -> (Tried<Outcome>, Tried<Option<Outcome>>) {
    thread::scope(|scope| {
        let beside = scope.spawn(|| load::run_until(beside, stop, &mut |_| {}));
        let outcome = main();
        if outcome.is_err() {
            stop.set();
        }
        let beside = match beside.join() {
            Ok(found) => found.map(Some).map_err(|error| format!("the load beside: {error}")),
            Err(_) => Err("the load beside panicked".into()),
        };
        (outcome, beside)
    })
}
