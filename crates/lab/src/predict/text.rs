//! A prediction for people: what was measured, how well it is predicted, and what to expect.

use engine::Model;
use engine::topology::Axis;

use super::calibrate::MUCH;
use super::{Bottleneck, Check, Forecast, Prediction, Shape};
use crate::report::{columns, counted, number};

/// A prediction as text.
pub fn text(prediction: &Prediction) -> String {
    let known = &prediction.calibration;
    let mut text = format!(
        "On {} of this host a request costs {} us of processor time, and handing it to a worker {} us more.\n",
        counted(known.cores, "core"),
        number(known.costs.reactor_us),
        number(known.costs.handoff_us)
    );
    text += "\nThis host, predicted and measured:\n\n";
    text += &table(
        ["topology", "predicted/s", "measured/s", "error", "p99 error", "cores used", "taken"],
        prediction.checks.iter().map(check_row).collect(),
    );
    text += &format!(
        "\nMedian error: {}. {}\n",
        percent(prediction.median_error),
        match prediction.refused.as_slice() {
            [] => format!("All are within {}.", percent(prediction.within)),
            refused => format!(
                "Not predicted, because the error is above {}: {}.",
                percent(prediction.within),
                names(refused)
            ),
        }
    );
    let taken = prediction.checks.iter().map(|check| check.taken).fold(0.0, f64::max);
    if taken > MUCH {
        text += &format!(
            "Something else took up to {} of the cores of the server or of the load meanwhile, which the model knows nothing \
             of: try again on a quiet host.\n",
            percent(taken)
        );
    }
    if prediction.forecasts.is_empty() {
        return text + "\nNothing can be predicted from this host as it is now.\n";
    }
    text += &format!("\n{} connections, predicted:\n\n", prediction.connections);
    text += &table(
        ["cores", "topology", "requests/s", "p99", "cores used", "bottleneck", "workers are"],
        prediction.forecasts.iter().map(forecast_row).collect(),
    );
    text += &p99_doubts(prediction);
    text + &expectation(prediction)
}

/// Where a p99 is left out, and where it has not been compared with anything.
fn p99_doubts(prediction: &Prediction) -> String {
    let is_there = |check: &&Check| !prediction.refused.contains(&check.shape.model);
    let models = |which: &dyn Fn(&Check) -> bool| -> Vec<Model> {
        let those = prediction.checks.iter().filter(is_there).filter(|check| which(check));
        those.map(|check| check.shape.model).collect()
    };
    let mut text = String::from("\n");
    let wrong = models(&|check| check.p99_is_off(prediction.within));
    if !wrong.is_empty() {
        let within = percent(prediction.within);
        text += &format!("No p99, because its error here is above {within}: {}.\n", names(&wrong));
    }
    let unknown = models(&|check| check.p99_error.is_none());
    if !unknown.is_empty() {
        text += &format!("Too few requests were measured to check the p99 of {}.\n", names(&unknown));
    }
    text
}

fn names(models: &[Model]) -> String {
    models.iter().map(|model| model.name()).collect::<Vec<_>>().join(", ")
}

/// One sentence on what to expect, and what limits it.
fn expectation(prediction: &Prediction) -> String {
    let rate = |forecast: &&Forecast| forecast.predicted.requests_per_second;
    let most = prediction.forecasts.iter().map(|forecast| forecast.cores).max().unwrap_or(0);
    let there = prediction.forecasts.iter().filter(|forecast| forecast.cores == most);
    let Some(best) = there.max_by(|a, b| rate(a).total_cmp(&rate(b))) else { return String::new() };
    let limit = match best.bottleneck {
        Bottleneck::Cores => "its cores",
        Bottleneck::Reactors => "its busiest reactor",
        Bottleneck::Workers => "its workers",
        Bottleneck::Connections => "the number of connections",
    };
    format!(
        "Expect the most on {most} cores from {}: about {} requests per second, limited by {limit}.\n\
         This holds as far as cores are alike and independent: no NUMA, no limit of the network card, of memory bandwidth \
         or of shared locks, the loopback's cost per request, and a load that is never the limit.\n",
        name(&best.shape),
        number(best.predicted.requests_per_second)
    )
}

fn name(Shape { model, reactors, workers }: &Shape) -> String {
    let reactors = counted(*reactors, "reactor");
    match workers {
        0 => format!("{model} ({reactors})"),
        _ => format!("{model} ({reactors}, {})", counted(*workers, "worker")),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn check_row(check: &Check) -> [String; 7] {
    let signed = |error: f64| format!("{:+.0} %", error * 100.0);
    [
        name(&check.shape),
        number(check.predicted.requests_per_second),
        number(check.measured.requests_per_second),
        signed(check.error),
        check.p99_error.map_or("n/a".into(), signed),
        number(check.measured.cores),
        percent(check.taken),
    ]
}

fn forecast_row(forecast: &Forecast) -> [String; 7] {
    let Forecast { cores, shape, predicted, bottleneck, tuned } = forecast;
    let workers = match (shape.workers, tuned) {
        (0, _) => "",
        (_, true) => "the best tried",
        (_, false) => "the model's",
    };
    [
        cores.to_string(),
        name(shape),
        number(predicted.requests_per_second),
        predicted.p99_us.map_or("n/a".into(), |us| format!("{} us", number(us))),
        number(predicted.cores),
        format!("{bottleneck:?}").to_lowercase(),
        workers.into(),
    ]
}

/// Rows below a head; the first one shows which columns are of numbers.
fn table<const N: usize>(head: [&str; N], rows: Vec<[String; N]>) -> String {
    let rows: Vec<[String; N]> = std::iter::once(head.map(String::from)).chain(rows).collect();
    let is_number = |column: usize| {
        rows.get(1)
            .is_some_and(|row| row[column].starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c)))
    };
    columns(&rows, is_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::{Calibration, Figures, SCHEMA, Work};

    fn check(model: Model, error: f64, p99_error: Option<f64>) -> Check {
        let shape = Shape { model, reactors: 2, workers: 0 };
        let side = |rate| Figures { requests_per_second: rate, p99_us: None, cores: 1.0 };
        let predicted = side(1_000.0 * (1.0 + error));
        Check { shape, measured: side(1_000.0), predicted, error, p99_error, taken: 0.0 }
    }

    fn prediction(checks: Vec<Check>, refused: &[Model], forecasts: Vec<Forecast>) -> Prediction {
        Prediction {
            schema: SCHEMA,
            work: Work::default(),
            connections: 64,
            calibration: Calibration { cores: 1, ..Calibration::default() },
            checks,
            median_error: 0.1,
            within: 0.25,
            refused: refused.to_vec(),
            forecasts,
        }
    }

    #[test]
    fn what_is_too_far_off_is_named_and_nothing_is_said_of_it() {
        let text =
            text(&prediction(vec![check(Model::ReusePort, 0.4, Some(0.1))], &[Model::ReusePort], Vec::new()));
        assert!(text.contains("Not predicted, because the error is above 25 %: reuseport."), "{text}");
        assert!(text.ends_with("Nothing can be predicted from this host as it is now.\n"), "{text}");
        assert!(!text.contains("Something else took"), "{text}");
    }

    #[test]
    fn models_are_written_down_by_their_names() {
        let found = prediction(vec![check(Model::ReusePort, 0.4, None)], &[Model::ReusePort], Vec::new());
        let json = serde_json::to_value(found).unwrap();
        assert_eq!(
            (&json["checks"][0]["shape"]["model"], &json["refused"][0]),
            (&"reuseport".into(), &"reuseport".into())
        );
    }

    #[test]
    fn what_to_expect_is_the_most_on_the_largest_host_with_its_limits() {
        let forecast = |cores, rate, bottleneck| Forecast {
            cores,
            shape: Shape { model: Model::ReusePort, reactors: cores, workers: 0 },
            predicted: Figures { requests_per_second: rate, p99_us: None, cores: 1.0 },
            bottleneck,
            tuned: false,
        };
        let forecasts = vec![forecast(8, 9e4, Bottleneck::Connections), forecast(16, 8e4, Bottleneck::Cores)];
        let mut found = prediction(vec![check(Model::ReusePort, 0.1, Some(-0.9))], &[], forecasts);
        found.checks[0].taken = 0.3;
        let text = text(&found);
        for part in [
            "All are within 25 %.",
            "No p99, because its error here is above 25 %: reuseport.",
            "Something else took up to 30 % of the cores",
            "Expect the most on 16 cores from reuseport (16 reactors): about 80,000 requests per second, limited by its cores.",
            "no NUMA",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
