//! What is not the same about two results beside their figures: the plan, the hosts, and what can be trusted of either.

use std::collections::BTreeSet;

use load::Stop;

use crate::key::CellKey;
use crate::results::Results;

/// A row each of what is not the same about the two experiments, and where they ran; then what is doubtful about either.
pub(super) fn rows(first: &Results, second: &Results) -> String {
    let mut rows = String::new();
    let plans = differing(&plan(first), &plan(second));
    if !plans.is_empty() {
        rows += "  these are not the same experiment, so that their figures may differ for that alone:\n";
        rows += &plans;
    }
    rows += &differing(&first.environment, &second.environment);
    rows += &only_in("first", first, second);
    rows += &only_in("second", second, first);
    rows += &(doubts("first", first) + &doubts("second", second));
    if rows.is_empty() { rows } else { rows + "\n" }
}

/// What was run, as names and values.
fn plan(results: &Results) -> Vec<(String, String)> {
    let Results { name, rounds, seed, plan, runs, .. } = results;
    let mut rows = vec![
        ("experiment".to_owned(), name.clone()),
        ("plan".to_owned(), plan.clone()),
        ("rounds".to_owned(), rounds.to_string()),
        ("seed".to_owned(), seed.to_string()),
    ];
    // The quick form of a plan has the same text.
    let measured = runs.iter().find_map(|run| Some((run.outcome.as_ref()?, run.search.as_ref())));
    if let Some((outcome, search)) = measured {
        let load = match (search, outcome.plan.stop) {
            (Some(search), _) => format!("probes of {} s", search.probe_s),
            (None, Stop::Seconds(seconds)) => format!("{seconds} s"),
            (None, Stop::Requests(requests)) => format!("{requests} requests"),
        };
        rows.push(("load of a run".into(), format!("{load} after {} s", outcome.plan.warmup_s)));
    }
    rows
}

/// What is not the same of two lists of names and values, and what only one of them has.
fn differing(first: &[(String, String)], second: &[(String, String)]) -> String {
    fn of<'a>(all: &'a [(String, String)], name: &str) -> Option<&'a str> {
        all.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in first.iter().chain(second) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut rows = String::new();
    for name in names {
        let (before, after) = (of(first, name), of(second, name));
        if before != after {
            let [before, after] = lines(before, after).map(|line| line.map_or("not recorded".into(), short));
            rows += &format!("  {name}: {before} -> {after}\n");
        }
    }
    rows
}

/// The first line of each of two texts that is not that of the other.
fn lines<'a>(before: Option<&'a str>, after: Option<&'a str>) -> [Option<&'a str>; 2] {
    let (Some(first), Some(second)) = (before, after) else { return [before, after] };
    let same = first.lines().zip(second.lines()).take_while(|(a, b)| a == b).count();
    [first, second].map(|text| Some(text.lines().nth(same).unwrap_or_default()))
}

fn short(line: &str) -> String {
    line.trim().chars().take(60).collect()
}

/// How many cells were run in one of them and not in the other.
fn only_in(name: &str, one: &Results, other: &Results) -> String {
    fn run(results: &Results) -> BTreeSet<&CellKey> {
        results.runs.iter().map(|run| &run.cell).collect()
    }
    let (one, other) = (run(one), run(other));
    let only: Vec<_> = one.difference(&other).collect();
    match only[..] {
        [] => String::new(),
        [cell] => format!("  only the {name} has run {cell}\n"),
        [cell, ..] => format!("  only the {name} has run {} cells, such as {cell}\n", only.len()),
    }
}

/// Why the figures of one of them need care, or mean nothing.
fn doubts(name: &str, results: &Results) -> String {
    results.verdict.sentences_of(&format!("the {name}")).map(|line| format!("  {line}\n")).collect()
}
