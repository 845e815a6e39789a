//! What others have claimed, and what came of it here: a ratio of two cells, or a figure of one, with its interval, against
//! the claim.

use super::{Slack, is_brief, over};
use crate::plan::{Claim, Metric, Plan, Side};
use crate::results::{Cell, ClaimOutcome, Judgement, Results, Run, fastest};
use crate::stats::{estimate, ratio_of_sum};

/// Why a claim is undecided by a single round.
const ONE_ROUND: &str = "one round has no interval: run more rounds";

/// Why it is undecided by what was not seen for long.
const BRIEF: &str = "the clients that were found were not held for long";

/// Why it is undecided by an interval that would decide it.
const BOUND: &str =
    "a figure is a bound: the load came to its own limit before the server did, or ended first";

/// How every claim of a plan came out.
pub(super) fn outcomes(results: &Results, plan: &Plan) -> Vec<ClaimOutcome> {
    plan.claims.iter().map(|claim| outcome(results, claim)).collect()
}

fn outcome(results: &Results, claim: &Claim) -> ClaimOutcome {
    let get = |run: &Run| claim.metric.of(run);
    let left = best(results, &claim.left);
    let name = |cell: Option<&Cell>| cell.map_or("not measured".into(), |cell| cell.key.to_string());
    let best_of = |side: &Option<Side>| side.as_ref().and_then(|side| best(results, side));
    let (plus, right) = (best_of(&claim.plus), best_of(&claim.right));
    let slack = |best: Option<&Cell>, side: Option<&Side>| {
        let of_best = |(best, side)| Slack::of_best(results, best, named(results, side), claim.metric);
        best.zip(side).map_or_else(Slack::default, of_best)
    };
    let left_slack = slack(left, Some(&claim.left)).or(slack(plus, claim.plus.as_ref()));
    let right_slack = slack(right, claim.right.as_ref());
    let is_brief = [left, plus, right].into_iter().flatten().any(|cell| is_brief(cell, claim.metric));
    let compared = |sides| match claim.metric {
        Metric::RequestsPerSecond => sides,
        other => format!("{}: {sides}", other.name()),
    };
    let (found, sides) = match (&claim.right, &claim.plus) {
        (Some(_), None) => {
            let ratio = left.zip(right).and_then(|(left, right)| over(results, &left.key, &right.key, get));
            (ratio, format!("{} / {}", name(left), name(right)))
        }
        (Some(_), Some(_)) => {
            let values = |cell: Option<&Cell>| Some(results.values(&cell?.key, get));
            let sum = values(left).zip(values(plus)).zip(values(right));
            let ratio =
                sum.and_then(|((left, plus), right)| ratio_of_sum(&left, &plus, &right, results.seed));
            (ratio, format!("({} + {}) / {}", name(left), name(plus), name(right)))
        }
        (None, _) => {
            let figure = left.and_then(|left| estimate(&results.values(&left.key, get), results.seed));
            (figure, name(left))
        }
    };
    let judge = |interval| judge(claim, interval);
    let interval = found.filter(|_| !is_brief).and_then(|found| left_slack.widen(found, right_slack));
    let judgement = interval.map_or(Judgement::Undecided, judge);
    let by_itself = found.and_then(|found| Some(judge(found.interval()?)));
    let why = match by_itself {
        None => found.map(|_| ONE_ROUND),
        Some(by_itself) if judgement != by_itself => Some(if is_brief { BRIEF } else { BOUND }),
        Some(_) => None,
    };
    ClaimOutcome {
        text: claim.text.clone(),
        source: claim.source.clone(),
        note: claim.note.clone(),
        compared: compared(sides),
        judgement,
        why: why.map(String::from),
        ratio: found,
    }
}

/// The best cell of those that a side names: the fastest, or that which holds most clients.
fn best<'a>(results: &'a Results, side: &Side) -> Option<&'a Cell> {
    fastest(named(results, side))
}

/// The cells that a side names.
fn named<'a>(results: &'a Results, side: &Side) -> impl Iterator<Item = &'a Cell> {
    results.cells.iter().filter(|cell| side.names(&cell.key))
}

/// Reproduced where the whole interval is within the bounds, refuted where it is wholly outside.
fn judge(claim: &Claim, (low, high): (f64, f64)) -> Judgement {
    let (least, most) = (claim.at_least.unwrap_or(0.0), claim.at_most.unwrap_or(f64::INFINITY));
    if low >= least && high <= most {
        Judgement::Reproduced
    } else if high < least || low > most {
        Judgement::Refuted
    } else {
        Judgement::Undecided
    }
}

#[cfg(test)]
mod tests {
    use load::capacity::End;

    use super::*;
    use crate::fake;

    #[test]
    fn a_claim_is_reproduced_refuted_or_undecided_by_its_interval() {
        // a is twice as fast as b, give or take 10 %.
        let surface = |target: &str, round: u32| {
            let rate = 1000.0 + 50.0 * f64::from(round);
            (if target == "a" { 2.0 * rate } else { rate }, 10.0)
        };
        let mut results = fake::results(&["a", "b"], 3, surface);
        let plan = |bound: &str| {
            let sides = "left = { target = \"a\" }\nright = { target = \"b\" }";
            fake::plan(&["a", "b"], &format!("[[claim]]\ntext = \"a is faster\"\n{sides}\n{bound}\n"))
        };
        super::super::summarise(&mut results, &plan("at_least = 1"));
        let judged = |bound: &str| outcomes(&results, &plan(bound))[0].judgement;
        assert_eq!(judged("at_least = 1.5"), Judgement::Reproduced);
        assert_eq!(judged("at_least = 3"), Judgement::Refuted);
        assert_eq!(judged("at_most = 1.5"), Judgement::Refuted);
        assert_eq!(judged("at_least = 2"), Judgement::Undecided);
        results.cells.clear();
        assert_eq!(outcomes(&results, &plan("at_least = 1"))[0].ratio, None);
    }

    #[test]
    fn a_claim_is_undecided_where_a_load_at_its_limit_may_hide_the_answer() {
        let judged = |rates: [f64; 2], busy: &[&str], bound: &str| {
            let of = |target: &str| rates[usize::from(target == "b")];
            let mut results = fake::results(&["a", "b"], 3, |target, _| (of(target), 10.0));
            for run in results.runs.iter_mut().filter(|run| busy.contains(&&*run.cell.target)) {
                run.outcome.as_mut().unwrap().client.busiest_thread_share = 0.95;
            }
            let sides = "left = { target = \"a\" }\nright = { target = \"b\" }";
            let plan = fake::plan(&["a", "b"], &format!("[[claim]]\ntext = \"x\"\n{sides}\n{bound}\n"));
            super::super::summarise(&mut results, &plan);
            let claim = results.claims.remove(0);
            (claim.judgement, claim.why.as_deref().map(|why| why == BOUND))
        };
        use Judgement::{Refuted, Reproduced, Undecided};
        assert_eq!(judged([1_000.0, 1_000.0], &[], "at_least = 1.2"), (Refuted, None));
        assert_eq!(judged([1_000.0, 1_000.0], &["a", "b"], "at_least = 1.2"), (Undecided, Some(true)));
        assert_eq!(judged([6_000.0, 1_000.0], &["a"], "at_least = 1.2"), (Reproduced, None));
        assert_eq!(judged([6_000.0, 1_000.0], &["b"], "at_least = 1.2"), (Undecided, Some(true)));
        // Times are those or less.
        let mean = "metric = \"mean_us\"\nat_most = 1.2";
        assert_eq!(judged([1_000.0, 1_000.0], &["a"], mean), (Reproduced, None));
        assert_eq!(judged([1_000.0, 1_000.0], &["b"], mean), (Undecided, Some(true)));
    }

    #[test]
    fn a_claim_may_be_about_another_figure_or_about_one_side_alone() {
        let mut results = fake::results(&["a", "b"], 3, |target, _| match target {
            "a" => (2000.0, 10.0),
            _ => (1000.0, 40.0),
        });
        let said = |results: &mut Results, rest: &str| {
            let text = format!("[[claim]]\ntext = \"x\"\nleft = {{ target = \"b\" }}\n{rest}\n");
            let plan = fake::plan(&["a", "b"], &text);
            super::super::summarise(results, &plan);
            let ClaimOutcome { compared, ratio, judgement, .. } = results.claims.remove(0);
            (compared, ratio.map(|ratio| ratio.median), judgement)
        };
        let ratio = said(
            &mut results,
            "metric = \"server_cpu_us_per_request\"\nright = { target = \"a\" }\nat_most = 3",
        );
        let sides = "CPU per request: b at 10 connections, / / a at 10 connections, /";
        assert_eq!(ratio, (sides.into(), Some(4.0), Judgement::Refuted));
        let alone = said(&mut results, "metric = \"p99_us\"\nat_most = 10_000");
        assert_eq!(alone, ("p99: b at 10 connections, /".into(), Some(10_000.0), Judgement::Reproduced));
        let memory =
            said(&mut results, "metric = \"peak_rss_bytes\"\nright = { target = \"a\" }\nat_most = 1");
        assert_eq!((memory.1, memory.2), (Some(1.0), Judgement::Reproduced));
        let bytes = said(&mut results, "metric = \"bytes_per_second\"\nat_least = 2e6");
        assert_eq!((bytes.1, bytes.2), (Some(1_024_000.0), Judgement::Refuted));
        let mean = said(&mut results, "metric = \"mean_us\"\nright = { target = \"a\" }\nat_least = 2");
        assert_eq!((mean.1, mean.2), (Some(2.0), Judgement::Reproduced));
        let unknown = said(&mut results, "metric = \"recovery_s\"\nat_most = 2");
        assert_eq!((unknown.1, unknown.2), (None, Judgement::Undecided));
    }

    #[test]
    fn a_claim_may_be_about_two_sides_together_over_a_third() {
        // A line that falls steeply and then hardly: 1,000, 200, 100.
        let rate = |target: &str| match target {
            "a" => 1000.0,
            "b" => 200.0,
            _ => 100.0,
        };
        let mut results = fake::results(&["a", "b", "c"], 3, |target, _| (rate(target), 10.0));
        let claim = "[[claim]]\ntext = \"x\"\nleft = { target = \"a\" }\nplus = { target = \"c\" }\n\
                     right = { target = \"b\" }\nat_least = 2\n";
        let plan = fake::plan(&["a", "b", "c"], claim);
        super::super::summarise(&mut results, &plan);
        let ClaimOutcome { compared, ratio, judgement, .. } = &results.claims[0];
        assert_eq!((ratio.unwrap().interval(), *judgement), (Some((5.5, 5.5)), Judgement::Reproduced));
        let [a, b, c] = ["a", "b", "c"].map(|target| format!("{target} at 10 connections, /"));
        assert_eq!(*compared, format!("({a} + {c}) / {b}"));
        results.cells.retain(|cell| cell.key.target != "c");
        assert_eq!(outcomes(&results, &plan)[0].ratio, None);
    }

    #[test]
    fn a_claim_about_clients_is_undecided_where_more_than_was_found_would_change_it() {
        use Judgement::{Refuted, Reproduced, Undecided};
        let mut results = fake::searched(&[("a", 2_000.0), ("b", 1_000.0)], 3);
        let mut judged = |rest: &str, bounds: [bool; 2]| {
            let claim = format!(
                "[[claim]]\ntext = \"x\"\nmetric = \"clients_held\"\nleft = {{ target = \"a\" }}\n{rest}\n"
            );
            let plan = fake::searching(&["a", "b"], &claim);
            fake::bound(&mut results, &bounds);
            super::super::summarise(&mut results, &plan);
            results.claims.remove(0).judgement
        };
        let over_b = |bound: &str| format!("right = {{ target = \"b\" }}\n{bound}");
        for (rest, bounds, expected) in [
            (over_b("at_least = 1.5"), [false, false], Reproduced),
            (over_b("at_least = 1.5"), [true, false], Reproduced),
            (over_b("at_least = 3"), [true, false], Undecided),
            (over_b("at_least = 1.5"), [false, true], Undecided),
            (over_b("at_least = 3"), [false, true], Refuted),
            ("at_least = 1_500".into(), [true, true], Reproduced),
            ("at_most = 2_500".into(), [false, false], Reproduced),
            ("at_most = 2_500".into(), [true, false], Undecided),
            ("at_most = 1_500".into(), [true, false], Refuted),
        ] {
            assert_eq!(judged(&rest, bounds), expected, "{rest} {bounds:?}");
        }
    }

    #[test]
    fn a_side_of_several_cells_may_hold_more_where_any_of_them_may() {
        // Of a's two paths the lesser one ended at a limit of the load: it may hold more than the other.
        let claim = |bound: &str| {
            format!(
                "[[claim]]\ntext = \"x\"\nmetric = \"clients_held\"\nleft = {{ target = \"a\" }}\n{bound}\n"
            )
        };
        let over_b = "right = { target = \"b\" }\nat_most = 3";
        let results = || {
            let mut results = fake::searched(&[("a", 2_000.0), ("b", 1_000.0)], 3);
            let mut lesser = fake::searched(&[("a", 500.0)], 3).runs;
            lesser.iter_mut().for_each(|run| run.cell.path = "/lesser".into());
            results.runs.extend(lesser);
            results
        };
        let judged = |bound: &str, is_limited: bool| {
            let mut plan = fake::searching(&["a", "b"], &claim(bound));
            plan.paths.push("/lesser".into());
            let mut results = results();
            let lesser = results.runs.iter_mut().filter(|run| is_limited && run.cell.path == "/lesser");
            lesser.for_each(|run| run.search.as_mut().unwrap().end = End::Generator);
            super::super::summarise(&mut results, &plan);
            results.claims.remove(0).judgement
        };
        for bound in ["at_most = 2_500", over_b] {
            assert_eq!(judged(bound, false), Judgement::Reproduced, "{bound}");
            assert_eq!(judged(bound, true), Judgement::Undecided, "{bound}");
        }
    }

    #[test]
    fn a_claim_about_clients_that_were_not_held_for_long_is_undecided() {
        let claim = "[[claim]]\ntext = \"x\"\nmetric = \"clients_held\"\nleft = { target = \"a\" }\nat_least = 1.5\n\
                     right = { target = \"b\" }\n";
        let plan = fake::searching(&["a", "b"], claim);
        for brief in ["a", "b"] {
            let mut results = fake::searched(&[("a", 2_000.0), ("b", 1_000.0)], 3);
            fake::brief(&mut results, brief);
            super::super::summarise(&mut results, &plan);
            assert_eq!(results.claims[0].judgement, Judgement::Undecided, "{brief}");
        }
    }

    #[test]
    fn a_recovery_that_the_run_did_not_see_the_end_of_keeps_no_bound() {
        // A second each of 100, 500 and 100 requests per second; all but the first are slow.
        let recovering = |p99s: &[u64]| {
            let mut results = fake::results(&["a"], 3, |_, _| (1_000.0, 10.0));
            for run in &mut results.runs {
                let outcome = run.outcome.as_mut().unwrap();
                outcome.plan.arrivals = load::Arrivals::Open {
                    rate: load::Rate::Steps { rates: vec![100.0, 500.0, 100.0], each_s: 2.0 },
                    spacing: load::Spacing::Poisson,
                    seed: 1,
                    session: None,
                };
                outcome.duration_s = 6.0;
                let second = |(at_s, p99_us): (u64, &u64)| load::Second {
                    at_s,
                    length_s: 1,
                    requests: 100,
                    p99_us: *p99_us,
                    ..load::Second::default()
                };
                outcome.timeline = (0..).zip(p99s).map(second).collect();
            }
            let claim = |bound: &str| {
                format!(
                    "[[claim]]\ntext = \"x\"\nmetric = \"recovery_s\"\nleft = {{ target = \"a\" }}\n{bound}\n"
                )
            };
            ["at_most = 5", "at_most = 1.5", "at_least = 1"].map(|bound| {
                let plan = fake::plan(&["a"], &claim(bound));
                super::super::summarise(&mut results, &plan);
                results.claims.remove(0).judgement
            })
        };
        use Judgement::{Refuted, Reproduced, Undecided};
        assert_eq!(recovering(&[10, 10, 90, 90, 90, 10]), [Reproduced; 3]);
        assert_eq!(recovering(&[10, 10, 90, 90, 90, 90]), [Undecided, Refuted, Reproduced]);
    }
}
