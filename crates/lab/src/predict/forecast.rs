//! The model asked: a topology on this host, for a check, or on a host of any size.

use engine::topology::MOST_WORKERS;
use engine::{Model, Topology};

use super::{Bottleneck, Calibration, Figures, Forecast, Shape, Wanted};
use crate::simulate::{Law, Load, Outcome, Route, Setup, simulate};

/// Requests of a run of the model, and of a quick one.
const REQUESTS: (f64, f64) = (60_000.0, 12_000.0);

/// Most numbers of workers that are tried, each twice the last.
const TRIED: usize = 7;

/// How much more another number of workers must get to be named, relative.
const BETTER: f64 = 0.03;

/// A share of the time from which something counts as always busy.
const BUSY: f64 = 0.95;

/// What the model says of a topology on this host, with a load that has its own costs.
///
/// # Errors
/// What cannot be modelled, in words.
pub(super) fn on_this_host(wanted: &Wanted, known: &Calibration, shape: &Shape) -> Result<Figures, String> {
    let row = shape.model.row(known.cores, wanted.connections as usize);
    let topology = Topology { reactors: shape.reactors, workers: shape.workers, ..row };
    Ok(figures(&run(wanted, known, topology, known.cores, known.client_us)?, known.cores))
}

/// A model on a host of some size, in its own numbers, and with the best number of workers where that is another.
///
/// # Errors
/// What cannot be modelled, in words.
pub(super) fn of(
    wanted: &Wanted,
    known: &Calibration,
    model: Model,
    cores: usize,
) -> Result<Vec<Forecast>, String> {
    let own = model.row(cores, wanted.connections as usize);
    let ask = |workers, tuned| {
        let shape = Shape { model, reactors: own.reactors, workers };
        let outcome = run(wanted, known, Topology { workers, ..own }, cores, 0.0)?;
        let predicted = figures(&outcome, cores);
        Ok::<_, String>(Forecast { cores, shape, predicted, bottleneck: bottleneck(&outcome), tuned })
    };
    let mut forecasts = vec![ask(own.workers, false)?];
    let rate = |forecast: &Forecast| forecast.predicted.requests_per_second;
    let mut best: Option<Forecast> = None;
    for workers in tried(&own, wanted.connections as usize) {
        let next = ask(workers, true)?;
        // Fewer workers are better unless more get more.
        let least = best.as_ref().map_or(rate(&forecasts[0]), rate) * (1.0 + BETTER);
        if rate(&next) > least {
            best = Some(next);
        }
    }
    forecasts.extend(best);
    Ok(forecasts)
}

/// Numbers of workers to try for each pool beside the model's own: half of that, and then twice as many each time, up to a worker
/// for each connection.
fn tried(own: &Topology, connections: usize) -> Vec<usize> {
    let pools = own.pools();
    if pools == 0 {
        return Vec::new();
    }
    let most = (connections / pools).clamp(1, MOST_WORKERS);
    let first = (own.workers / 2).max(1);
    let doubled = std::iter::successors(Some(first), |workers| Some(workers * 2));
    doubled
        .take(TRIED)
        .take_while(|workers| *workers <= most)
        .filter(|workers| *workers != own.workers)
        .collect()
}

fn run(
    wanted: &Wanted,
    known: &Calibration,
    topology: Topology,
    cores: usize,
    client_us: f64,
) -> Result<Outcome, String> {
    let on_reactor = topology.pools() == 0;
    let sleeps = wanted.work.sleep_us > 0.0;
    let sleep_us = if sleeps { wanted.work.sleep_us + known.oversleep_us } else { 0.0 };
    // Sleeping is a system call and two switches of the thread.
    let sleeping_us = if on_reactor { known.reactor_sleep_us } else { known.worker_sleep_us };
    let spin_us = wanted.work.spin_us + if sleeps { sleeping_us } else { 0.0 };
    let handoff_us = if on_reactor { 0.0 } else { known.costs.handoff_us };
    let cpu_us = known.costs.reactor_us + handoff_us + spin_us;
    // No more than this can be answered, so that the run has about as many requests as it should.
    let threads = topology.handlers() as f64;
    let each_us = sleep_us + spin_us;
    let most = (cores as f64 / cpu_us).min(threads / each_us.max(1e-9));
    let most = most.min(f64::from(wanted.connections) / (each_us + cpu_us)) * 1e6;
    let requests = if wanted.quick { REQUESTS.1 } else { REQUESTS.0 };
    let connections = wanted.connections as usize;
    // At the start all connections send at once: each has had some answers before anything is counted.
    let warmup_s = (requests / 5.0).max(4.0 * connections as f64) / most;
    simulate(&Setup {
        seed: 1,
        seconds: requests / most,
        warmup_s,
        cores: cores as f64,
        load_share: 0.0,
        topology,
        costs: known.costs,
        load: Load::Closed { connections, think_us: 0.0, client_us },
        mix: vec![Route { share: 1.0, sleep_us, spin_us, law: Law::Constant }],
        change: None,
    })
}

fn figures(outcome: &Outcome, cores: usize) -> Figures {
    Figures {
        requests_per_second: outcome.throughput,
        p99_us: Some(outcome.p99_us),
        cores: outcome.cores_busy * cores as f64,
    }
}

fn bottleneck(outcome: &Outcome) -> Bottleneck {
    match outcome {
        _ if outcome.cores_busy >= BUSY => Bottleneck::Cores,
        _ if outcome.workers_busy >= BUSY => Bottleneck::Workers,
        _ if outcome.busiest_reactor >= BUSY => Bottleneck::Reactors,
        _ => Bottleneck::Connections,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::Work;
    use crate::simulate::Costs;

    fn wanted(work: Work) -> Wanted {
        Wanted {
            cores: Vec::new(),
            work,
            connections: 256,
            within: 0.25,
            quick: true,
            program: "plimsoll".into(),
            cancel: load::Switch::default(),
        }
    }

    fn known() -> Calibration {
        let costs = Costs { reactor_us: 5.0, handoff_us: 1.0, lock_us: 0.0 };
        Calibration { cores: 1, costs, client_us: 20.0, worker_sleep_us: 4.0, ..Calibration::default() }
    }

    #[test]
    fn more_cores_get_more_from_a_reactor_each_and_nothing_from_a_single_one() {
        let rates = |model: Model| {
            let rate = |cores| {
                let found = of(&wanted(Work::default()), &known(), model, cores).unwrap();
                (found[0].predicted.requests_per_second, found[0].bottleneck)
            };
            [1, 2, 8, 64].map(rate)
        };
        let spread = rates(Model::ReusePort);
        assert!(spread.is_sorted_by(|(a, _), (b, _)| *b > *a * 1.5), "{spread:?}");
        assert!((spread[0].0 / 200_000.0 - 1.0).abs() < 0.01 && spread[0].1 == Bottleneck::Cores);
        let single = rates(Model::Reactor);
        assert!(single.iter().all(|(rate, _)| (rate / 200_000.0 - 1.0).abs() < 0.01), "{single:?}");
        assert_eq!(single[3].1, Bottleneck::Reactors);
    }

    #[test]
    fn where_work_waits_more_workers_than_cores_are_found_to_be_better() {
        let work = Work { sleep_us: 1_000.0, ..Work::default() };
        let found = of(&wanted(work), &known(), Model::ReactorPool, 4).unwrap();
        let [own, best] = &found[..] else { panic!("{found:?}") };
        assert_eq!((own.shape.workers, own.tuned, own.bottleneck), (4, false, Bottleneck::Workers));
        assert!((own.predicted.requests_per_second / 4_000.0 - 1.0).abs() < 0.02, "{own:?}");
        assert!(best.tuned && best.shape.workers > 64, "{best:?}");
        assert!(best.predicted.requests_per_second > 20.0 * own.predicted.requests_per_second, "{best:?}");
    }

    #[test]
    fn from_half_of_the_models_own_number_of_workers_each_that_is_tried_is_twice_the_last() {
        let tried_on = |model: Model, cores, connections| tried(&model.row(cores, 256), connections);
        assert_eq!(tried_on(Model::ReactorPool, 4, 256), [2, 8, 16, 32, 64, 128]);
        assert_eq!(tried_on(Model::ReactorPool, 1, 5), [2, 4]);
        assert_eq!(tried_on(Model::MultiReactorPool, 4, 64), [2, 8, 16], "of 16 connections for each pool");
        assert_eq!(tried_on(Model::Reactor, 4, 256), [0; 0]);
    }

    #[test]
    fn on_this_host_the_load_may_be_the_limit() {
        let shape = Shape { model: Model::Reactor, reactors: 1, workers: 0 };
        let found = on_this_host(&wanted(Work::default()), &known(), &shape).unwrap();
        assert!((found.requests_per_second / 50_000.0 - 1.0).abs() < 0.01, "{found:?}");
    }
}
