//! What an experiment says whose cells were run once: figures, and nothing of how sure they are.

use crate::compare::{compare, text};
use crate::fake;
use crate::report;
use crate::results::{Estimate, Judgement, Results};
use crate::summary::summarise;

const RULES: &str = r#"
    [[budget]]
    target = "a"
    against = "b"
    metric = "requests_per_second"
    at_least = 1.5
    [[claim]]
    text = "a is faster"
    left = { target = "a" }
    right = { target = "b" }
    at_least = 1.5
    [[claim]]
    text = "a is slow"
    metric = "p99_us"
    left = { target = "a" }
    at_least = 1_000_000
"#;

/// a is twice as fast as b in each of so many rounds.
fn measured(rounds: u32) -> Results {
    let surface = |target: &str, _| (if target == "a" { 2_000.0 } else { 1_000.0 }, 10.0);
    let mut results = fake::results(&["a", "b"], rounds, surface);
    summarise(&mut results, &fake::plan(&["a", "b"], RULES));
    results
}

#[test]
fn a_figure_of_one_round_has_no_interval_wherever_it_is_written() {
    let results = measured(1);
    let json = serde_json::to_value(&results).unwrap();
    let null = serde_json::Value::Null;
    for ratio in [&json["claims"][0]["ratio"], &json["budgets"][0]["ratio"]] {
        assert_eq!((&ratio["median"], &ratio["low"], &ratio["high"]), (&2.0.into(), &null, &null));
    }
    assert_eq!(json["cells"][0]["requests_per_second"]["low"], null);
    for said in [report::text_table(&results), report::markdown(&results), report::html(&results)] {
        assert!(said.contains("2,000 [n/a]") && !said.contains("[2,000"), "{said}");
    }
    let csv = crate::store::csv(&results);
    assert!(csv.lines().nth(1).unwrap().contains(",2000.000,,,"), "{csv}");
}

#[test]
fn nobody_can_be_told_from_the_best_by_one_round() {
    let results = measured(1);
    assert!(results.cells.iter().all(|cell| cell.tied_best));
    let marked: Vec<bool> = results.cells.iter().map(|cell| cell.is_marked()).collect();
    assert_eq!(marked, [true, false], "no star for what nothing is known of");
    let said = "At 10 connections, /: a leads with 2,000 requests per second; b cannot be told from it: one round has no \
                interval.";
    assert_eq!(results.findings[1], said);
    assert!(results.findings[2].ends_with("b cannot be told from it: one round has no interval."));
    // Alike in every round is another thing.
    let twice = measured(2);
    assert!(!twice.cells[1].tied_best, "{:?}", twice.cells[1]);
}

#[test]
fn a_claim_is_undecided_by_one_round_and_says_so() {
    let results = measured(1);
    for claim in &results.claims {
        let why = "one round has no interval: run more rounds";
        assert_eq!((claim.judgement, claim.why.as_deref()), (Judgement::Undecided, Some(why)));
    }
    for said in [report::text_table(&results), report::markdown(&results), report::html(&results)] {
        assert!(said.contains("one round has no interval: run more rounds"), "{said}");
    }
    let twice: Vec<Judgement> = measured(2).claims.iter().map(|claim| claim.judgement).collect();
    assert_eq!(twice, [Judgement::Reproduced, Judgement::Refuted]);
}

#[test]
fn so_is_one_of_which_one_side_has_one_round_only() {
    let mut results = measured(3);
    results.runs.retain(|run| run.cell.target == "a" || run.round == 0);
    summarise(&mut results, &fake::plan(&["a", "b"], RULES));
    assert_eq!(results.claims[0].judgement, Judgement::Undecided);
    assert_eq!(results.claims[1].judgement, Judgement::Refuted, "that is about the other side alone");
    assert!(results.cells[0].requests_per_second.interval().is_some() && results.cells[1].tied_best);
}

#[test]
fn a_budget_is_judged_by_the_figure_of_one_round_and_says_so() {
    let results = measured(1);
    let budget = &results.budgets[0];
    assert!(budget.met && !budget.clear);
    for said in [report::text_table(&results), report::markdown(&results), report::html(&results)] {
        assert!(said.contains("met by one round alone"), "{said}");
    }
    let said = "A budget is met by one round alone, which has no interval: ";
    assert!(results.findings.iter().any(|finding| finding.starts_with(said)), "{:?}", results.findings);
}

#[test]
fn one_round_proves_no_change_between_two_results() {
    let (one, many) = (measured(1), measured(30));
    let halved = |mut results: Results| {
        results.runs.iter_mut().for_each(|run| run.outcome.as_mut().unwrap().requests_per_second /= 2.0);
        results
    };
    for (first, second) in [(&one, &halved(one.clone())), (&many, &halved(one.clone()))] {
        let changes = compare(first, second);
        assert!(changes.iter().all(|change| !change.worse && !change.better), "{changes:?}");
        let said = text(first, second, &changes);
        assert!(said.contains("unclear a at 10 connections, /: requests per second 0.50 x [n/a]"), "{said}");
        assert!(said.contains("one round has no interval"), "{said}");
    }
}

#[test]
fn older_results_with_both_ends_can_still_be_read() {
    let read: Estimate = serde_json::from_str(r#"{ "median": 2.0, "low": 1.0, "high": 3.0 }"#).unwrap();
    assert_eq!(read.interval(), Some((1.0, 3.0)));
}

#[test]
fn cells_that_were_measured_once_among_others_are_counted() {
    let mut results = measured(3);
    results.runs.retain(|run| run.cell.target == "a" || run.round == 0);
    summarise(&mut results, &fake::plan(&["a", "b"], RULES));
    let said = "1 of 2 cells were measured once: nothing can be told of them";
    assert!(results.verdict.reasons().iter().any(|reason| reason == said), "{:?}", results.verdict);
}
