//! How far every contender is from the best under the same conditions, each with its interval.

use std::collections::BTreeMap;

use serde_json::json;

use super::chart::{Chart, note_drawn, spread};
use super::floor::{self, FLOOR};
use super::format::{estimate, number};
use crate::key::CellKey;
use crate::results::{Cell, Results, fastest};

/// Contenders that a chart shows: the best ones.
const MOST_CONTENDERS: usize = 16;

/// Most charts.
const MOST: usize = 6;

/// A chart for each load under which there is more than one contender; of many loads for the first, the last and some between.
pub(super) fn forests(results: &Results) -> Vec<Chart> {
    let mut groups = BTreeMap::<CellKey, Vec<&Cell>>::new();
    for cell in results.cells.iter().filter(|cell| cell.ratio_to_best.is_some()) {
        groups.entry(cell.key.without_contender()).or_default().push(cell);
    }
    let groups: Vec<_> = groups.into_iter().filter(|(_, cells)| cells.len() > 1).collect();
    let all = groups.len();
    let drawn = spread(groups, MOST).into_iter().enumerate();
    let mut charts: Vec<Chart> =
        drawn.map(|(number_of, (key, cells))| forest(results, number_of, &key, cells)).collect();
    note_drawn(&mut charts, MOST, all, "loads");
    charts
}

/// The rate of the floor under the same load over that of the best of some contenders.
fn floor_of(results: &Results, cells: &[&Cell]) -> Option<f64> {
    let best = fastest(cells.iter().copied().filter(|cell| cell.held.is_none()))?;
    let is_floor = |cell: &&Cell| cell.key.target == FLOOR;
    let floor = cells.iter().copied().find(is_floor).or_else(|| floor::beneath(results, &best.key))?;
    Some(floor.requests_per_second.median / best.requests_per_second.median)
}

fn forest(results: &Results, number_of: usize, key: &CellKey, mut cells: Vec<&Cell>) -> Chart {
    let (what, leads) =
        if key.is_searched() { ("Clients held", "holds most") } else { ("Rate", "is fastest") };
    let ratio = |cell: &Cell| cell.ratio_to_best.map_or(0.0, |ratio| ratio.median);
    cells.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
    let all = cells.len();
    let floor = floor_of(results, &cells);
    cells.truncate(MOST_CONTENDERS);
    let tied = cells.iter().filter(|cell| cell.tied_best).count();
    let more =
        if all > cells.len() { format!(" (the best {} of {all})", cells.len()) } else { String::new() };
    let last = cells.last().map_or(0.0, |cell| ratio(cell));
    let finding = match tied {
        1 => {
            format!("{} {leads}; the last here reaches {} of it.", cells[0].key.contender(), number(last))
        }
        _ => format!(
            "{tied} cannot be told apart at the top; the last here reaches {} of the best.",
            number(last)
        ),
    };
    // From the bottom upwards, as an axis counts.
    let names: Vec<String> = cells.iter().rev().map(|cell| cell.key.contender()).collect();
    let data: Vec<_> = (0..)
        .zip(cells.iter().rev())
        .filter_map(|(at, cell): (usize, _)| {
            let ratio = cell.ratio_to_best?;
            Some(json!([at, ratio.median, ratio.low, ratio.high]))
        })
        .collect();
    Chart {
        id: format!("forest-{number_of}"),
        title: format!("{what} over that of the best{more}: {}", key.load()),
        heading: ["contender", "ratio to best", "requests/s"].map(String::from).into(),
        rows: cells
            .iter()
            .map(|cell| {
                vec![
                    cell.key.contender(),
                    estimate(cell.ratio_to_best),
                    estimate(Some(cell.requests_per_second)),
                ]
            })
            .collect(),
        options: json!({
            "kind": "forest",
            "names": names,
            "description": finding,
            "data": data,
            "floor": floor,
        }),
        finding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::plan::Plan;
    use crate::summary::summarise;

    #[test]
    fn of_many_loads_the_last_is_drawn_too_and_those_that_are_not_are_counted() {
        let mut results = fake::results(&[], 0, |_, _| (0.0, 0.0));
        let connections = vec![1, 2, 4, 8, 16, 32, 64, 10_000];
        let plan = Plan { connections, ..fake::plan(&["a", "b"], "") };
        for key in plan.cells() {
            let found = fake::measured(&key, 1_000.0, 10.0);
            results.runs.push(fake::run(key, found));
        }
        summarise(&mut results, &plan);
        let charts = forests(&results);
        assert_eq!(charts.len(), MOST);
        assert!(charts[MOST - 1].title.contains("10000 connections"), "{}", charts[MOST - 1].title);
        assert!(charts[0].finding.ends_with("6 of 8 loads are drawn."), "{}", charts[0].finding);
    }
}
