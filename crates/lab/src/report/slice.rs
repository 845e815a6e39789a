//! A slice through a target's settings: its rate, or the clients that it holds, over one factor, a line with its band for each
//! level of another.

use serde_json::json;

use super::chart::{Chart, Figure, line_with_band, spread};
use super::floor;
use super::settings::{Factor, Standing, heading, rows, title};
use crate::key::CellKey;
use crate::results::{Cell, Results};

/// Most lines that can be told apart.
const MOST_LINES: usize = 7;

/// The chart of a slice; the floor under the same load is in it where it was measured.
pub(super) fn slice(
    results: &Results,
    id: String,
    key: &CellKey,
    (cells, standing): (&[&Cell], &Standing<'_>),
    x: &Factor<'_>,
    lines: Option<&Factor<'_>>,
) -> Chart {
    let own_level =
        |cell: &Cell, name: &str, level: &str| cell.key.setting.get(name).is_some_and(|own| own == level);
    let measured = |level: &&str| {
        let name = lines.map_or("", |(name, _)| name);
        cells.iter().any(|cell| own_level(cell, name, level))
    };
    let all: Vec<&str> =
        lines.map_or_else(Vec::new, |(_, levels)| levels.iter().copied().filter(measured).collect());
    let drawn = match lines {
        Some((name, _)) => {
            let best = standing.best.key.setting.get(*name).map_or("", String::as_str);
            with_the_best(&all, best).into_iter().map(Some).collect()
        }
        None => vec![None],
    };
    let (figure, mut series) = (Figure::of(cells), Vec::new());
    for (style, level) in drawn.iter().enumerate() {
        let own = |cell: &&&Cell| match (lines, level) {
            (Some((name, _)), Some(level)) => own_level(cell, name, level),
            _ => true,
        };
        let points = cells.iter().filter(own).filter_map(|cell| {
            let at = x.1.iter().position(|level| own_level(cell, x.0, level))?;
            Some((at, (figure.get)(cell)?))
        });
        let name = match (lines, level) {
            (Some((name, _)), Some(level)) => format!("{name} {level}"),
            _ => key.target.clone(),
        };
        series.extend(line_with_band(&name, style, points.collect()));
    }
    let floor = floor::beneath(results, key).filter(|_| figure.has_floor());
    series.extend(floor.and_then(|cell| floor::across(cell, figure, x.1.len())));
    let mut finding = standing.finding();
    if all.len() > drawn.len() {
        finding += &format!(" {} of {} lines are drawn.", drawn.len(), all.len());
    }
    Chart {
        id,
        title: format!("{} over {}: {}", figure.title, x.0, title(key)),
        heading: heading(cells),
        rows: rows(cells, standing),
        options: json!({
            "x": { "name": x.0, "values": x.1 },
            "y": { "name": figure.unit },
            "description": finding,
            "series": series,
        }),
        finding,
    }
}

/// As many levels as can be told apart: the first, the last, some between, and that of the best.
fn with_the_best<'a>(levels: &[&'a str], best: &str) -> Vec<&'a str> {
    if levels.len() <= MOST_LINES {
        return levels.to_vec();
    }
    let even = spread(levels.to_vec(), MOST_LINES - 1);
    levels.iter().copied().filter(|level| even.contains(level) || *level == best).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_lines_the_best_is_drawn_and_the_others_are_spread() {
        let levels: Vec<String> = (1..=50).map(|level| level.to_string()).collect();
        let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
        assert_eq!(with_the_best(&levels, "33"), ["1", "10", "20", "30", "33", "40", "50"]);
        assert_eq!(with_the_best(&levels[..7], "3").len(), 7);
        assert_eq!(with_the_best(&levels, "gone").len(), 6);
    }
}
