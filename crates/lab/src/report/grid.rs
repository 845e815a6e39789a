//! Charts of a target's settings: a heat map over two factors with the best cells marked, and the slices of it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::chart::{Chart, line_with_whiskers};
use super::settings::{Factor, HEADING, finding, levels_of, place, rows, title};
use super::surface::surface;
use crate::key::CellKey;
use crate::results::{Cell, Results, fastest};

/// Most heat maps of a report; of more conditions than that, the first ones are shown.
const MOST: usize = 24;

/// Most pieces of all surfaces of a report together: they take some 100 bytes each.
const MOST_PIECES: usize = 5000;

/// A heat map or a slice for each target and condition where there is something to choose; a surface too, if that is asked for.
pub(super) fn grids(results: &Results, surfaces: bool) -> Vec<Chart> {
    let mut grids = BTreeMap::<CellKey, Vec<&Cell>>::new();
    for cell in results.cells.iter().filter(|cell| !cell.key.setting.is_empty()) {
        let key = cell.key.without_setting();
        grids.entry(key).or_default().push(cell);
    }
    let grids = grids.iter().filter(|(_, cells)| cells.len() > 1).take(MOST);
    let mut charts: Vec<Chart> = grids
        .enumerate()
        .flat_map(|(number_of, (key, cells))| charts(number_of, key, cells, surfaces))
        .collect();
    let mut pieces = 0;
    charts.retain(|chart| {
        pieces += chart.options["pieces"].as_array().map_or(0, Vec::len);
        chart.options["kind"] != "surface" || pieces <= MOST_PIECES
    });
    charts
}

fn charts(number_of: usize, key: &CellKey, cells: &[&Cell], surfaces: bool) -> Vec<Chart> {
    let surface = |cells: &[&Cell], x, y| if surfaces { surface(number_of, key, cells, x, y) } else { None };
    let mut factors: Vec<(&str, Vec<&str>)> = cells[0]
        .key
        .setting
        .keys()
        .map(|name| (name.as_str(), levels_of(cells, name)))
        .filter(|(_, levels)| levels.len() > 1)
        .collect();
    factors.sort_by_key(|(_, levels)| std::cmp::Reverse(levels.len()));
    match &factors[..] {
        [] => Vec::new(),
        [only] => vec![slice(format!("slice-{number_of}"), key, cells, only, None)],
        [x, y] => {
            let mut all = vec![heat(number_of, key, cells, x, y)];
            all.extend(surface(cells, x, y));
            all.push(slice(format!("slice-{number_of}-a"), key, cells, x, Some(y)));
            all.push(slice(format!("slice-{number_of}-b"), key, cells, y, Some(x)));
            all
        }
        // Of more than two factors, the two with the most levels, where the others are as in the best cell.
        [x, y, ..] => {
            let Some(best) = fastest(cells.iter().copied()) else { return Vec::new() };
            let rest: Vec<&Cell> = cells
                .iter()
                .copied()
                .filter(|cell| {
                    factors[2..]
                        .iter()
                        .all(|(name, _)| cell.key.setting.get(*name) == best.key.setting.get(*name))
                })
                .collect();
            let heat = heat(number_of, key, &rest, x, y);
            [heat].into_iter().chain(surface(&rest, x, y)).collect()
        }
    }
}

fn heat(number_of: usize, key: &CellKey, cells: &[&Cell], x: &Factor<'_>, y: &Factor<'_>) -> Chart {
    let place = |cell: &Cell| place(cell, x, y);
    let data: Vec<Value> = cells
        .iter()
        .filter_map(|cell| place(cell).map(|(x, y)| json!([x, y, cell.requests_per_second.median.round()])))
        .collect();
    // Best of this target: the star of the tables is for the best of all targets.
    let top = fastest(cells.iter().copied()).and_then(|cell| cell.requests_per_second.low);
    // Without an interval on either side nothing is told apart.
    let may_be_best = |cell: &&&Cell| {
        let reach = cell.requests_per_second.high.zip(top);
        reach.is_none_or(|(high, top)| high >= top)
    };
    let tied: Vec<Value> =
        cells.iter().filter(may_be_best).filter_map(|cell| place(cell).map(|(x, y)| json!([x, y]))).collect();
    let all = x.1.len() * y.1.len();
    let measured = match data.len() {
        measured if measured < all => {
            format!(" {measured} of {all} settings were measured; the others are left blank.")
        }
        _ => String::new(),
    };
    let finding = finding(cells) + &measured;
    Chart {
        id: format!("heat-{number_of}"),
        title: format!("{} by {}: {}", x.0, y.0, title(key)),
        heading: HEADING.map(String::from).into(),
        rows: rows(cells),
        options: json!({
            "kind": "heat",
            "x": { "name": x.0, "values": x.1 },
            "y": { "name": y.0, "values": y.1 },
            "unit": "requests/s",
            "description": finding,
            "data": data,
            "best": tied,
        }),
        finding,
    }
}

/// Rate over one factor, a line for each level of another.
fn slice(id: String, key: &CellKey, cells: &[&Cell], x: &Factor<'_>, lines: Option<&Factor<'_>>) -> Chart {
    let mut series = Vec::new();
    let names: Vec<Option<&str>> = match lines {
        Some((_, levels)) => levels.iter().map(|level| Some(*level)).collect(),
        None => vec![None],
    };
    for (style, level) in names.iter().enumerate() {
        let own = |cell: &&&Cell| match (lines, level) {
            (Some((name, _)), Some(level)) => cell.key.setting.get(*name).is_some_and(|own| own == level),
            _ => true,
        };
        let points = cells.iter().filter(own).filter_map(|cell| {
            let at =
                x.1.iter().position(|level| cell.key.setting.get(x.0).is_some_and(|own| own == level))?;
            Some((at, cell.requests_per_second))
        });
        let name = match (lines, level) {
            (Some((name, _)), Some(level)) => format!("{name} {level}"),
            _ => key.target.clone(),
        };
        series.extend(line_with_whiskers(&name, style, points.collect()));
    }
    let finding = finding(cells);
    Chart {
        id,
        title: format!("Requests per second over {}: {}", x.0, title(key)),
        heading: HEADING.map(String::from).into(),
        rows: rows(cells),
        options: json!({
            "x": { "name": x.0, "values": x.1 },
            "y": { "name": "requests/s" },
            "description": finding,
            "series": series,
        }),
        finding,
    }
}
