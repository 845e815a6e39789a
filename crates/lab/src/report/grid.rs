//! Charts of a target's settings: a heat map over two factors with the best cells marked, and the slices of it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::chart::{Chart, Figure, note_drawn, spread};
use super::settings::{Factor, Standing, heading, levels_of, place, rows, title};
use super::slice::slice;
use super::surface::surface;
use crate::key::CellKey;
use crate::results::{Cell, Results};

/// Most heat maps of a report; of more conditions than that the first, the last and some between are shown.
const MOST: usize = 24;

/// Most pieces of all surfaces of a report together: they take some 100 bytes each.
const MOST_PIECES: usize = 5000;

/// The settings of a target under a load.
#[derive(Default)]
pub(super) struct Grid<'a> {
    pub(super) cells: Vec<&'a Cell>,
    /// Those that were planned and have no figure.
    unmeasured: Vec<&'a CellKey>,
}

impl<'a> Grid<'a> {
    /// Each target under each load where it has settings.
    pub(super) fn all(results: &'a Results) -> BTreeMap<CellKey, Grid<'a>> {
        let mut grids = BTreeMap::<CellKey, Grid<'a>>::new();
        for cell in results.cells.iter().filter(|cell| !cell.key.setting.is_empty()) {
            grids.entry(cell.key.without_setting()).or_default().cells.push(cell);
        }
        for key in results.unmeasured.iter().filter(|key| !key.setting.is_empty()) {
            grids.entry(key.without_setting()).or_default().unmeasured.push(key);
        }
        grids
    }

    /// The factors that have several levels in the plan, that with the most first.
    fn factors(&self) -> Vec<Factor<'a>> {
        let names = self.cells.first().map(|cell| cell.key.setting.keys()).into_iter().flatten();
        let keys = || self.cells.iter().map(|cell| &cell.key).chain(self.unmeasured.iter().copied());
        let mut factors: Vec<Factor<'a>> = names
            .map(|name| (name.as_str(), levels_of(keys(), name)))
            .filter(|(_, levels)| levels.len() > 1)
            .collect();
        factors.sort_by_key(|(_, levels)| std::cmp::Reverse(levels.len()));
        factors
    }

    /// The part of it where some factors are as in a cell.
    fn as_in(&self, key: &CellKey, factors: &[Factor<'_>]) -> Grid<'a> {
        let same = |other: &CellKey| {
            factors.iter().all(|(name, _)| other.setting.get(*name) == key.setting.get(*name))
        };
        Grid {
            cells: self.cells.iter().copied().filter(|cell| same(&cell.key)).collect(),
            unmeasured: self.unmeasured.iter().copied().filter(|key| same(key)).collect(),
        }
    }
}

/// A heat map or a slice for each target and condition where there is something to choose; a surface too, if that is asked for.
pub(super) fn grids(results: &Results, surfaces: bool) -> Vec<Chart> {
    let grids = Grid::all(results);
    let grids: Vec<_> = grids.iter().filter(|(_, grid)| grid.cells.len() > 1).collect();
    let all = grids.len();
    let mut charts: Vec<Chart> = spread(grids, MOST)
        .into_iter()
        .enumerate()
        .flat_map(|(number_of, (key, grid))| charts(results, number_of, key, grid, surfaces))
        .collect();
    let mut pieces = 0;
    charts.retain(|chart| {
        pieces += chart.options["pieces"].as_array().map_or(0, Vec::len);
        chart.options["kind"] != "surface" || pieces <= MOST_PIECES
    });
    note_drawn(&mut charts, MOST, all, "targets and loads");
    charts
}

fn charts(results: &Results, number_of: usize, key: &CellKey, grid: &Grid<'_>, surfaces: bool) -> Vec<Chart> {
    let Some(standing) = Standing::of(results, &grid.cells) else { return Vec::new() };
    let cells = &grid.cells;
    let surface = |cells: &[&Cell], standing: &Standing<'_>, x, y| {
        if surfaces { surface(number_of, key, cells, standing, (x, y)) } else { None }
    };
    let slice = |id: String, x, lines| slice(results, id, key, (cells, &standing), x, lines);
    match &grid.factors()[..] {
        [] => Vec::new(),
        [only] => vec![slice(format!("slice-{number_of}"), only, None)],
        [x, y] => {
            let mut all = vec![heat(number_of, key, grid, &standing, (x, y))];
            all.extend(surface(cells, &standing, x, y));
            all.push(slice(format!("slice-{number_of}-a"), x, Some(y)));
            all.push(slice(format!("slice-{number_of}-b"), y, Some(x)));
            all
        }
        // Of more than two factors, the two with the most levels, where the others are as in the best cell.
        [x, y, others @ ..] => {
            let rest = grid.as_in(&standing.best.key, others);
            let Some(standing) = Standing::of(results, &rest.cells) else { return Vec::new() };
            let heat = heat(number_of, key, &rest, &standing, (x, y));
            [heat].into_iter().chain(surface(&rest.cells, &standing, x, y)).collect()
        }
    }
}

fn heat(
    number_of: usize,
    key: &CellKey,
    grid: &Grid<'_>,
    standing: &Standing<'_>,
    (x, y): (&Factor<'_>, &Factor<'_>),
) -> Chart {
    let at = |key: &CellKey| place(key, x, y).map(|(x, y)| json!([x, y]));
    let all_at = |keys: &mut dyn Iterator<Item = &CellKey>| keys.filter_map(at).collect::<Vec<Value>>();
    let keys = || grid.cells.iter().map(|cell| &cell.key);
    let figure = Figure::of(&grid.cells);
    let data: Vec<Value> = grid
        .cells
        .iter()
        .filter_map(|cell| place(&cell.key, x, y).map(|(x, y)| json!([x, y, figure.median(cell).round()])))
        .collect();
    let best = all_at(&mut keys().filter(|key| standing.is_best(key)));
    let once = all_at(&mut keys().filter(|key| standing.is_unclear(key)));
    let unmeasured = all_at(&mut grid.unmeasured.iter().copied());
    let mut finding = standing.finding() + " The frame is about the best, and what cannot be told from it.";
    if !once.is_empty() {
        finding += " A dot is on what cannot be compared, for want of a second round.";
    }
    if !unmeasured.is_empty() {
        let all = data.len() + unmeasured.len();
        finding += &format!(" {} of {all} settings were measured; a cross is on the others.", data.len());
    }
    Chart {
        id: format!("heat-{number_of}"),
        title: format!("{} by {}: {}", x.0, y.0, title(key)),
        heading: heading(&grid.cells),
        rows: rows(&grid.cells, standing),
        options: json!({
            "kind": "heat",
            "x": { "name": x.0, "values": x.1 },
            "y": { "name": y.0, "values": y.1 },
            "unit": figure.unit,
            "description": finding,
            "data": data,
            "best": best,
            "once": once,
            "unmeasured": unmeasured,
        }),
        finding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::plan::Plan;
    use crate::results::Run;
    use crate::summary::summarise;

    const PLAN: &str = r#"
        title = "t"
        connections = [10]
        paths = ["/"]
        duration_s = 1
        [factor]
        reactors = [1, 2, 3]
        workers = [4, 8]
        [[target]]
        name = "hybrid"
        model = "reactor"
        args = ["{reactors}", "{workers}"]
    "#;

    /// The heat map of these settings, each with the rates of its rounds.
    fn heat_of(measured: &[(&str, &str, &[f64])]) -> Chart {
        let plan = Plan::parse(PLAN, "x.toml").unwrap();
        let mut results = fake::results(&[], 0, |_, _| (0.0, 0.0));
        for (reactors, workers, rates) in measured {
            let setting = [("reactors", reactors), ("workers", workers)];
            let setting = setting.map(|(name, level)| (name.to_owned(), (*level).to_owned())).into();
            let key = CellKey { setting, ..fake::key("hybrid", 10) };
            for (round, rate) in (0..).zip(*rates) {
                results.runs.push(Run { round, ..fake::run(key.clone(), fake::measured(&key, *rate, 10.0)) });
            }
        }
        summarise(&mut results, &plan);
        grids(&results, false).remove(0)
    }

    #[test]
    fn axes_are_those_of_the_plan_and_what_was_not_measured_is_marked() {
        let chart = heat_of(&[("1", "4", &[1.0, 1.1]), ("3", "4", &[2.0, 2.1])]);
        assert_eq!(chart.options["x"]["values"], json!(["1", "2", "3"]));
        assert_eq!(chart.options["y"]["values"], json!(["4", "8"]));
        assert_eq!(chart.options["unmeasured"], json!([[0, 1], [1, 0], [1, 1], [2, 1]]));
        assert!(chart.finding.contains("2 of 6 settings were measured; a cross is on the others."));
    }

    #[test]
    fn only_what_cannot_be_told_from_the_best_is_framed() {
        let chart = heat_of(&[
            ("1", "4", &[100.0, 103.0, 101.0]),
            ("2", "4", &[99.0, 101.0, 102.0]),
            ("3", "4", &[80.0, 81.0, 82.0]),
            ("1", "8", &[90.0]),
        ]);
        assert_eq!(chart.options["best"], json!([[0, 0], [1, 0]]));
        assert_eq!(chart.options["once"], json!([[0, 1]]), "of one round nothing is known");
        assert!(chart.finding.contains("one other setting cannot be told from it"), "{}", chart.finding);
    }

    #[test]
    fn where_all_were_run_once_the_fastest_alone_is_framed() {
        let chart = heat_of(&[("1", "4", &[100.0]), ("2", "4", &[80.0]), ("3", "8", &[10.0])]);
        assert_eq!(chart.options["best"], json!([[0, 0]]));
        assert_eq!(chart.options["once"], json!([[1, 0], [2, 1]]));
    }
}
