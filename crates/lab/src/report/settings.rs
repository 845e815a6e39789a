//! The settings of a target as every chart of them has it: factors and their levels, what is best, and the table behind.

use super::format::{estimate, number};
use crate::key::{CellKey, levels};
use crate::results::{Cell, fastest};

/// A factor with its levels.
pub(super) type Factor<'a> = (&'a str, Vec<&'a str>);

/// The levels of a factor, in the order of their numbers where they have any.
pub(super) fn levels_of<'a>(cells: &[&'a Cell], factor: &str) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for level in cells.iter().filter_map(|cell| cell.key.setting.get(factor)) {
        if !found.contains(&level.as_str()) {
            found.push(level);
        }
    }
    found.sort_by(|a, b| order(a).total_cmp(&order(b)).then(a.cmp(b)));
    found
}

/// Where a level belongs: `200us` before `1ms`.
pub(super) fn order(level: &str) -> f64 {
    let time = humantime::parse_duration(level).ok().map(|time| time.as_secs_f64());
    level.parse::<f64>().ok().or(time).unwrap_or(f64::MAX)
}

/// Where a cell is in the grid of two factors.
pub(super) fn place(cell: &Cell, x: &Factor<'_>, y: &Factor<'_>) -> Option<(usize, usize)> {
    let at = |(name, levels): &Factor<'_>| {
        levels.iter().position(|level| cell.key.setting.get(*name).is_some_and(|own| own == level))
    };
    Some((at(x)?, at(y)?))
}

/// Of which target, and under what, in a title.
pub(super) fn title(key: &CellKey) -> String {
    let condition = match key.condition.is_empty() {
        true => key.path.clone(),
        false => levels(&key.condition),
    };
    format!("{}, {condition}, {} connections", key.target, key.connections)
}

/// The best setting, in words.
pub(super) fn finding(cells: &[&Cell]) -> String {
    let Some(best) = fastest(cells.iter().copied()) else { return "Nothing was measured.".into() };
    let rate = number(best.requests_per_second.median);
    let tied = cells.iter().filter(|cell| cell.tied_best && cell.key != best.key).count();
    let others = match tied {
        0 => String::new(),
        1 => "; one other setting cannot be told from it".into(),
        more => format!("; {more} other settings cannot be told from it"),
    };
    format!("Most requests per second with {}: {rate}{others}.", levels(&best.key.setting))
}

/// What the columns of the table behind a chart are.
pub(super) const HEADING: [&str; 5] = ["setting", "requests/s", "p99 us", "rounds", ""];

/// The rows of that table.
pub(super) fn rows(cells: &[&Cell]) -> Vec<Vec<String>> {
    cells
        .iter()
        .map(|cell| {
            vec![
                levels(&cell.key.setting),
                estimate(Some(cell.requests_per_second)),
                estimate(cell.p99_us),
                cell.rounds.to_string(),
                if cell.tied_best { "best, or not to be told from it".into() } else { String::new() },
            ]
        })
        .collect()
}
