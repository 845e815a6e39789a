//! Two results of the same experiment side by side: two versions, two hosts, and whether one is worse.

use crate::key::CellKey;
use crate::report::{interval, number};
use crate::results::{Estimate, Results, Run};
use crate::stats::{choose, estimate, permutation_p, ratio, rejected};

/// How far a figure may get worse before it counts, relative.
const TOLERANCE: f64 = 0.03;

/// Share of the cells that are called different which may be so by chance (Benjamini and Hochberg, 1995).
const FALSE_DISCOVERIES: f64 = 0.1;

/// A figure of a cell in two results.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which cell.
    pub cell: CellKey,
    /// Which figure.
    pub figure: &'static str,
    /// What it was in the first.
    pub before: Estimate,
    /// What it is in the second.
    pub after: Estimate,
    /// The second over the first.
    pub ratio: Estimate,
    /// Proven to be worse by more than 3 %: the whole interval says so, and so does a permutation test of all cells.
    pub worse: bool,
    /// Proven to be better by more than 3 %.
    pub better: bool,
}

/// A figure: its name, whether more is better, and how it is read.
type Figure = (&'static str, bool, fn(&Run) -> Option<f64>);

// Few: each figure more makes what is needed to prove one of them different stricter.
const FIGURES: [Figure; 4] = [
    ("clients held", true, Run::clients),
    ("requests per second", true, Run::rate),
    ("CPU us per request", false, Run::cpu),
    ("p99 us", false, Run::p99),
];

/// Every figure of every cell that both results have.
pub fn compare(first: &Results, second: &Results) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut chances = Vec::new();
    for cell in &second.cells {
        for (figure, more, get) in FIGURES {
            let (before, after) = (first.values(&cell.key, get), second.values(&cell.key, get));
            let Some(ratio) = ratio(&after, &before, second.seed) else { continue };
            let medians = estimate(&before, first.seed).zip(estimate(&after, second.seed));
            let Some(medians) = medians else { continue };
            // Without an interval nothing is proven.
            let low = ratio.high.is_some_and(|high| high < 1.0 - TOLERANCE);
            let high = ratio.low.is_some_and(|low| low > 1.0 + TOLERANCE);
            let (worse, better) = if more { (low, high) } else { (high, low) };
            let (cell, (was, is)) = (cell.key.clone(), medians);
            changes.push(Change { cell, figure, before: was, after: is, ratio, worse, better });
            chances.push(permutation_p(&before, &after, second.seed));
        }
    }
    let proven = rejected(&chances, FALSE_DISCOVERIES);
    for (change, proven) in changes.iter_mut().zip(proven) {
        change.worse &= proven;
        change.better &= proven;
    }
    changes
}

/// The changes as text, those that are proven first.
pub fn text(first: &Results, second: &Results, changes: &[Change]) -> String {
    let mut text = format!("{}\n  first   {}  {}\n", second.title, first.started, first.command);
    text += &format!("  second  {}  {}\n\n", second.started, second.command);
    text += &hosts(first, second);
    let show = |change: &Change, word: &str| {
        let Change { cell, figure, ratio, before, after, .. } = change;
        let said = |of: &Estimate| format!("{} [{}]", number(of.median), interval(of, " to "));
        let factor = format!("{} x [{}]", number(ratio.median), interval(ratio, " to "));
        format!("{word:<7} {cell}: {figure} {factor}, from {} to {}\n", said(before), said(after))
    };
    let is_unclear = |change: &Change| change.ratio.interval().is_none();
    if changes.iter().any(is_unclear) {
        text += "  one round has no interval: what is unclear takes more rounds of both\n\n";
    }
    if changes.len() > 1 && least_chance(first, second) > FALSE_DISCOVERIES / changes.len() as f64 {
        text += &format!(
            "  {} and {} rounds are too few to prove a single figure of {} different: ask for more rounds\n\n",
            first.rounds,
            second.rounds,
            changes.len()
        );
    }
    let (mut proven, mut rest) = (String::new(), String::new());
    for change in changes {
        match (change.worse, change.better) {
            (true, _) => proven.insert_str(0, &show(change, "WORSE")),
            (_, true) => proven += &show(change, "better"),
            _ => rest += &show(change, if is_unclear(change) { "unclear" } else { "same" }),
        }
    }
    text + &proven + &rest
}

/// What is not the same where the two ran, and what only one of them has recorded.
fn hosts(first: &Results, second: &Results) -> String {
    fn of<'a>(results: &'a Results, name: &str) -> Option<&'a String> {
        results.environment.iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in first.environment.iter().chain(&second.environment) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let said = |value: Option<&String>| value.map_or("not recorded".into(), |value| line(value));
    let mut rows = String::new();
    for name in names {
        let (before, after) = (of(first, name), of(second, name));
        if before != after {
            rows += &format!("  {name}: {} -> {}\n", said(before), said(after));
        }
    }
    rows
}

/// The smallest chance that a permutation test of so many rounds can give: that of the one order out of all, on either side.
fn least_chance(first: &Results, second: &Results) -> f64 {
    let (n, m) = (first.rounds as usize, second.rounds as usize);
    if n > 0 && m > 0 { 2.0 / choose(n + m, m) } else { 1.0 }
}

fn line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    fn results(factor: f64) -> Results {
        let surface = |target: &str, round: u32| {
            let noise = 1.0 + 0.004 * f64::from(round % 3);
            (if target == "a" { 1000.0 * factor } else { 1000.0 } * noise, 10.0)
        };
        let mut results = fake::results(&["a", "b"], 5, surface);
        crate::summary::summarise(&mut results, &fake::plan(&["a", "b"], ""));
        results
    }

    fn found(factor: f64) -> (usize, usize) {
        let changes = compare(&results(1.0), &results(factor));
        let worse: Vec<_> = changes.iter().filter(|change| change.worse).collect();
        assert!(worse.iter().all(|change| change.cell.target == "a"));
        (worse.len(), changes.iter().filter(|change| change.better).count())
    }

    #[test]
    fn a_regression_is_proven_and_noise_is_not() {
        // The rate, and with it the 99th percentile.
        assert_eq!(found(0.9), (2, 0));
        assert_eq!(found(0.99), (0, 0));
        assert_eq!(found(1.0), (0, 0));
        assert_eq!(found(1.2), (0, 2));
    }

    #[test]
    fn what_is_proven_comes_first() {
        let (first, second) = (results(1.0), results(0.8));
        let said = text(&first, &second, &compare(&first, &second));
        let first_word = said.lines().find(|line| line.contains(" at 10 connections")).unwrap();
        assert!(first_word.starts_with("WORSE   a at 10 connections, /"), "{said}");
    }

    #[test]
    fn both_medians_are_told_with_their_intervals() {
        let (first, second) = (results(1.0), results(0.8));
        let said = text(&first, &second, &compare(&first, &second));
        let rate =
            "requests per second 0.80 x [0.80 to 0.80], from 1,004 [1,000 to 1,008] to 803 [800 to 806]";
        assert!(said.contains(rate), "{said}");
    }

    #[test]
    fn what_only_one_side_has_recorded_is_told_too() {
        let (mut first, mut second) = (results(1.0), results(1.0));
        let row = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        first.environment = vec![row("kernel", "6.1"), row("cpu", "x"), row("ab", "2.3")];
        second.environment = vec![row("cpu", "x"), row("kernel", "6.2"), row("wrk", "4.1")];
        let said = text(&first, &second, &[]);
        let rows: Vec<&str> = said.lines().filter(|line| line.contains(" -> ")).collect();
        assert_eq!(rows, ["  kernel: 6.1 -> 6.2", "  ab: 2.3 -> not recorded", "  wrk: not recorded -> 4.1"]);
    }

    #[test]
    fn too_few_rounds_to_prove_anything_are_said_to_be_so() {
        let (mut first, mut second) = (results(1.0), results(0.5));
        assert!((least_chance(&first, &second) - 2.0 / 252.0).abs() < 1e-12);
        (first.rounds, second.rounds) = (3, 3);
        assert!((least_chance(&first, &second) - 0.1).abs() < 1e-12);
        let said = text(&first, &second, &compare(&first, &second));
        assert!(
            said.contains("3 and 3 rounds are too few to prove a single figure of 6 different"),
            "{said}"
        );
    }
}
