//! Where the bounds of closed loops meet, and which queue an open one is like.

use std::collections::BTreeMap;

use load::{Arrivals, Outcome, Spacing};

use crate::key::CellKey;
use crate::queue::{FEWEST, SENSITIVE, bounds, mmc};
use crate::report::{counted, number};
use crate::results::{Cell, Results, Run};
use crate::stats::median;

/// A sentence for each curve with levels enough.
pub(super) fn sentences(results: &Results) -> Vec<String> {
    let mut sentences = closed(results);
    sentences.extend(open(results));
    sentences
}

/// The load of a cell, as its first run had it.
fn arrivals<'a>(results: &'a Results, cell: &'a Cell) -> Option<&'a Arrivals> {
    Some(&results.sound(&cell.key).next()?.outcome.as_ref()?.plan.arrivals)
}

/// Median over the rounds of a figure of the load.
fn over_rounds(results: &Results, cell: &Cell, get: impl Fn(&Outcome) -> Option<f64>) -> Option<f64> {
    median(&results.values(&cell.key, |run: &Run| get(run.outcome.as_ref()?)))
}

fn response_s(outcome: &Outcome) -> Option<f64> {
    Some(outcome.response_time_us.mean / 1e6).filter(|seconds| *seconds > 0.0)
}

fn closed(results: &Results) -> Vec<String> {
    let mut curves = BTreeMap::<CellKey, Vec<(&Cell, f64)>>::new();
    for cell in &results.cells {
        if let Some(Arrivals::Closed { think_s }) = arrivals(results, cell) {
            let others = CellKey { connections: 0, ..cell.key.clone() };
            curves.entry(others).or_default().push((cell, *think_s));
        }
    }
    // Of each target the setting with the highest rate is told of: there may be many.
    let mut best = BTreeMap::<CellKey, (f64, (CellKey, Vec<(&Cell, f64)>))>::new();
    for (key, cells) in curves.into_iter().filter(|(_, cells)| cells.len() >= FEWEST) {
        let most = cells.iter().map(|(cell, _)| cell.requests_per_second.median).fold(0.0, f64::max);
        let target = key.without_setting();
        if best.get(&target).is_none_or(|(known, _)| most > *known) {
            best.insert(target, (most, (key, cells)));
        }
    }
    best.into_values().filter_map(|(_, (key, cells))| bounded(results, &key, cells)).collect()
}

/// The bounds of a closed loop, in a sentence.
fn bounded(results: &Results, key: &CellKey, mut cells: Vec<(&Cell, f64)>) -> Option<String> {
    cells.sort_by_key(|(cell, _)| cell.key.connections);
    let (lowest, think_s) = cells[0];
    let turn_s = over_rounds(results, lowest, response_s)? + think_s;
    let points: Vec<(f64, f64)> = cells
        .iter()
        .map(|(cell, _)| (f64::from(cell.key.connections), cell.requests_per_second.median))
        .collect();
    let title = format!("{}, {}", key.contender(), key.circumstances());
    Some(match bounds(&points, turn_s) {
        Ok(found) => {
            // There waiting is not yet a must, and happens: no level is further below its bound.
            let nearest = points.iter().min_by(|a, b| {
                let far = |point: &(f64, f64)| (point.0 / found.meet).ln().abs();
                far(a).total_cmp(&far(b))
            });
            let (clients, rate) = nearest.copied().unwrap_or_default();
            format!(
                "{title}: a turn takes {} us without waiting, so up to {} connections need not wait for each other \
                     and more of them must, at {} requests per second; at {} the rate is {:.0} % of that bound.",
                number(found.turn_s * 1e6),
                number(found.meet),
                number(found.most),
                number(clients),
                rate / found.at(clients) * 100.0
            )
        }
        Err(why) => format!("{title}: no bounds of the closed loop: {why}."),
    })
}

fn open(results: &Results) -> Vec<String> {
    let mut curves = BTreeMap::<(CellKey, String), Vec<(f64, f64)>>::new();
    for cell in &results.cells {
        let is_random = |arrivals: &&Arrivals| {
            matches!(arrivals, Arrivals::Open { spacing: Spacing::Poisson, session: None, .. })
                && arrivals.is_level()
        };
        let Some(_) = arrivals(results, cell).filter(is_random) else { continue };
        let due = |outcome: &Outcome| Some(outcome.offered.as_ref()?.due_per_second);
        let (Some(due), Some(response)) =
            (over_rounds(results, cell, due), over_rounds(results, cell, response_s))
        else {
            continue;
        };
        // More than is served is a queue that grows as long as the load lasts.
        if cell.requests_per_second.median < 0.98 * due {
            continue;
        }
        for name in cell.key.condition.keys() {
            let mut others = cell.key.clone();
            others.condition.remove(name);
            curves.entry((others, name.clone())).or_default().push((due, response));
        }
    }
    let spread = |points: &[(f64, f64)]| {
        let rates = || points.iter().map(|(rate, _)| *rate);
        rates().fold(0.0, f64::max) > 1.5 * rates().fold(f64::MAX, f64::min)
    };
    let of_rates = curves.into_iter().filter(|(_, points)| points.len() >= FEWEST && spread(points));
    of_rates
        .map(|((key, _), points)| like(&format!("{}, {}", key.contender(), key.load()), &points))
        .collect()
}

/// What queue these mean response times at rates are like, in a sentence.
fn like(title: &str, points: &[(f64, f64)]) -> String {
    match mmc(points) {
        Ok(found) => {
            let sensitive = if found.busiest > SENSITIVE {
                format!(
                    ", and {:.0} % busy at the highest rate, where small errors become large",
                    found.busiest * 100.0
                )
            } else {
                String::new()
            };
            format!(
                "{title}: like a queue M/M/c of {} with {} us each, whose mean response time is {:.0} % off in \
                 the median of {} rates; it would be full at {} requests per second{sensitive}.",
                counted(found.servers as usize, "server"),
                number(found.service_s * 1e6),
                found.off * 100.0,
                points.len(),
                number(found.capacity())
            )
        }
        Err(why) => format!("{title}: not like a queue M/M/c: {why}."),
    }
}

#[cfg(test)]
mod tests {
    use load::Offered;

    use super::*;
    use crate::fake;
    use crate::plan::Plan;
    use crate::queue;

    fn findings(
        plan: &Plan,
        measure: impl Fn(&CellKey) -> (Outcome, load::sample::ServerUse),
    ) -> Vec<String> {
        let mut results = fake::results(&[], 0, |_, _| (0.0, 0.0));
        for cell in plan.cells() {
            let found = measure(&cell);
            results.runs.push(fake::run(cell, found));
        }
        super::super::summarise(&mut results, plan);
        let said = sentences(&results);
        assert!(said.iter().all(|sentence| results.findings.contains(sentence)));
        said
    }

    #[test]
    fn a_closed_loop_is_told_by_its_bounds() {
        let plan = Plan { connections: vec![1, 2, 8, 32, 64], ..fake::plan(&["a"], "") };
        let rate = |cell: &CellKey| (f64::from(cell.connections) / 0.008).min(1000.0);
        let said = findings(&plan, |cell| fake::measured(cell, rate(cell), 10.0));
        assert_eq!(
            said,
            [
                "a, /: a turn takes 8,000 us without waiting, so up to 8.00 connections need not wait for each other and more \
              of them must, at 1,000 requests per second; at 8.00 the rate is 100 % of that bound."
            ]
        );
    }

    /// A server of four workers that take 10 ms each, at a rate; what is more than 380 it does not keep up with.
    fn at_rate(cell: &CellKey) -> (Outcome, load::sample::ServerUse) {
        let due: f64 = cell.condition["rate"].parse().unwrap();
        let (mut outcome, server) = fake::measured(cell, due.min(385.0), 10.0);
        outcome.plan.arrivals = Arrivals::Open {
            rate: cell.condition["rate"].parse().unwrap(),
            spacing: Spacing::Poisson,
            seed: 1,
            session: None,
        };
        outcome.offered = Some(Offered { due_per_second: due, ..Offered::default() });
        outcome.response_time_us.mean = queue::response_s(4, 0.01, due).unwrap_or(3.0) * 1e6;
        (outcome, server)
    }

    #[test]
    fn an_open_loop_is_told_by_the_queue_it_is_like() {
        let rates = "[load]\nrate = \"{rate}\"\n[factor]\nrate = [100, 200, 300, 340, 370, 800]";
        let plan = Plan { connections: vec![64], ..fake::plan(&["a"], rates) };
        let said = findings(&plan, at_rate);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with(
                "a, 64 connections, /: like a queue M/M/c of 4 servers with 10,000 us each, whose mean"
            ) && said[0].contains(
                "0 % off in the median of 5 rates; it would be full at 400 requests per second, and 93 %"
            ),
            "{said:?}"
        );
    }
}
