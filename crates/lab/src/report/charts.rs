//! The charts of a report: over the connections, run by run, and those of its neighbours here.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::chart::{Chart, FIGURES, Figure, RATE, line_with_whiskers, note_drawn, spread};
use super::conditions::{best_of_each, over_conditions};
use super::forest::forests;
use super::format::{counted, estimate, number};
use super::grid::grids;
use super::held::held;
use super::optimum::optima;
use super::server::leading;
use crate::key::CellKey;
use crate::results::{Cell, Results, Run};

/// Most charts over the number of connections, beside those over conditions.
const MOST: usize = 8;

/// Most runs that are drawn, each as a point.
const MOST_RUNS: usize = 1500;

/// Every chart of a report, with surfaces if they are asked for.
pub(super) fn charts(results: &Results, surfaces: bool) -> Vec<Chart> {
    let mut charts = over_conditions(results);
    charts.extend(held(results));
    charts.extend(over_connections(results, !charts.is_empty()));
    charts.extend(forests(results));
    charts.extend(optima(results));
    charts.extend(grids(results, surfaces));
    charts.extend(runs(results));
    charts.extend(leading(results));
    charts
}

/// Charts over the number of connections: of every figure, or, where there are others, of the rate alone and where there is more
/// than one number.
fn over_connections(results: &Results, has_others: bool) -> Vec<Chart> {
    let mut facets = BTreeMap::<CellKey, Vec<&Cell>>::new();
    for cell in best_of_each(&results.cells) {
        let facet = CellKey { connections: 0, ..cell.key.without_contender() };
        facets.entry(facet).or_default().push(cell);
    }
    let changes = |cells: &[&Cell]| cells.iter().any(|cell| cell.key.connections != cells[0].key.connections);
    facets.retain(|_, cells| !has_others || changes(cells));
    let figures = if has_others { &[RATE][..] } else { &FIGURES };
    let (all, mut charts) = (facets.len(), Vec::new());
    let drawn = spread(facets.into_iter().collect(), if has_others { MOST } else { all.max(1) });
    for (facet, cells) in drawn {
        for figure in figures {
            let of = if all > 1 { format!(": {}", facet.circumstances()) } else { String::new() };
            charts.extend(chart(&cells, figure, &of, charts.len()));
        }
    }
    if has_others {
        note_drawn(&mut charts, MOST, all, "loads");
    }
    charts
}

fn chart(cells: &[&Cell], figure: &Figure, of: &str, number_of: usize) -> Option<Chart> {
    let cells: Vec<&Cell> = cells.iter().copied().filter(|cell| (figure.get)(cell).is_some()).collect();
    if !figure.is_worth_a_chart(&cells) {
        return None;
    }
    let title = format!("{}{of}", figure.title);
    let mut connections: Vec<u32> = cells.iter().map(|cell| cell.key.connections).collect();
    connections.sort_unstable();
    connections.dedup();
    let finding = finding(&cells, figure);
    Some(Chart {
        id: format!("{}-{number_of}", figure.id),
        heading: ["target", "connections", figure.title].map(String::from).into(),
        rows: cells
            .iter()
            .map(|cell| {
                vec![cell.key.target.clone(), cell.key.connections.to_string(), estimate((figure.get)(cell))]
            })
            .collect(),
        options: options(&cells, &connections, figure, &finding),
        title,
        finding,
    })
}

/// The best cell of a chart, in words.
fn finding(cells: &[&Cell], figure: &Figure) -> String {
    let Some(best) = figure.best(cells.iter().copied()) else { return String::new() };
    format!(
        "{}: {} {} by {} at {}{}.",
        if figure.more { "Most" } else { "Least" },
        number(figure.median(best)),
        figure.unit,
        best.key.contender(),
        counted(best.key.connections as usize, "connection"),
        figure.rivals(best, cells.iter().copied())
    )
}

fn options(cells: &[&Cell], connections: &[u32], figure: &Figure, finding: &str) -> Value {
    let mut targets: Vec<&str> = Vec::new();
    for cell in cells {
        if !targets.contains(&cell.key.target.as_str()) {
            targets.push(&cell.key.target);
        }
    }
    let place = |of: u32| connections.iter().position(|other| *other == of);
    let mut series = Vec::new();
    for (style, target) in targets.iter().enumerate() {
        let own = cells.iter().filter(|cell| cell.key.target == *target);
        let points = own.filter_map(|cell| Some((place(cell.key.connections)?, (figure.get)(cell)?)));
        series.extend(line_with_whiskers(target, style, points.collect()));
    }
    json!({
        "x": { "name": "connections", "values": connections.iter().map(u32::to_string).collect::<Vec<_>>() },
        "y": { "name": figure.unit },
        "description": finding,
        "series": series,
    })
}

/// Every run as a point, in the order in which they were made: drift and outliers show.
fn runs(results: &Results) -> Option<Chart> {
    // In the order of the cells, so that a target has the same colour as in the other charts.
    let mut series: Vec<(String, Vec<Value>)> = Vec::new();
    for cell in &results.cells {
        if !series.iter().any(|(target, _)| *target == cell.key.target) {
            series.push((cell.key.target.clone(), Vec::new()));
        }
    }
    let medians: BTreeMap<&CellKey, f64> =
        results.cells.iter().map(|cell| (&cell.key, cell.requests_per_second.median)).collect();
    let each = results.runs.len().div_ceil(MOST_RUNS).max(1);
    let mut furthest = 0.0_f64;
    for (index, run) in results.runs.iter().enumerate() {
        let Some((outcome, median)) = run.outcome.as_ref().zip(medians.get(&run.cell)) else { continue };
        let relative = outcome.requests_per_second / median;
        furthest = furthest.max((relative - 1.0).abs());
        let points = series.iter_mut().find(|(target, _)| *target == run.cell.target);
        if let Some((_, points)) = points.filter(|_| index % each == 0) {
            let name = format!("{}, {}", run.cell.target, run.cell.connections);
            let relative = (relative * 1e4).round() / 1e4;
            points.push(json!({ "value": [index + 1, relative], "name": name }));
        }
    }
    series.retain(|(_, points)| !points.is_empty());
    if series.is_empty() {
        return None;
    }
    let drawn = if each > 1 { format!(" One of {each} is drawn.") } else { String::new() };
    let finding =
        format!("The run furthest from the median of its cell is {:.0} % off.{drawn}", furthest * 100.0);
    let series: Vec<_> = (0..)
        .zip(series)
        .map(|(style, (name, data)): (usize, _)| json!({ "name": name, "type": "scatter", "data": data, "style": style }))
        .collect();
    Some(Chart {
        id: "runs".into(),
        title: "Every run against its cell's median rate, in the order they were made".into(),
        heading: ["run", "cell", "round", "requests/s", "verdict"].map(String::from).into(),
        rows: (1..).zip(&results.runs).map(row_of).collect(),
        options: json!({
            "x": { "name": "run" },
            "y": { "name": "rate / median of the cell" },
            "description": finding,
            "series": series,
        }),
        finding,
    })
}

/// A run in the table behind the runs.
fn row_of((number_of, run): (usize, &Run)) -> Vec<String> {
    let rate = run.outcome.as_ref().map_or("n/a".into(), |outcome| number(outcome.requests_per_second));
    let mut why: Vec<_> = run.verdict.reasons().to_vec();
    why.extend(run.failure.clone().filter(|failure| !why.contains(failure)));
    vec![
        number_of.to_string(),
        run.cell.to_string(),
        (run.round + 1).to_string(),
        rate,
        format!("{} {}", run.verdict.word(), why.join("; ")).trim_end().into(),
    ]
}
