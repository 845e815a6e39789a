//! What each topology would do on hosts of other sizes: costs are measured on this one, the model of [`crate::simulate`]
//! does the rest, and it has to show first how well it predicts this host.

mod calibrate;
mod forecast;
mod neighbours;
mod text;

use std::path::PathBuf;

use engine::Model;
use engine::topology::Axis;
use load::Switch;
use serde::{Serialize, Serializer};

use crate::error::Error;
use crate::simulate::Costs;
use crate::stats::median;

pub use self::text::text;

/// The form of a prediction as JSON.
pub const SCHEMA: &str = "plimsoll.predict/1";

/// Longest business time, in microseconds: a longer one could not be measured in seconds.
pub const MOST_WORK_US: f64 = 100_000.0;

/// The models that are predicted: those with reactors on epoll.
const MODELS: [Model; 6] = [
    Model::Reactor,
    Model::ReactorPool,
    Model::MultiReactor,
    Model::MultiReactorPool,
    Model::ReusePort,
    Model::ReusePortPool,
];

/// What is to be predicted, and with what.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Numbers of cores of the hosts.
    pub cores: Vec<usize>,
    /// Business time of each request.
    pub work: Work,
    /// Connections of the load, each of which sends its next request after the last answer.
    pub connections: u32,
    /// Largest error on this host, relative, with which anything is predicted.
    pub within: f64,
    /// Measure each topology once and shortly, instead of three times.
    pub quick: bool,
    /// The program that serves our models: this one.
    pub program: PathBuf,
    /// Ends the measurements.
    pub cancel: Switch,
}

/// Business time of a request, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Work {
    /// Time in which the thread waits.
    pub sleep_us: f64,
    /// Time in which the thread computes.
    pub spin_us: f64,
}

/// A prediction.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Business time of each request.
    pub work: Work,
    /// Connections of the load.
    pub connections: u32,
    /// What was measured on this host.
    pub calibration: Calibration,
    /// What the model says of this host beside what was measured.
    pub checks: Vec<Check>,
    /// Median of the errors of the throughput, relative.
    pub median_error: f64,
    /// Largest error with which a model is predicted, relative.
    pub within: f64,
    /// Models whose error on this host is larger, and which are not predicted.
    #[serde(serialize_with = "names")]
    pub refused: Vec<Model>,
    /// The predictions, by number of cores.
    pub forecasts: Vec<Forecast>,
}

/// What was measured on this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Calibration {
    /// Cores of the server.
    pub cores: usize,
    /// Costs of a request.
    pub costs: Costs,
    /// What a request costs the load, over all its threads, in microseconds.
    pub client_us: f64,
    /// How long the sleep of a reactor lasts beyond what was asked for, in microseconds.
    pub oversleep_us: f64,
    /// Processor time that sleeping costs a reactor, in microseconds.
    pub reactor_sleep_us: f64,
    /// Processor time that sleeping costs a worker, in microseconds.
    pub worker_sleep_us: f64,
}

/// A topology: a model and its numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shape {
    /// The model, by its name.
    #[serde(serialize_with = "name")]
    pub model: Model,
    /// Reactors.
    pub reactors: usize,
    /// Workers of each pool; 0 for none.
    pub workers: usize,
}

fn name<S: Serializer>(model: &Model, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(model.name())
}

fn names<S: Serializer>(models: &[Model], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(models.iter().map(|model| model.name()))
}

/// A topology on this host, measured and predicted.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The topology.
    pub shape: Shape,
    /// What was measured.
    pub measured: Figures,
    /// What the model says.
    pub predicted: Figures,
    /// Predicted over measured throughput, less 1.
    pub error: f64,
    /// The same of the p99, if enough requests were measured for one.
    pub p99_error: Option<f64>,
    /// Largest share of the server's or of the load's cores that something else took meanwhile, 0 to 1.
    pub taken: f64,
}

/// A server under load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Answers per second.
    pub requests_per_second: f64,
    /// Response time that 99 of 100 requests keep, in microseconds; `None` where too few were measured for it, or where its
    /// prediction does not hold on this host.
    pub p99_us: Option<f64>,
    /// Cores in use.
    pub cores: f64,
}

/// A topology on a host of some size.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// Cores of the host, all of them the server's.
    pub cores: usize,
    /// The topology.
    pub shape: Shape,
    /// What the model says.
    pub predicted: Figures,
    /// What keeps it from more.
    pub bottleneck: Bottleneck,
    /// Whether the number of workers is the best that was tried, instead of the model's own.
    pub tuned: bool,
}

/// What keeps a server from answering more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bottleneck {
    /// All cores are in use.
    Cores,
    /// A reactor always has something to do.
    Reactors,
    /// All workers are busy.
    Workers,
    /// Nothing is: more connections would get more.
    Connections,
}

/// Measures this host, checks the model against it, and predicts.
///
/// # Errors
/// This host has too few cores for a server and a load side by side, or a server could not be measured.
pub fn predict(wanted: &Wanted, progress: &mut dyn FnMut(usize, usize, &str)) -> Result<Prediction, Error> {
    let refuse = |problem| Error::Plan { file: "predict".into(), problem };
    let (calibration, measured) = calibrate::measure(wanted, progress)?;
    let check = |(shape, measured, taken): calibrate::Measured| {
        let model = forecast::on_this_host(wanted, &calibration, &shape)?;
        let off = |predicted: f64, measured: f64| predicted / measured - 1.0;
        let p99_error = model.p99_us.zip(measured.p99_us).map(|(model, real)| off(model, real));
        let error = off(model.requests_per_second, measured.requests_per_second);
        Ok(Check { shape, measured, predicted: model, error, p99_error, taken })
    };
    let checks: Vec<Check> =
        measured.into_iter().map(check).collect::<Result<_, String>>().map_err(refuse)?;
    // The single reactor is what the costs are taken from, so that it is right proves nothing.
    let proves = |check: &&Check| check.shape.model != Model::Reactor;
    let errors: Vec<f64> = checks.iter().filter(proves).map(|check| check.error.abs()).collect();
    let mut forecasts = Vec::new();
    for &cores in &wanted.cores {
        for check in checks.iter().filter(|check| check.holds(wanted.within)) {
            let mut of_model =
                forecast::of(wanted, &calibration, check.shape.model, cores).map_err(refuse)?;
            if check.p99_is_off(wanted.within) {
                of_model.iter_mut().for_each(|forecast| forecast.predicted.p99_us = None);
            }
            forecasts.extend(of_model);
        }
    }
    let refused = checks.iter().filter(|check| !check.holds(wanted.within));
    Ok(Prediction {
        schema: SCHEMA,
        work: wanted.work,
        connections: wanted.connections,
        calibration,
        median_error: median(&errors).unwrap_or(0.0),
        within: wanted.within,
        refused: refused.map(|check| check.shape.model).collect(),
        checks,
        forecasts,
    })
}

impl Check {
    /// Whether the model is right about this topology, within a relative error.
    fn holds(&self, within: f64) -> bool {
        self.error.abs() <= within
    }

    /// Whether its p99 was compared with the measured one, and is further off than that.
    fn p99_is_off(&self, within: f64) -> bool {
        self.p99_error.is_some_and(|error| error.abs() > within)
    }
}
