//! The settings of a target as every chart of them has it: factors and their levels, what is best, and the table behind.

use std::collections::{BTreeMap, BTreeSet};

use super::chart::Figure;
use super::format::{estimate, held_by, number};
use crate::key::{CellKey, levels};
use crate::results::{Cell, Results, fastest};
use crate::stats::{ratio, tied};

/// A factor with its levels.
pub(super) type Factor<'a> = (&'a str, Vec<&'a str>);

/// The levels of a factor, in the order of their numbers where they have any.
pub(super) fn levels_of<'a>(keys: impl Iterator<Item = &'a CellKey>, factor: &str) -> Vec<&'a str> {
    let found: BTreeSet<&str> = keys.filter_map(|key| key.setting.get(factor)).map(String::as_str).collect();
    let mut found: Vec<&str> = found.into_iter().collect();
    found.sort_by(|a, b| order(a).total_cmp(&order(b)).then(a.cmp(b)));
    found
}

/// Where a level belongs: `200us` before `1ms`.
pub(super) fn order(level: &str) -> f64 {
    let time = humantime::parse_duration(level).ok().map(|time| time.as_secs_f64());
    level.parse::<f64>().ok().or(time).unwrap_or(f64::MAX)
}

/// Where a cell is in the grid of two factors.
pub(super) fn place(key: &CellKey, x: &Factor<'_>, y: &Factor<'_>) -> Option<(usize, usize)> {
    let at = |(name, levels): &Factor<'_>| {
        levels.iter().position(|level| key.setting.get(*name).is_some_and(|own| own == level))
    };
    Some((at(x)?, at(y)?))
}

/// Of which target, and under what, in a title.
pub(super) fn title(key: &CellKey) -> String {
    let condition = match key.condition.is_empty() {
        true => key.path.clone(),
        false => levels(&key.condition),
    };
    match key.is_searched() {
        true => format!("{}, {condition}", key.target),
        false => format!("{}, {condition}, {} connections", key.target, key.connections),
    }
}

/// How the settings of a target stand to its best one, under the same conditions.
pub(super) struct Standing<'a> {
    pub(super) best: &'a Cell,
    /// Those that cannot be told from it: the interval of the ratio of the two has 1 in it.
    tied: BTreeSet<&'a CellKey>,
    /// Those of which nothing is known, since they or the best were run once.
    once: BTreeSet<&'a CellKey>,
}

impl<'a> Standing<'a> {
    /// `None` where there is no cell.
    pub(super) fn of(results: &'a Results, cells: &[&'a Cell]) -> Option<Self> {
        let best = fastest(cells.iter().copied())?;
        let mut figures: BTreeMap<&CellKey, Vec<f64>> =
            cells.iter().map(|cell| (&cell.key, Vec::new())).collect();
        for run in results.runs.iter().filter(|run| run.is_sound()) {
            if let Some((figures, figure)) = figures.get_mut(&run.cell).zip(run.figure()) {
                figures.push(figure);
            }
        }
        let mut standing = Standing { best, tied: BTreeSet::new(), once: BTreeSet::new() };
        for (key, own) in figures.iter().filter(|(key, _)| **key != &best.key) {
            match ratio(own, &figures[&best.key], results.seed) {
                Some(ratio) if ratio.interval().is_none() => standing.once.insert(key),
                Some(ratio) if tied(&ratio) => standing.tied.insert(key),
                _ => false,
            };
        }
        Some(standing)
    }

    /// Whether a setting is the best, or cannot be told from it by more than one round.
    pub(super) fn is_best(&self, key: &CellKey) -> bool {
        self.best.key == *key || self.tied.contains(key)
    }

    /// Whether nothing is known of how a setting stands, for want of rounds.
    pub(super) fn is_unclear(&self, key: &CellKey) -> bool {
        self.once.contains(key)
    }

    /// The best setting, in words.
    pub(super) fn finding(&self) -> String {
        let others = match self.tied.len() {
            0 => String::new(),
            1 => "; one other setting cannot be told from it".into(),
            more => format!("; {more} other settings cannot be told from it"),
        };
        let (what, most) = match &self.best.held {
            Some(held) => ("clients held", held_by(held)),
            None => ("requests per second", number(self.best.requests_per_second.median)),
        };
        format!("Most {what} with {}: {most}{others}.", levels(&self.best.key.setting))
    }

    /// The same of one setting, in a few words.
    pub(super) fn word(&self, key: &CellKey) -> &'static str {
        match (self.is_best(key), self.is_unclear(key)) {
            (true, _) => "best, or not to be told from it",
            (_, true) => "one round: not to be told from any",
            _ => "",
        }
    }
}

/// What the columns of the table behind a chart of these cells are.
pub(super) fn heading(cells: &[&Cell]) -> Vec<String> {
    ["setting", Figure::of(cells).unit, "p99 us", "rounds", "standing"].map(String::from).into()
}

/// The rows of that table.
pub(super) fn rows(cells: &[&Cell], standing: &Standing<'_>) -> Vec<Vec<String>> {
    let figure = Figure::of(cells);
    let row = |cell: &&Cell| {
        vec![
            levels(&cell.key.setting),
            estimate((figure.get)(cell)),
            estimate(cell.p99_us),
            cell.rounds.to_string(),
            standing.word(&cell.key).into(),
        ]
    };
    cells.iter().map(row).collect()
}
