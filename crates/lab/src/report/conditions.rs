//! Charts over a condition: the best that each target does, as the condition changes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::chart::{Chart, FIGURES, Figure, line_with_whiskers};
use super::floor::{self, FLOOR};
use super::format::{estimate, number};
use super::settings::order;
use crate::key::CellKey;
use crate::key::levels;
use crate::results::{Cell, Results};

/// For each condition that changes, a chart of each figure.
pub(super) fn over_conditions(results: &Results) -> Vec<Chart> {
    let best = best_of_each(&results.cells);
    let names: BTreeSet<&String> = best.iter().flat_map(|cell| cell.key.condition.keys()).collect();
    let mut charts = Vec::new();
    for name in names {
        let mut facets = BTreeMap::<CellKey, Vec<&Cell>>::new();
        for cell in best.iter().filter(|cell| cell.key.condition.contains_key(name)) {
            let mut condition = cell.key.condition.clone();
            condition.remove(name);
            let facet = CellKey { condition, path: String::new(), ..cell.key.without_contender() };
            facets.entry(facet).or_default().push(cell);
        }
        for (facet, cells) in facets {
            for figure in &FIGURES {
                charts.extend(chart(results, (name, &facet), &cells, figure, charts.len()));
            }
        }
    }
    charts
}

/// Of each target under each condition, its fastest setting.
pub(super) fn best_of_each(cells: &[Cell]) -> Vec<&Cell> {
    let mut best = BTreeMap::<CellKey, &Cell>::new();
    for cell in cells {
        let key = cell.key.without_setting();
        let known = best.entry(key).or_insert(cell);
        if cell.requests_per_second.median > known.requests_per_second.median {
            *known = cell;
        }
    }
    best.into_values().collect()
}

fn chart(
    results: &Results,
    (name, facet): (&str, &CellKey),
    cells: &[&Cell],
    figure: &Figure,
    number_of: usize,
) -> Option<Chart> {
    let mut values: Vec<&str> = cells.iter().map(|cell| cell.key.condition[name].as_str()).collect();
    values.sort_by(|a, b| order(a).total_cmp(&order(b)).then(a.cmp(b)));
    values.dedup();
    let known: Vec<&Cell> = cells.iter().copied().filter(|cell| (figure.get)(cell).is_some()).collect();
    if values.len() < 2 || !figure.is_worth_a_chart(&known) {
        return None;
    }
    let mut targets: Vec<&str> = known.iter().map(|cell| cell.key.target.as_str()).collect();
    targets.sort_unstable();
    targets.dedup();
    let at = |cell: &Cell| values.iter().position(|value| *value == cell.key.condition[name]);
    let mut series = Vec::new();
    for (style, target) in targets.iter().enumerate() {
        let own = known.iter().filter(|cell| cell.key.target == *target);
        let points = own.filter_map(|cell| Some((at(cell)?, (figure.get)(cell)?)));
        series.extend(line_with_whiskers(target, style, points.collect()));
    }
    if figure.has_floor() && !targets.contains(&FLOOR) {
        // The floor need not know the condition: the same under all of its levels.
        let floor = known.first().and_then(|cell| floor::beneath(results, &cell.key));
        series.extend(floor.and_then(|cell| floor::across(cell, figure, values.len())));
    }
    let finding = finding(&known, figure, name, (values[0], values[values.len() - 1]));
    let rest =
        if facet.condition.is_empty() { String::new() } else { format!(", {}", levels(&facet.condition)) };
    let kind = if facet.close { ", a connection per request" } else { "" };
    Some(Chart {
        id: format!("over-{}-{number_of}", figure.id),
        title: format!("{} over {name}: {} connections{rest}{kind}", figure.title, facet.connections),
        heading: ["target", "its best setting", name, figure.title].map(String::from).into(),
        rows: known
            .iter()
            .map(|cell| {
                vec![
                    cell.key.target.clone(),
                    levels(&cell.key.setting),
                    cell.key.condition[name].clone(),
                    estimate((figure.get)(cell)),
                ]
            })
            .collect(),
        options: json!({
            "x": { "name": name, "values": values },
            "y": { "name": figure.unit },
            "description": finding,
            "series": series,
        }),
        finding,
    })
}

/// The best at both ends of the condition, in words.
fn finding(cells: &[&Cell], figure: &Figure, name: &str, (first, last): (&str, &str)) -> String {
    let best_at = |value: &str| {
        let there = || cells.iter().copied().filter(|cell| cell.key.condition[name] == value);
        let best = figure.best(there())?;
        let most = format!("{} {}{}", number(figure.median(best)), figure.unit, figure.rivals(best, there()));
        Some((best.key.contender(), most))
    };
    let word = if figure.more { "most" } else { "least" };
    match (best_at(first), best_at(last)) {
        (Some((a, at_a)), Some((b, at_b))) => {
            format!("At {name} {first}, {word} by {a}: {at_a}; at {last}, by {b}: {at_b}.")
        }
        _ => "Not every target has a figure at both ends.".into(),
    }
}
