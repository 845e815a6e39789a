//! Validity gates: what must hold for a figure to mean what it seems to (docs/validity.md).

use load::Outcome;

use crate::results::{Results, Run, ServerUse, Verdict};
use crate::stats::variation;

/// Share of requests without a proper answer above which a run is suspect.
const ERROR_SHARE: f64 = 0.001;

/// Share of a core used by a load thread above which the load may be what limits the rate.
const CLIENT_SHARE: f64 = 0.8;

/// How far a closed loop may be from Little's law, relative.
const LITTLE: f64 = 0.05;

/// How far the time over which the server was observed may be from that of the load, relative.
const WINDOW: f64 = 0.05;

/// Spread of the rounds of a cell above which the host is too noisy.
const SPREAD: f64 = 0.1;

/// Fewest rounds from which an interval means anything.
const ROUNDS: u32 = 3;

/// A check of one run.
struct Gate {
    /// Why the run fails it, or `None`.
    check: fn(&Outcome, &ServerUse) -> Option<String>,
    /// The same about many runs.
    summary: &'static str,
}

const GATES: [Gate; 4] = [
    Gate { check: too_many_errors, summary: "more than 0.1 % of the requests failed" },
    Gate {
        check: client_was_busy,
        summary: "a load thread used more than 80 % of its core: the rate may be the load's own limit \
                  (processor time per request of the server is not touched by this)",
    },
    Gate {
        check: off_little,
        summary: "rate x mean response time is more than 5 % off the number of connections",
    },
    Gate {
        check: observed_otherwise,
        summary: "the server was observed over another time than it was loaded",
    },
];

/// Judges one run by what the load measured, and how the server was observed.
pub(crate) fn judge_run(outcome: &Outcome, server: &ServerUse) -> Verdict {
    let mut verdict = Verdict::Valid;
    let (bad, all) = (bad_answers(outcome), all(outcome));
    if outcome.requests == 0 {
        verdict.invalid("no request was answered".into());
    } else if bad * 2 > all {
        verdict.invalid(format!("{bad} of {all} answers have an error status"));
    }
    GATES.iter().filter_map(|gate| (gate.check)(outcome, server)).for_each(|reason| verdict.suspect(reason));
    verdict
}

/// Requests that were sent, however they ended.
fn all(outcome: &Outcome) -> u64 {
    outcome.requests + outcome.drained + outcome.errors.total()
}

/// Answers with an error status.
fn bad_answers(outcome: &Outcome) -> u64 {
    outcome.statuses.iter().filter(|(code, _)| **code >= 400).map(|(_, count)| count).sum()
}

/// Requests without a proper answer.
pub(crate) fn failed(outcome: &Outcome) -> u64 {
    outcome.errors.total() + bad_answers(outcome)
}

fn too_many_errors(outcome: &Outcome, _: &ServerUse) -> Option<String> {
    let (failed, all) = (failed(outcome), all(outcome));
    (failed as f64 > ERROR_SHARE * all as f64).then(|| format!("{failed} of {all} requests failed"))
}

fn client_was_busy(outcome: &Outcome, _: &ServerUse) -> Option<String> {
    let share = outcome.client.busiest_thread_share;
    let reason = || {
        format!("a load thread used {:.0} % of its core: the rate may be the load's own limit", share * 100.0)
    };
    (share > CLIENT_SHARE).then(reason)
}

/// Little's law for a closed loop without think time: connections = rate x mean response time.
fn off_little(outcome: &Outcome, _: &ServerUse) -> Option<String> {
    let connections = f64::from(outcome.plan.connections);
    // Too few turns per connection for an average to hold.
    if (outcome.requests as f64) < connections * 20.0 {
        return None;
    }
    let in_flight = outcome.requests_per_second * outcome.response_time_us.mean / 1e6;
    let off = (in_flight / connections - 1.0).abs();
    let reason =
        || format!("rate x mean response time is {:.0} % off the number of connections", off * 100.0);
    (off > LITTLE).then(reason)
}

/// Processor time per request is only right if both are of the same time.
fn observed_otherwise(outcome: &Outcome, server: &ServerUse) -> Option<String> {
    let (observed, loaded) = (server.window_s, outcome.duration_s);
    let reason = || format!("the server was observed for {observed:.2} s and loaded for {loaded:.2} s");
    ((observed / loaded - 1.0).abs() > WINDOW).then(reason)
}

/// Judges the experiment by its runs; `rates` has the requests per second of every cell's rounds.
pub(crate) fn judge_all(results: &Results, rates: &[(String, Vec<f64>)]) -> Verdict {
    let Results { runs, rounds, planned_runs, .. } = results;
    let mut verdict = Verdict::Valid;
    let is_useless = |run: &&Run| matches!(run.verdict, Verdict::Invalid(_));
    if runs.iter().filter(is_useless).count() == runs.len() {
        verdict.invalid("no run gave a figure that means anything".into());
    }
    let made = runs.len();
    if (made as u32) < *planned_runs {
        verdict.suspect(format!(
            "it was interrupted after {made} of {planned_runs} runs: some cells were not measured in every round"
        ));
    }
    if *rounds < ROUNDS {
        let plural = if *rounds == 1 { " is" } else { "s are" };
        verdict.suspect(format!("{rounds} round{plural} too few for an interval: at least {ROUNDS}"));
    }
    judge_runs(runs, &mut verdict);
    judge_spread(rates, &mut verdict);
    verdict
}

/// The same reason in many runs is said once, with the number of runs.
fn judge_runs(runs: &[Run], verdict: &mut Verdict) {
    let failures: Vec<_> = runs.iter().filter_map(|run| Some((&run.cell, run.failure.as_ref()?))).collect();
    if let Some((cell, why)) = failures.first() {
        verdict.suspect(format!("{} of {} runs failed, such as {cell}: {why}", failures.len(), runs.len()));
    }
    let is_wrong = |run: &&Run| run.failure.is_none() && matches!(run.verdict, Verdict::Invalid(_));
    let wrong = runs.iter().filter(is_wrong).count();
    if wrong > 0 {
        verdict.suspect(format!("{wrong} of {} runs got no proper answers", runs.len()));
    }
    let measured = || runs.iter().filter_map(|run| Some((run.outcome.as_ref()?, run.server.as_ref()?)));
    for gate in &GATES {
        let hit = measured().filter(|(outcome, server)| (gate.check)(outcome, server).is_some()).count();
        if hit > 0 {
            verdict.suspect(format!("in {hit} of {} runs {}", runs.len(), gate.summary));
        }
    }
}

fn judge_spread(rates: &[(String, Vec<f64>)], verdict: &mut Verdict) {
    let noisy: Vec<_> = rates
        .iter()
        .filter_map(|(name, values)| Some((name, variation(values).filter(|spread| *spread > SPREAD)?)))
        .collect();
    if let Some((name, spread)) = noisy.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
        let spread = spread * 100.0;
        let count = match noisy.len() {
            1 => "1 cell varies".into(),
            count => format!("{count} cells vary"),
        };
        verdict
            .suspect(format!("{count} by more than 10 % between rounds, most of all {name} ({spread:.0} %)"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    /// The verdict on a run that keeps every rule but for one change.
    fn judged(change: impl FnOnce(&mut Outcome, &mut ServerUse)) -> Verdict {
        let (mut outcome, mut server) = fake::measured(&fake::key("a", 10), 1_000.0, 20.0);
        change(&mut outcome, &mut server);
        judge_run(&outcome, &server)
    }

    fn answer_with(status: u16, count: u64, outcome: &mut Outcome) {
        outcome.statuses.insert(status, count);
    }

    #[test]
    fn a_good_run_is_valid_and_each_gate_catches_its_own_fault() {
        assert_eq!(judged(|_, _| {}), Verdict::Valid);
        assert_eq!(judged(|outcome, _| outcome.errors.reset = 2).reasons(), ["2 of 1002 requests failed"]);
        assert_eq!(
            judged(|outcome, _| answer_with(503, 2, outcome)).reasons(),
            ["2 of 1000 requests failed"]
        );
        let busy = judged(|outcome, _| outcome.client.busiest_thread_share = 0.9);
        assert_eq!(
            busy.reasons(),
            ["a load thread used 90 % of its core: the rate may be the load's own limit"]
        );
        let off = judged(|outcome, _| outcome.response_time_us.mean *= 0.8);
        assert_eq!(off.reasons(), ["rate x mean response time is 20 % off the number of connections"]);
        let late = judged(|_, server| server.window_s = 1.5);
        assert_eq!(late.reasons(), ["the server was observed for 1.50 s and loaded for 1.00 s"]);
    }

    #[test]
    fn what_is_just_within_a_limit_is_valid() {
        assert_eq!(judged(|outcome, _| answer_with(404, 1, outcome)), Verdict::Valid);
        assert_eq!(judged(|outcome, _| outcome.client.busiest_thread_share = 0.8), Verdict::Valid);
        let few_turns = judged(|outcome, _| {
            outcome.requests = 199;
            outcome.response_time_us.mean *= 0.5;
        });
        assert_eq!(few_turns, Verdict::Valid);
    }

    #[test]
    fn error_pages_and_silence_are_invalid() {
        let pages = judged(|outcome, _| answer_with(404, 1_000, outcome));
        assert_eq!(
            (pages.word(), &*pages.reasons()[0]),
            ("INVALID", "1000 of 1000 answers have an error status")
        );
        let silence = judged(|outcome, _| outcome.requests = 0);
        assert_eq!((silence.word(), &*silence.reasons()[0]), ("INVALID", "no request was answered"));
    }

    #[test]
    fn an_experiment_says_each_reason_once() {
        let mut results = fake::results(&["a"], 3, |_, _| (1_000.0, 20.0));
        assert_eq!(judge_all(&results, &[]), Verdict::Valid);
        (results.planned_runs, results.rounds) = (5, 2);
        for run in &mut results.runs[..2] {
            run.outcome.as_mut().unwrap().client.busiest_thread_share = 0.9;
        }
        let rates =
            [("a".to_string(), vec![80.0, 100.0, 120.0]), ("b".to_string(), vec![10.0, 100.0, 190.0])];
        let verdict = judge_all(&results, &rates);
        assert_eq!(
            (verdict.word(), verdict.reasons()),
            (
                "SUSPECT",
                &[
                    "it was interrupted after 3 of 5 runs: some cells were not measured in every round"
                        .to_string(),
                    "2 rounds are too few for an interval: at least 3".into(),
                    format!("in 2 of 3 runs {}", GATES[1].summary),
                    "2 cells vary by more than 10 % between rounds, most of all b (90 %)".into(),
                ][..]
            )
        );
    }

    #[test]
    fn an_experiment_is_invalid_only_if_no_run_is_of_any_use() {
        let mut results = fake::results(&["a"], 3, |_, _| (1_000.0, 20.0));
        let fail = |run: &mut Run| {
            run.failure = Some("it died".into());
            (run.outcome, run.server) = (None, None);
            run.verdict = Verdict::Invalid(vec!["it died".into()]);
        };
        results.runs[..2].iter_mut().for_each(fail);
        let verdict = judge_all(&results, &[]);
        assert_eq!(
            verdict,
            Verdict::Suspect(vec!["2 of 3 runs failed, such as a at 10 connections, /: it died".into()])
        );
        results.runs.iter_mut().for_each(fail);
        let verdict = judge_all(&results, &[]);
        assert_eq!(
            (verdict.word(), &*verdict.reasons()[0]),
            ("INVALID", "no run gave a figure that means anything")
        );
    }
}
