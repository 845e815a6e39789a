//! From runs to findings: what the rounds of each cell come to, which cells are best, and how budgets came out.

mod beside;
mod claims;
mod findings;
mod limit;
pub(crate) mod measured;
mod queueing;
mod scaling;
mod searched;
mod steadiness;

use std::collections::{BTreeMap, BTreeSet};

use load::verdict::failed;

use crate::error::Error;
use crate::gates::judge_all;
use crate::key::CellKey;
use crate::noise::{self, Drift};
use crate::plan::{Budget, Metric, Plan};
use crate::recovery;
use crate::results::{BudgetOutcome, Cell, Estimate, Results, Run, fastest};
use crate::stats::{estimate, median, ratio, tied};
use crate::workers::Workers;
pub use limit::Slack;

/// Fills in what follows from the runs that there are.
pub(crate) fn summarise(results: &mut Results, plan: &Plan) {
    (results.cells, results.unmeasured) = measured::cells(results, plan);
    mark_best(results);
    results.budgets = plan.budgets.iter().flat_map(|budget| outcomes(budget, results, plan)).collect();
    results.claims = claims::outcomes(results, plan);
    let rates = |cell: &Cell| (cell.key.to_string(), results.values(&cell.key, Run::figure));
    let rates: Vec<_> = results.cells.iter().map(rates).collect();
    let drift = Drift::of(results);
    noise::note(results, drift);
    results.verdict = judge_all(results, &rates, drift);
    results.findings = findings::findings(results);
    results.findings.extend(searched::sentences(results));
    results.findings.extend(scaling::sentences(results));
    results.findings.extend(queueing::sentences(results));
    results.findings.extend(beside::sentences(results));
    results.findings.extend(steadiness::sentences(results));
    results.findings.extend(measured::sentence(results));
}

/// Judges finished results anew: the rules of the program that made them may have been others.
///
/// # Errors
/// The plan that they were made by is none to this program.
pub fn judge_again(results: &mut Results) -> Result<(), Error> {
    let plan = Plan::parse(&results.plan, &results.name)?;
    let is_quick = results.command.split_whitespace().any(|word| word == "--quick");
    summarise(results, &if is_quick { plan.quicker() } else { plan });
    Ok(())
}

impl Metric {
    fn of(self, run: &Run) -> Option<f64> {
        match self {
            Metric::ServerCpuUsPerRequest => run.cpu(),
            Metric::RequestsPerCpuSecond => Some(1e6 / run.cpu()?),
            Metric::RequestsPerSecond => run.rate(),
            Metric::BytesPerSecond => run.bytes_per_second(),
            Metric::MeanUs => run.mean(),
            Metric::P50Us => run.p50(),
            Metric::P99Us => run.p99(),
            Metric::PeakRssBytes => run.peak_rss(),
            Metric::BesideRequestsPerSecond => run.beside_rate(),
            Metric::BesideP99Us => run.beside_p99(),
            Metric::RecoveryS => recovery::seconds(run.outcome.as_ref()?),
            Metric::WorkersVariation => Some(Workers::of(run.server.as_ref()?)?.variation),
            Metric::ClientsHeld => run.clients(),
        }
    }
}

fn cell(results: &Results, key: &CellKey) -> Option<Cell> {
    let over = |get: &dyn Fn(&Run) -> Option<f64>| estimate(&results.values(key, get), results.seed);
    let outcomes = results.runs.iter().filter(|run| run.cell == *key).filter_map(|run| run.outcome.as_ref());
    Some(Cell {
        key: key.clone(),
        rounds: results.sound(key).count() as u32,
        held: searched::held(results, key),
        requests_per_second: over(&Run::rate)?,
        bytes_per_second: over(&Run::bytes_per_second),
        p50_us: over(&Run::p50),
        p99_us: over(&Run::p99),
        server_cpu_us_per_request: over(&Run::cpu),
        peak_rss_bytes: over(&Run::peak_rss),
        errors: outcomes.map(failed).sum(),
        beside: beside::of(results, key),
        tied_best: false,
        ratio_to_best: None,
    })
}

/// Cells that differ only in their target, by what they have in common.
fn groups(cells: &[Cell]) -> BTreeMap<CellKey, Vec<&Cell>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for cell in cells {
        groups.entry(cell.key.without_contender()).or_default().push(cell);
    }
    groups
}

/// Marks in each group the fastest cell and those that cannot be told from it: where the interval of the ratio
/// to the fastest includes 1, or there is none, or where the figure is a lower bound. Each is compared on its own, and nothing is
/// corrected for how many there are (docs/validity.md says what that leaves out).
fn mark_best(results: &mut Results) {
    let best: Vec<CellKey> = groups(&results.cells)
        .values()
        .filter_map(|group| Some(fastest(group.iter().copied())?.key.clone()))
        .collect();
    let to_best = |cell: &Cell| {
        let best = best.iter().find(|best| cell.key.of(best) == **best)?;
        let ratio = over(results, &cell.key, best, Run::figure)?;
        let is_best = cell.key == *best;
        // Over itself it is 1, whatever its rounds are.
        let itself = Estimate { median: 1.0, low: ratio.low.and(Some(1.0)), high: ratio.high.and(Some(1.0)) };
        Some((if is_best { itself } else { ratio }, is_best))
    };
    let found: Vec<_> = results.cells.iter().map(to_best).collect();
    for (cell, found) in results.cells.iter_mut().zip(found) {
        cell.ratio_to_best = found.map(|(ratio, _)| ratio);
        let may_be_more = cell.held.as_ref().is_some_and(|held| held.at_least);
        cell.tied_best = found.is_some_and(|(ratio, is_best)| is_best || may_be_more || tied(&ratio));
    }
}

/// Whether a figure of a cell was seen for a short while only, so that it tells nothing of what lasts.
pub(crate) fn is_brief(cell: &Cell, metric: Metric) -> bool {
    metric == Metric::ClientsHeld && cell.held.as_ref().is_some_and(|held| held.brief)
}

/// A figure of one cell over that of another.
fn over(
    results: &Results,
    key: &CellKey,
    other: &CellKey,
    get: impl Fn(&Run) -> Option<f64>,
) -> Option<Estimate> {
    ratio(&results.values(key, &get), &results.values(other, &get), results.seed)
}

/// How a budget came out under every load of its target that it is for: where a target has several settings, with the best.
fn outcomes(budget: &Budget, results: &Results, plan: &Plan) -> Vec<BudgetOutcome> {
    let own = |key: &CellKey| {
        key.target == budget.target
            && budget.connections.is_none_or(|connections| connections == key.connections)
            && budget.close.is_none_or(|close| close == key.close)
    };
    let cells = plan.cells().into_iter().filter(own);
    let loads: BTreeSet<CellKey> = cells.map(|key| key.without_setting()).collect();
    loads.iter().map(|load| outcome(budget, results, load)).collect()
}

/// The best setting of a target under a load.
struct Best {
    name: String,
    values: Vec<f64>,
    slack: Slack,
    is_brief: bool,
}

fn best(results: &Results, target: &str, load: &CellKey, metric: Metric) -> Best {
    let same =
        |cell: &&Cell| cell.key.target == target && cell.key.without_contender() == load.without_contender();
    let settings = || results.cells.iter().filter(same);
    let worths = settings().filter_map(|cell| {
        let values = results.values(&cell.key, |run| metric.of(run));
        let worth = if metric.more_is_better() { median(&values)? } else { -median(&values)? };
        Some((worth, cell, values))
    });
    let best = worths.max_by(|a, b| a.0.total_cmp(&b.0));
    let none =
        || Best { name: target.to_owned(), values: Vec::new(), slack: Slack::default(), is_brief: false };
    best.map_or_else(none, |(_, cell, values)| Best {
        name: cell.key.contender(),
        values,
        slack: Slack::of_best(results, cell, settings(), metric),
        is_brief: is_brief(cell, metric),
    })
}

fn outcome(budget: &Budget, results: &Results, load: &CellKey) -> BudgetOutcome {
    let Budget { target, against, metric, at_most, at_least, .. } = budget;
    let (own, other) = (best(results, target, load, *metric), best(results, against, load, *metric));
    let ratio = ratio(&own.values, &other.values, results.seed);
    let keeps =
        |ratio: f64| at_most.is_none_or(|most| ratio <= most) && at_least.is_none_or(|least| ratio >= least);
    let bounds = [("at most", at_most), ("at least", at_least)];
    let bounds: Vec<_> =
        bounds.iter().filter_map(|(word, bound)| Some(format!("{word} {:.2}", (**bound)?))).collect();
    BudgetOutcome {
        text: format!(
            "{} / {}, {}, {}: {}",
            own.name,
            other.name,
            metric.name(),
            load.load(),
            bounds.join(" and ")
        ),
        met: ratio.is_some_and(|ratio| keeps(ratio.median)),
        // The bounds leave one range of ratios, so what holds at both ends of an interval holds within.
        clear: ratio.filter(|_| !own.is_brief && !other.is_brief).is_some_and(|ratio| {
            match own.slack.widen(ratio, other.slack) {
                None => false,
                Some((low, high)) if keeps(ratio.median) => keeps(low) && keeps(high),
                Some((low, high)) => {
                    at_most.is_some_and(|most| low > most) || at_least.is_some_and(|least| high < least)
                }
            }
        }),
        ratio,
    }
}

#[cfg(test)]
mod tests {
    use load::Verdict;

    use super::*;
    use crate::fake;

    const PLAN: &str = r#"
        title = "t"
        connections = [10]
        paths = ["/"]
        duration_s = 1
        [[target]]
        name = "a"
        model = "reactor"
        [[target]]
        name = "b"
        model = "reactor"
        [[target]]
        name = "c"
        model = "reactor"
        [[budget]]
        target = "a"
        against = "b"
        metric = "server_cpu_us_per_request"
        at_most = 1.1
        [[budget]]
        target = "a"
        against = "b"
        metric = "requests_per_cpu_second"
        at_least = 1.0
        [[budget]]
        target = "c"
        against = "b"
        metric = "requests_per_second"
        at_least = 0.5
        at_most = 2.0
    "#;

    /// a and b are alike but for the noise of the rounds, c is half as fast; b costs least.
    fn summarised(change: impl FnOnce(&mut Results)) -> Results {
        let surface = |target: &str, round: u32| {
            let noise = [0.98, 1.0, 1.03][round as usize];
            match target {
                "a" => (10_000.0 * noise, 11.5),
                "b" => (10_100.0 / noise, 10.0),
                _ => (5_000.0 * noise, 20.0),
            }
        };
        let mut results = fake::results(&["a", "b", "c"], 3, surface);
        change(&mut results);
        summarise(&mut results, &Plan::parse(PLAN, "x.toml").unwrap());
        results
    }

    #[test]
    fn cells_are_medians_over_rounds_and_the_best_are_those_that_cannot_be_told_apart() {
        let results = summarised(|_| {});
        let rates: Vec<f64> = results.cells.iter().map(|cell| cell.requests_per_second.median).collect();
        assert_eq!(rates, [10_000.0, 10_100.0, 5_000.0]);
        let best: Vec<bool> = results.cells.iter().map(|cell| cell.tied_best).collect();
        assert_eq!(best, [true, true, false]);
        let ratio = |at: usize| results.cells[at].ratio_to_best.unwrap().median;
        assert_eq!((ratio(1), ratio(2)), (1.0, 5_000.0 / 10_100.0));
        assert_eq!(results.cells[0].server_cpu_us_per_request.unwrap().median, 11.5);
        assert_eq!(results.verdict, Verdict::Valid);
    }

    #[test]
    fn results_of_an_older_program_are_judged_by_the_rules_of_this_one() {
        let mut results = summarised(|results| results.plan = PLAN.into());
        let judged = serde_json::to_value(&results).unwrap();
        results.cells.truncate(1);
        results.budgets.clear();
        results.verdict = Verdict::Invalid(vec!["an older rule".into()]);
        judge_again(&mut results).unwrap();
        assert_eq!(serde_json::to_value(&results).unwrap(), judged);
        results.plan = "title = 1".into();
        assert!(judge_again(&mut results).is_err());
    }

    #[test]
    fn budgets_compare_medians_and_say_so_in_words() {
        let results = summarised(|_| {});
        let said = results.budgets.iter().map(|budget| (budget.text.as_str(), budget.met, budget.clear));
        let said: Vec<_> = said.collect();
        assert_eq!(
            said,
            [
                ("a / b, CPU per request, 10 connections, /: at most 1.10", false, true),
                ("a / b, requests per CPU second, 10 connections, /: at least 1.00", false, true),
                (
                    "c / b, requests per second, 10 connections, /: at most 2.00 and at least 0.50",
                    false,
                    false
                ),
            ]
        );
        let ratios: Vec<f64> = results.budgets.iter().map(|budget| budget.ratio.unwrap().median).collect();
        assert!((ratios[0] - 1.15).abs() < 1e-9 && (ratios[1] - 1.0 / 1.15).abs() < 1e-9, "{ratios:?}");
        assert!((ratios[2] - 50.0 / 101.0).abs() < 1e-9, "{ratios:?}");
    }

    #[test]
    fn a_budget_about_clients_is_not_clear_where_more_than_was_found_would_change_it() {
        let mut results = fake::searched(&[("a", 2_000.0), ("b", 1_000.0)], 3);
        let budget =
            "[[budget]]\ntarget = \"a\"\nagainst = \"b\"\nmetric = \"clients_held\"\nat_least = 1.5\n";
        let plan = fake::searching(&["a", "b"], budget);
        for (bounds, clear) in [([false, false], true), ([true, false], true), ([false, true], false)] {
            fake::bound(&mut results, &bounds);
            summarise(&mut results, &plan);
            assert_eq!((results.budgets[0].met, results.budgets[0].clear), (true, clear), "{bounds:?}");
        }
        fake::bound(&mut results, &[false, false]);
        fake::brief(&mut results, "a");
        summarise(&mut results, &plan);
        assert!(!results.budgets[0].clear, "not held for long");
    }

    #[test]
    fn a_budget_without_figures_is_not_met() {
        let results = summarised(|results| results.runs.retain(|run| run.cell.target != "b"));
        assert!(results.budgets.iter().all(|budget| !budget.met && budget.ratio.is_none()));
    }

    #[test]
    fn runs_that_failed_or_mean_nothing_give_no_figures() {
        let results = summarised(|results| {
            let of_a = results.runs.iter_mut().filter(|run| run.cell.target == "a");
            for (run, failure) in of_a.zip([true, false]) {
                run.outcome.as_mut().unwrap().requests_per_second = 1e9;
                run.failure = failure.then(|| "it ended".into());
                run.verdict = Verdict::Invalid(vec!["it ended".into()]);
            }
        });
        let a = &results.cells[0];
        assert_eq!((a.rounds, a.requests_per_second.median), (1, 10_300.0));
    }

    #[test]
    fn a_percentile_that_a_round_lacks_is_not_the_median_of_the_others() {
        let results =
            summarised(|results| results.runs[0].outcome.as_mut().unwrap().response_time_us.p99 = None);
        assert!(results.cells[0].p99_us.is_none() && results.cells[0].p50_us.is_some());
    }
}
