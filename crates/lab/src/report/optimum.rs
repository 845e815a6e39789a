//! How the best setting of a target changes with a condition, such as the threads that it takes with the time that work takes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::chart::{Chart, line_with_whiskers, note_drawn, spread};
use super::format::{estimate, number};
use super::grid::Grid;
use super::settings::{Standing, order};
use crate::key::{CellKey, levels};
use crate::results::{Cell, Estimate, Results};

/// Most charts.
const MOST: usize = 12;

/// A scale is logarithmic where its levels are further apart than this.
const FAR: f64 = 20.0;

/// A level of the condition, and how the settings stand there.
struct Point<'a> {
    level: &'a str,
    cells: &'a [&'a Cell],
    standing: Standing<'a>,
}

/// A chart of each target with settings for each condition that changes.
pub(super) fn optima(results: &Results) -> Vec<Chart> {
    let grids = Grid::all(results);
    let names: BTreeSet<&String> = grids.keys().flat_map(|key| key.condition.keys()).collect();
    let mut charts = Vec::new();
    for name in names {
        let mut facets = BTreeMap::<CellKey, Vec<Point<'_>>>::new();
        for (key, grid) in &grids {
            let (Some(level), Some(standing)) = (
                key.condition.get(name),
                Standing::of(results, &grid.cells).filter(|_| grid.cells.len() > 1),
            ) else {
                continue;
            };
            let mut condition = key.condition.clone();
            condition.remove(name);
            // A path has the level in it where the condition is of the path.
            let facet = CellKey { condition, path: String::new(), ..key.clone() };
            facets.entry(facet).or_default().push(Point { level, cells: &grid.cells, standing });
        }
        for (facet, mut points) in facets.into_iter().filter(|(_, points)| points.len() > 1) {
            points.sort_by(|a, b| order(a.level).total_cmp(&order(b.level)));
            charts.extend(chart(charts.len(), name, &facet, &points));
        }
    }
    let all = charts.len();
    let mut charts = spread(charts, MOST);
    note_drawn(&mut charts, MOST, all, "charts of the best setting");
    charts
}

fn chart(number_of: usize, name: &str, facet: &CellKey, points: &[Point<'_>]) -> Option<Chart> {
    let factors: BTreeSet<&String> =
        points.iter().flat_map(|point| point.standing.best.key.setting.keys()).collect();
    let mut series: Vec<Value> = Vec::new();
    let mut reached: Vec<f64> = Vec::new();
    let mut style = 0;
    for factor in factors {
        let Some(line) = points.iter().map(|point| best_level(point, factor)).collect::<Option<Vec<_>>>()
        else {
            continue;
        };
        let is_chosen = |point: &Point<'_>| {
            let levels: BTreeSet<_> = point.cells.iter().map(|cell| cell.key.setting.get(factor)).collect();
            levels.len() > 1
        };
        if !points.iter().any(is_chosen) {
            continue;
        }
        reached.extend(
            line.iter().flat_map(|level| [level.median].into_iter().chain(level.low).chain(level.high)),
        );
        series.extend(line_with_whiskers(
            &format!("best {factor}"),
            style,
            line.into_iter().enumerate().collect(),
        ));
        style += 1;
    }
    let least = reached.iter().copied().reduce(f64::min)?;
    let most = reached.iter().copied().fold(0.0, f64::max);
    let finding = finding(name, points)?;
    let values: Vec<&str> = points.iter().map(|point| point.level).collect();
    let rest =
        if facet.condition.is_empty() { String::new() } else { format!(", {}", levels(&facet.condition)) };
    Some(Chart {
        id: format!("optimum-{number_of}"),
        title: format!(
            "Best setting of {} over {name}: {} connections{rest}",
            facet.target, facet.connections
        ),
        heading: [name, "best setting", "requests/s", "cannot be told from it"].map(String::from).into(),
        rows: points.iter().map(row).collect(),
        options: json!({
            "x": { "name": name, "values": values },
            "y": { "name": "level at the best", "log": least > 0.0 && most / least > FAR },
            "description": finding,
            "series": series,
        }),
        finding,
    })
}

/// The level of a factor at the best setting, and the range of those that cannot be told from it; none of a range where the
/// best was run once. `None` where levels are no numbers.
fn best_level(point: &Point<'_>, factor: &str) -> Option<Estimate> {
    let level = |cell: &Cell| cell.key.setting.get(factor)?.parse::<f64>().ok();
    let median = level(point.standing.best)?;
    let tied: Vec<f64> = tied(point).map(level).collect::<Option<_>>()?;
    let is_known = point.standing.best.requests_per_second.interval().is_some();
    let end = |pick: fn(f64, f64) -> f64| is_known.then(|| tied.iter().copied().fold(median, pick));
    Some(Estimate { median, low: end(f64::min), high: end(f64::max) })
}

/// The settings that are best, or cannot be told from the best.
fn tied<'a>(point: &'a Point<'a>) -> impl Iterator<Item = &'a Cell> {
    point.cells.iter().copied().filter(|cell| point.standing.is_best(&cell.key))
}

fn row(point: &Point<'_>) -> Vec<String> {
    let best = point.standing.best;
    let others: Vec<String> =
        tied(point).filter(|cell| cell.key != best.key).map(|cell| levels(&cell.key.setting)).collect();
    let others = match best.requests_per_second.interval() {
        None => "one round tells nothing of it".into(),
        Some(_) if others.is_empty() => "none".into(),
        Some(_) => others.join("; "),
    };
    vec![point.level.into(), levels(&best.key.setting), estimate(Some(best.requests_per_second)), others]
}

fn finding(name: &str, points: &[Point<'_>]) -> Option<String> {
    let said = |point: &Point<'_>| {
        let best = point.standing.best;
        format!("{} {} by {}", name, point.level, levels(&best.key.setting))
            + &format!(" ({} requests/s)", number(best.requests_per_second.median))
    };
    let (first, last) = (points.first()?, points.last()?);
    Some(format!(
        "Most at {}; at {}. Whiskers reach over the settings that cannot be told from the best.",
        said(first),
        said(last)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::plan::Plan;
    use crate::results::Run;
    use crate::summary::summarise;

    #[test]
    fn the_best_setting_is_drawn_over_the_condition_with_those_that_are_as_good() {
        let plan = "title = \"t\"\nconnections = [10]\npaths = [\"/work?sleep={work}\"]\nduration_s = 1\n[factor]\n\
                    work = [\"1ms\", \"200us\"]\nworkers = [2, 8, 32]\n\
                    [[target]]\nname = \"hybrid\"\nmodel = \"reactor\"\nargs = [\"{workers}\"]\n";
        let plan = Plan::parse(plan, "x.toml").unwrap();
        let mut results = fake::results(&[], 0, |_, _| (0.0, 0.0));
        for key in plan.cells() {
            let best = if key.condition["work"] == "1ms" { 32.0 } else { 2.0 };
            let off = (key.setting["workers"].parse::<f64>().unwrap() / best).ln().abs();
            // With 8 workers it is as good as with 32 where work takes long.
            let off = if best > 2.0 && off < 2.0 { 0.0 } else { off };
            for round in 0..3 {
                let rate = 1_000.0 / (1.0 + off) + f64::from(round);
                results.runs.push(Run { round, ..fake::run(key.clone(), fake::measured(&key, rate, 10.0)) });
            }
        }
        summarise(&mut results, &plan);
        let charts = optima(&results);
        assert_eq!(charts.len(), 1);
        let chart = &charts[0];
        assert_eq!(chart.options["x"]["values"], json!(["200us", "1ms"]));
        let line = &chart.options["series"][0];
        assert_eq!((&line["name"], &line["data"][0]), (&json!("best workers"), &json!([0, 2.0])));
        assert_eq!(chart.options["series"][1]["data"], json!([[0, 2.0, 2.0], [1, 8.0, 32.0]]));
        assert!(chart.finding.contains("work 200us by workers 2"), "{}", chart.finding);
        assert_eq!(chart.rows[0][3], "none");
        results.runs.retain(|run| run.cell.condition["work"] == "1ms");
        summarise(&mut results, &plan);
        assert_eq!(optima(&results).len(), 0, "one level is no curve");
    }
}
