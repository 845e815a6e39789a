//! What requests cost on this host, and what its topologies really do: short loads on servers of this program.

use std::fs;
use std::path::Path;

use engine::Model;
use engine::topology::Axis;
use rustix::thread::CpuSet;

use super::neighbours::Neighbours;
use super::{Calibration, Figures, MODELS, Shape, Wanted};
use crate::cell::Bench;
use crate::cores::{self, Kept};
use crate::error::Error;
use crate::key::CellKey;
use crate::plan::Plan;
use crate::results;
use crate::simulate::Costs;
use crate::stats::median;

/// What is requested: small enough that a request is what costs, not its bytes.
const PATH: &str = "/1k.html";

/// Times that a run is tried.
const ATTEMPTS: usize = 3;

/// Least cost of anything, in microseconds: differences of measurements may come out below 0.
const LEAST_US: f64 = 0.05;

/// A server to be measured.
struct Trial {
    shape: Shape,
    /// Whether its requests have business time.
    work: bool,
}

/// One run of a server.
#[derive(Clone, Copy)]
struct Look {
    figures: Figures,
    /// Processor time per request of the server and of the load, in microseconds.
    server_us: f64,
    client_us: f64,
    /// Largest share of the server's or of the load's cores that something else took, 0 to 1.
    taken: f64,
}

/// A share that something else took from which a run says little.
pub(super) const MUCH: f64 = 0.1;

/// What each model does on this host: the topology, its figures, and what something else took meanwhile.
pub(super) type Measured = (Shape, Figures, f64);

/// The costs on this host, and what each model does on it.
///
/// # Errors
/// As [`super::predict`].
pub(super) fn measure(
    wanted: &Wanted,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<(Calibration, Vec<Measured>), Error> {
    let refuse = |problem| Error::Plan { file: "predict".into(), problem };
    let (server_cores, load_cores) = sides().map_err(refuse)?;
    let cores = server_cores.count() as usize;
    let trials = trials(wanted, cores);
    let made = tempfile::tempdir().map_err(Error::file(std::env::temp_dir()))?;
    let page = made.path().join(PATH.trim_start_matches('/'));
    fs::write(&page, [b'a'; 1024]).map_err(Error::file(&page))?;
    let plan = Plan::parse(&plan(wanted, &trials, load_cores.count() as usize), "predict")?;
    let bench = Bench {
        plan: &plan,
        root: made.path().into(),
        program: &wanted.program,
        server_cores,
        cancel: &wanted.cancel,
    };
    let _kept = Kept::to(&load_cores).map_err(|error| refuse(format!("the load's cores: {error}")))?;
    let rounds = if wanted.quick { 1 } else { 3 };
    let mut looks: Vec<Vec<Look>> = trials.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for (at, trial) in trials.iter().enumerate() {
            progress(round * trials.len() + at, rounds * trials.len(), trial.shape.model.name());
            let key = CellKey {
                target: at.to_string(),
                connections: wanted.connections,
                path: PATH.into(),
                ..CellKey::default()
            };
            let dir = made.path().join(format!("own-{round}-{at}"));
            let look = look_again(&bench, &load_cores, &key, &dir)
                .map_err(|why| refuse(format!("{} could not be measured: {why}", trial.shape.model)))?;
            looks[at].push(look);
        }
    }
    let looks: Vec<Look> = looks.iter().map(|looks| middle(looks)).collect();
    let (costing, checking) = looks.split_at(looks.len() - MODELS.len());
    let shapes = trials.into_iter().skip(costing.len()).map(|trial| trial.shape);
    let measured = shapes.zip(checking).map(|(shape, look)| (shape, look.figures, look.taken)).collect();
    Ok((costs(costing, wanted, cores), measured))
}

/// Half of this host's cores for the server, the others for the load.
fn sides() -> Result<(CpuSet, CpuSet), String> {
    let allowed = cores::allowed().map_err(|error| format!("the cores of this host: {error}"))?;
    let numbers: Vec<usize> = cores::numbers(&allowed).collect();
    if numbers.len() < 2 {
        return Err(
            "a server and its load need a core each, and this process may use one; give it more, as with \
                    `taskset -c 0,1`"
                .into(),
        );
    }
    let (server, load) = numbers.split_at(numbers.len() / 2);
    Ok((cores::choose(server, &allowed)?, cores::choose(load, &allowed)?))
}

/// What is measured: first what the costs are taken from, then every model in other numbers than those.
fn trials(wanted: &Wanted, cores: usize) -> Vec<Trial> {
    let shape = |model: Model, reactors, workers| Shape { model, reactors, workers };
    let few = if wanted.work.sleep_us > 0.0 { 4 * cores } else { cores };
    let costing = [shape(Model::Reactor, 1, 0), shape(Model::ReactorPool, 1, few)];
    let bare = costing.clone().map(|shape| Trial { shape, work: false });
    let slept = costing.map(|shape| Trial { shape, work: true });
    // What computing costs needs no measurement.
    let slept = slept.into_iter().filter(|_| wanted.work.sleep_us > 0.0);
    let checked = MODELS.map(|model| {
        let row = model.row(cores, wanted.connections as usize);
        let reactors = if row.reactors == 1 && !is_single(model) { 2 } else { row.reactors };
        let workers = if row.workers == 0 { 0 } else { few * 2 };
        Trial { shape: shape(model, reactors, workers), work: true }
    });
    bare.into_iter().chain(slept).chain(checked).collect()
}

/// Whether a model has one reactor on any host.
fn is_single(model: Model) -> bool {
    matches!(model, Model::Reactor | Model::ReactorPool)
}

/// The trials as an experiment, each a target of it.
fn plan(wanted: &Wanted, trials: &[Trial], threads: usize) -> String {
    let work_us = wanted.work.sleep_us + wanted.work.spin_us;
    let shortest: f64 = if wanted.quick { 0.6 } else { 2.0 };
    let duration_s = shortest.max(work_us * 10e-6);
    let threads = threads.min(wanted.connections as usize);
    let mut text = format!(
        "title = \"Costs on this host\"\npaths = [\"{PATH}\"]\nconnections = [{}]\nduration_s = {duration_s:?}\n\
         warmup_s = 0.2\nthreads = {threads}\n",
        wanted.connections
    );
    for (at, Trial { shape, work }) in trials.iter().enumerate() {
        let Shape { model, reactors, workers } = shape;
        let mut args = Vec::new();
        let mut add = |flag: &str, value: String| args.extend([flag.to_owned(), value]);
        if *reactors > 1 {
            add("--reactors", reactors.to_string());
        }
        if *workers > 0 {
            add("--workers", workers.to_string());
        }
        if *work && work_us > 0.0 {
            add("--work", format!("{}ns", (work_us * 1e3).round()));
            add("--work-mode", if wanted.work.sleep_us > 0.0 { "sleep" } else { "spin" }.to_owned());
        }
        text += &format!("[[target]]\nname = \"{at}\"\nmodel = \"{model}\"\nargs = {args:?}\n");
    }
    text
}

/// A run, and another where it fails: on a host with much else to do a short load can miss its own time.
fn look_again(bench: &Bench<'_>, load_cores: &CpuSet, key: &CellKey, dir: &Path) -> Result<Look, String> {
    let mut found = look(bench, load_cores, key, dir);
    for _ in 1..ATTEMPTS {
        if found.is_ok() || bench.cancel.is_set() {
            break;
        }
        found = look(bench, load_cores, key, dir);
    }
    found
}

fn look(bench: &Bench<'_>, load_cores: &CpuSet, key: &CellKey, dir: &Path) -> Result<Look, String> {
    let (mut beside_server, mut beside_load) =
        (Neighbours::on(&bench.server_cores), Neighbours::on(load_cores));
    let results::Measured { outcome, server: used, .. } = bench.measure(key, 0, dir, &mut |phase| {
        beside_server.look(phase);
        beside_load.look(phase);
    })?;
    if bench.cancel.is_set() {
        return Err("interrupted".into());
    }
    if outcome.answered() == 0 {
        return Err("no request was answered; is the work too long for so short a load?".into());
    }
    let figures = Figures {
        requests_per_second: outcome.requests_per_second,
        p99_us: outcome.response_time_us.p99.map(|p99| p99 as f64),
        cores: used.cpu_s / used.window_s.max(1e-9),
    };
    let client_us = outcome.client.cpu_us_per_request / f64::from(outcome.threads.max(1));
    let taken = beside_server
        .taken(used.cpu_s, used.window_s)
        .max(beside_load.taken(outcome.client.cpu_s, outcome.duration_s));
    Ok(Look { figures, server_us: used.cpu_us_per_request, client_us, taken })
}

/// The median of each figure, of the runs that nothing else disturbed if there are such.
fn middle(looks: &[Look]) -> Look {
    let quiet: Vec<Look> = looks.iter().filter(|look| look.taken <= MUCH).copied().collect();
    let looks = if quiet.is_empty() { looks } else { &quiet };
    let of = |figure: fn(&Look) -> f64| median(&looks.iter().map(figure).collect::<Vec<_>>()).unwrap_or(0.0);
    let p99: Vec<f64> = looks.iter().filter_map(|look| look.figures.p99_us).collect();
    Look {
        figures: Figures {
            requests_per_second: of(|look| look.figures.requests_per_second),
            p99_us: median(&p99),
            cores: of(|look| look.figures.cores),
        },
        server_us: of(|look| look.server_us),
        client_us: of(|look| look.client_us),
        taken: of(|look| look.taken),
    }
}

/// Costs from a reactor and a pool without business time, and from the same with it where it waits.
fn costs(looks: &[Look], wanted: &Wanted, cores: usize) -> Calibration {
    let least = |us: f64| us.max(LEAST_US);
    let (reactor_us, pool_us) = (looks[0].server_us, looks[1].server_us);
    let costs =
        Costs { reactor_us: least(reactor_us), handoff_us: least(pool_us - reactor_us), lock_us: 0.0 };
    let base = Calibration { cores, costs, client_us: looks[0].client_us, ..Calibration::default() };
    let Some([reactor, pool]) = looks.get(2..4) else { return base };
    let each_us = 1e6 / reactor.figures.requests_per_second;
    Calibration {
        reactor_sleep_us: least(reactor.server_us - reactor_us),
        worker_sleep_us: least(pool.server_us - pool_us),
        oversleep_us: (each_us - reactor.server_us - wanted.work.sleep_us).max(0.0),
        ..base
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::Work;

    fn wanted(work: Work) -> Wanted {
        Wanted {
            cores: vec![8],
            work,
            connections: 64,
            within: 0.25,
            quick: true,
            program: "/bin/plimsoll".into(),
            cancel: load::Switch::default(),
        }
    }

    fn seen(rate: f64, server_us: f64) -> Look {
        let figures = Figures { requests_per_second: rate, p99_us: None, cores: 1.0 };
        Look { figures, server_us, client_us: 4.0, taken: 0.0 }
    }

    #[test]
    fn the_trials_are_a_sound_experiment_and_every_model_is_checked() {
        for (work, count) in [
            (Work::default(), 8),
            (Work { spin_us: 200.0, ..Work::default() }, 8),
            (Work { sleep_us: 200.0, ..Work::default() }, 10),
        ] {
            let wanted = wanted(work);
            let trials = trials(&wanted, 1);
            assert_eq!(trials.len(), count);
            assert_eq!(Plan::parse(&plan(&wanted, &trials, 1), "predict").unwrap().targets.len(), count);
            let costing: Vec<&Shape> = trials[..count - 6].iter().map(|trial| &trial.shape).collect();
            // A check against the very runs that the costs are from would prove nothing.
            let checked = &trials[count - 6..];
            assert!(checked.iter().skip(1).all(|trial| trial.work && !costing.contains(&&trial.shape)));
        }
    }

    #[test]
    fn runs_that_were_disturbed_do_not_count_where_there_are_others() {
        let disturbed = |rate| Look { taken: 0.5, ..seen(rate, 9.0) };
        let rate = |looks: &[Look]| middle(looks).figures.requests_per_second;
        assert_eq!(rate(&[disturbed(10.0), seen(100.0, 5.0), disturbed(12.0)]), 100.0);
        assert_eq!(rate(&[disturbed(10.0), disturbed(12.0), disturbed(14.0)]), 12.0);
    }

    #[test]
    fn costs_are_differences_and_never_below_nothing() {
        let work = Work { sleep_us: 200.0, ..Work::default() };
        let looks = [seen(1e5, 5.0), seen(9e4, 6.0), seen(4_000.0, 25.0), seen(9e3, 16.0)];
        let found = costs(&looks, &wanted(work), 1);
        assert_eq!(found.costs, Costs { reactor_us: 5.0, handoff_us: 1.0, lock_us: 0.0 });
        assert_eq!((found.reactor_sleep_us, found.worker_sleep_us), (20.0, 10.0));
        // 250 us for each request: 25 of processor time, 200 asked for, 25 more.
        assert!((found.oversleep_us - 25.0).abs() < 1e-9);
        let noisy = costs(&[seen(1e5, 5.0), seen(1e5, 4.0)], &wanted(Work::default()), 1);
        assert_eq!((noisy.costs.handoff_us, noisy.oversleep_us), (LEAST_US, 0.0));
    }
}
