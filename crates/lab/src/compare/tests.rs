//! What is found between two results, and what is said of it.

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
    let rate = "requests per second 0.80 x [0.80 to 0.80], from 1,004 [1,000 to 1,008] to 803 [800 to 806]";
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
    // By the rounds that there are, whatever was asked for.
    let of_three = |factor| {
        let mut results = results(factor);
        results.runs.retain(|run| run.round < 3);
        results
    };
    let (first, second) = (of_three(1.0), of_three(0.5));
    let said = text(&first, &second, &compare(&first, &second));
    assert!(said.contains("3 and 3 rounds are too few to prove a single figure of 6 different"), "{said}");
    let (first, second) = (results(1.0), results(0.5));
    let said = text(&first, &second, &compare(&first, &second));
    assert!(!said.contains("too few"), "{said}");
}

/// The line about a cell of the first target.
fn line_of_a(first: &Results, second: &Results) -> String {
    let said = text(first, second, &compare(first, second));
    said.lines().find(|line| !line.starts_with(' ') && line.contains(" a at ")).unwrap_or(&said).to_owned()
}

/// The same results where so many runs of the first target failed.
fn failing(count: usize) -> Results {
    let mut failing = results(1.0);
    for run in failing.runs.iter_mut().filter(|run| run.cell.target == "a").take(count) {
        run.failure = Some("it ended\nby a signal".into());
    }
    crate::summary::summarise(&mut failing, &fake::plan(&["a", "b"], ""));
    failing
}

#[test]
fn a_cell_that_has_no_figure_any_more_is_worse() {
    let (before, after) = (results(1.0), failing(5));
    assert!(after.cells.len() == 1 && compare(&before, &after).iter().any(|change| change.worse));
    let cell = "a at 10 connections, /";
    let why = "it ended; by a signal";
    assert_eq!(
        line_of_a(&before, &after),
        format!("WORSE   {cell}: no figure any more: 0 of 5 runs gave a figure, 5 of 5 runs before: {why}")
    );
    assert!(compare(&after, &before).iter().all(|change| !change.worse));
    // That it was not run says nothing.
    let mut without = results(1.0);
    without.runs.retain(|run| run.cell.target == "b");
    crate::summary::summarise(&mut without, &fake::plan(&["a", "b"], ""));
    let changes = compare(&before, &without);
    assert!(changes.iter().all(|change| !change.worse), "{changes:?}");
    let said = text(&before, &without, &changes);
    assert!(said.contains(&format!("  only the first has run {cell}\n")), "{said}");
}

#[test]
fn runs_that_fail_more_often_are_proven_or_unclear() {
    let is_worse = |count| compare(&results(1.0), &failing(count)).iter().any(|change| change.worse);
    // Of the 252 ways to choose 5 of 10, 12 have all four that fail on one side; and all have the one.
    assert_eq!([1, 4].map(is_worse), [false, true]);
    let said = text(&results(1.0), &failing(1), &compare(&results(1.0), &failing(1)));
    assert!(
        said.contains("unclear a at 10 connections, /: 4 of 5 runs gave a figure, 5 of 5 runs"),
        "{said}"
    );
}

#[test]
fn quick_answers_that_are_errors_are_no_gain() {
    let mut after = results(1.3);
    for run in after.runs.iter_mut().filter(|run| run.cell.target == "a") {
        let outcome = run.outcome.as_mut().unwrap();
        let turned_away = outcome.requests * 3 / 10;
        outcome.statuses = [(200, outcome.requests - turned_away), (503, turned_away)].into();
    }
    let changes = compare(&results(1.0), &after);
    let worse: Vec<_> = changes.iter().filter(|change| change.worse).collect();
    assert!(worse.len() == 1 && changes.iter().any(|change| change.better), "{changes:?}");
    let said = line_of_a(&results(1.0), &after);
    assert!(
        said.contains("WORSE   a at") && said.contains("% of requests answered properly 0.70 x"),
        "{said}"
    );
    assert!(said.contains("from 100 [100 to 100] to 70.0 ["), "{said}");
}

#[test]
fn a_lower_bound_proves_what_it_bounds_and_no_more() {
    let plan = fake::searching(&["a", "b"], "");
    let held = |clients, at_least, brief| {
        let mut results = fake::searched(&[("a", clients), ("b", 500.0)], 5);
        fake::bound(&mut results, &[at_least, false]);
        if brief {
            fake::brief(&mut results, "a");
        }
        crate::summary::summarise(&mut results, &plan);
        results
    };
    let found = |first: &Results, second: &Results| {
        let changes = compare(first, second);
        [changes.iter().any(|change| change.worse), changes.iter().any(|change| change.better)]
    };
    let (many, few) = (|bound| held(19_000.0, bound, false), |bound| held(9_900.0, bound, false));
    assert_eq!(found(&many(false), &few(false)), [true, false]);
    // On a host with fewer descriptors.
    assert_eq!(found(&many(true), &few(true)), [false, false]);
    assert_eq!(found(&many(false), &few(true)), [false, false]);
    assert_eq!(found(&many(true), &few(false)), [true, false]);
    assert_eq!(found(&few(false), &many(true)), [false, true]);
    assert_eq!(found(&few(true), &many(false)), [false, false]);
    assert_eq!(found(&held(19_000.0, false, true), &few(false)), [false, false], "not held for long");
    let said = line_of_a(&many(true), &few(true));
    assert!(said.starts_with("unclear a at ") && said.contains(" to at least 9,900 ["), "{said}");
}

#[test]
fn what_is_not_the_same_about_the_experiments_is_told() {
    let (mut first, mut second) = (results(1.0), results(1.0));
    let rows = |first: &Results, second: &Results| text(first, second, &compare(first, second));
    assert!(!rows(&first, &second).contains("not the same experiment"));
    first.plan = "title = \"t\"\nwarmup_s = 1\n".into();
    second.plan = "title = \"t\"\nwarmup_s = 2\n".into();
    (second.seed, second.rounds) = (9, 7);
    second.runs.iter_mut().for_each(|run| run.outcome.as_mut().unwrap().plan.stop = load::Stop::Seconds(0.2));
    second.verdict.suspect("it was in a hurry".into());
    let said = rows(&first, &second);
    let expected = [
        "  these are not the same experiment, so that their figures may differ for that alone:",
        "  plan: warmup_s = 1 -> warmup_s = 2",
        "  rounds: 5 -> 7",
        "  seed: 1 -> 9",
        "  load of a run: 1 s after 0 s -> 0.2 s after 0 s",
        "  the second is SUSPECT: it was in a hurry",
    ];
    assert!(said.contains(&expected.join("\n")), "{said}");
}
