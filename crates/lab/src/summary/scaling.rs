//! How the rate grows with connections, and with each factor that is a number: knees, and the Universal Scalability Law
//! where it holds.

use std::collections::BTreeMap;

use load::Arrivals;

use super::Slack;
use crate::fit::{Bend, FEWEST, bend, usl};
use crate::key::CellKey;
use crate::plan::Metric;
use crate::report::number;
use crate::results::{Cell, Results, Run};

/// Least share of the resamples that must bend for a bend to be stated.
const SURE: f64 = 0.95;

/// A sentence for each curve with levels enough.
pub(super) fn sentences(results: &Results) -> Vec<String> {
    let mut curves = BTreeMap::<(String, String), Vec<(f64, &Cell)>>::new();
    // What comes at times of its own has the rate that was asked for.
    for cell in results.cells.iter().filter(|cell| is_closed(results, cell)) {
        let others = CellKey { connections: 0, ..cell.key.clone() };
        let title = format!("{}, {}", others.contender(), others.circumstances());
        curves
            .entry((title, "connections".into()))
            .or_default()
            .push((f64::from(cell.key.connections), cell));
        for (name, level) in &cell.key.setting {
            let Ok(level) = level.parse::<f64>() else { continue };
            curves.entry((without(cell, name), name.clone())).or_default().push((level, cell));
        }
    }
    let long = curves.into_iter().filter(|(_, points)| points.len() >= FEWEST);
    long.map(|((title, name), mut points)| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        sentence(results, &title, &name, &points)
    })
    .collect()
}

/// Whether requests wait for answers in all runs of a cell, so that its rate is what the server answers.
fn is_closed(results: &Results, cell: &Cell) -> bool {
    let arrivals = |run: &Run| Some(run.outcome.as_ref()?.plan.arrivals.clone());
    results.sound(&cell.key).filter_map(arrivals).all(|arrivals| matches!(arrivals, Arrivals::Closed { .. }))
}

/// A cell in words, but for one factor.
fn without(cell: &Cell, name: &str) -> String {
    let mut key = cell.key.clone();
    key.setting.remove(name);
    let connections = key.connections;
    format!("{}, {}, {connections} connections", key.contender(), key.circumstances())
}

fn sentence(results: &Results, title: &str, name: &str, cells: &[(f64, &Cell)]) -> String {
    let rounds: Vec<(f64, Vec<f64>)> =
        cells.iter().map(|(level, cell)| (*level, results.values(&cell.key, Run::rate))).collect();
    let bend = bend(&rounds, results.seed)
        .map_or(format!("the rate does not bend over {name}"), |bend| bent(bend, name));
    let points: Vec<(f64, f64)> =
        cells.iter().map(|(level, cell)| (*level, cell.requests_per_second.median)).collect();
    let law = law(&points, results.seed);
    let of_load =
        cells.iter().filter(|(_, cell)| Slack::of(results, cell, Metric::RequestsPerSecond).more).count();
    let whose = match of_load {
        0 => String::new(),
        _ => format!(
            "; at {of_load} of {} levels the load was at its own limit, so this is of both and not of the server alone",
            cells.len()
        ),
    };
    format!("{title}: {bend}; {law}{whose}.")
}

/// What the Universal Scalability Law says of some points.
fn law(points: &[(f64, f64)], seed: u64) -> String {
    match usl(points, seed) {
        Ok(law) => format!(
            "by the Universal Scalability Law (contention {:.3}, coherency {:.5}, {:.0} % explained) it is highest at {} \
             [{} to {}]",
            law.alpha,
            law.beta,
            law.r2 * 100.0,
            number(law.peak.0),
            number(law.peak.1),
            number(law.peak.2)
        ),
        Err(why) => format!("no scalability law: {why}"),
    }
}

/// A bend with its interval; one that is not in nearly all resamples of the rounds may be none.
fn bent(Bend { at, interval, share }: Bend, name: &str) -> String {
    let ends =
        interval.map_or(" [n/a]".into(), |(low, high)| format!(" [{} to {}]", number(low), number(high)));
    let at = number(at);
    match share {
        share if share < SURE => format!(
            "the rate may bend at {at}{ends} {name}, but does not in {:.0} % of the resamples",
            (1.0 - share) * 100.0
        ),
        _ => format!("the rate bends at {at}{ends} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::plan::Plan;

    #[test]
    fn a_curve_with_levels_enough_gets_a_sentence() {
        let mut results = fake::results(&[], 0, |_, _| (0.0, 0.0));
        let plan = Plan { connections: vec![1, 2, 4, 8, 16, 32, 64], ..fake::plan(&["a"], "") };
        for cell in plan.cells() {
            let n = f64::from(cell.connections);
            let rate = 1000.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.002 * n * (n - 1.0));
            let found = fake::measured(&cell, rate, 10.0);
            results.runs.push(fake::run(cell, found));
        }
        super::super::summarise(&mut results, &plan);
        let said = sentences(&results);
        // sqrt(0.95 / 0.002) = 21.8.
        assert!(said.len() == 1 && said[0].contains("it is highest at 21.8"), "{said:?}");
        assert!(said[0].contains("the rate bends at 16.0 [n/a] connections"), "one round: {said:?}");
        assert!(results.findings.contains(&said[0]));
    }

    /// Sentences of seven numbers of connections at 1,000 requests per second.
    fn level(change: impl Fn(&mut load::Outcome)) -> Vec<String> {
        let mut results = fake::results(&[], 0, |_, _| (0.0, 0.0));
        let plan = Plan { connections: vec![1, 2, 4, 8, 16, 32, 64], ..fake::plan(&["a"], "") };
        for cell in plan.cells() {
            let (mut outcome, server) = fake::measured(&cell, 1_000.0, 10.0);
            change(&mut outcome);
            results.runs.push(fake::run(cell, (outcome, server)));
        }
        super::super::summarise(&mut results, &plan);
        sentences(&results)
    }

    #[test]
    fn a_rate_that_was_asked_for_is_no_curve_of_the_server() {
        let said = level(|outcome| {
            outcome.plan.arrivals = Arrivals::Open {
                rate: load::Rate::Steady { rate: 1_000.0 },
                spacing: load::Spacing::Poisson,
                seed: 1,
                session: None,
            };
        });
        assert!(said.is_empty(), "{said:?}");
    }

    #[test]
    fn a_curve_of_a_load_at_its_limit_is_called_that() {
        let said = level(|outcome| outcome.client.busiest_thread_share = 0.95);
        assert!(said[0].ends_with("at 7 of 7 levels the load was at its own limit, so this is of both and not of the server alone."), "{said:?}");
        assert!(!level(|_| {})[0].contains("limit"));
    }
}
