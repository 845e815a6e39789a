//! Validity gates: what must hold for a figure to mean what it seems to (docs/validity.md).

use load::Outcome;

use crate::results::{Run, Verdict};
use crate::stats::variation;

/// Share of requests without a proper answer above which a run is suspect.
const ERROR_SHARE: f64 = 0.001;

/// Share of a core used by a load thread above which the load may be what limits the rate.
const CLIENT_SHARE: f64 = 0.8;

/// How far a closed loop may be from Little's law, relative.
const LITTLE: f64 = 0.05;

/// Spread of the rounds of a cell above which the host is too noisy.
const SPREAD: f64 = 0.1;

/// Fewest rounds from which an interval means anything.
const ROUNDS: u32 = 3;

/// A check of one run.
struct Gate {
    /// Why the run fails it, or `None`.
    check: fn(&Outcome) -> Option<String>,
    /// The same about many runs.
    summary: &'static str,
}

const GATES: [Gate; 3] = [
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
];

/// Judges one run by what the load measured.
pub(crate) fn judge_run(outcome: &Outcome) -> Verdict {
    let mut verdict = Verdict::Valid;
    let (bad, all) = (bad_answers(outcome), all(outcome));
    if outcome.requests == 0 {
        verdict.invalid("no request was answered".into());
    } else if bad * 2 > all {
        verdict.invalid(format!("{bad} of {all} answers have an error status"));
    }
    GATES.iter().filter_map(|gate| (gate.check)(outcome)).for_each(|reason| verdict.suspect(reason));
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

fn too_many_errors(outcome: &Outcome) -> Option<String> {
    let (failed, all) = (outcome.errors.total() + bad_answers(outcome), all(outcome));
    (failed as f64 > ERROR_SHARE * all as f64).then(|| format!("{failed} of {all} requests failed"))
}

fn client_was_busy(outcome: &Outcome) -> Option<String> {
    let share = outcome.client.busiest_thread_share;
    let reason = || {
        format!("a load thread used {:.0} % of its core: the rate may be the load's own limit", share * 100.0)
    };
    (share > CLIENT_SHARE).then(reason)
}

/// Little's law for a closed loop without think time: connections = rate x mean response time.
fn off_little(outcome: &Outcome) -> Option<String> {
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

/// Judges the experiment by its runs; `rates` has the requests per second of every cell's rounds.
pub(crate) fn judge_all(
    runs: &[Run],
    rounds: u32,
    interrupted: bool,
    rates: &[(String, Vec<f64>)],
) -> Verdict {
    let mut verdict = Verdict::Valid;
    let failed = runs.iter().filter(|run| run.failure.is_some()).count();
    let wrong =
        runs.iter().filter(|run| run.failure.is_none() && matches!(run.verdict, Verdict::Invalid(_))).count();
    if failed + wrong == runs.len() {
        verdict.invalid("no run gave a figure that means anything".into());
    }
    if interrupted {
        verdict.suspect("it was interrupted: some cells were not measured in every round".into());
    }
    if rounds < ROUNDS {
        verdict.suspect(format!("{rounds} rounds are too few for an interval: at least {ROUNDS}"));
    }
    for (count, what) in [(failed, "failed"), (wrong, "got no proper answers")] {
        if count > 0 {
            verdict.suspect(format!("{count} of {} runs {what}", runs.len()));
        }
    }
    for gate in &GATES {
        let hit = runs
            .iter()
            .filter_map(|run| run.outcome.as_ref())
            .filter(|outcome| (gate.check)(outcome).is_some())
            .count();
        if hit > 0 {
            verdict.suspect(format!("in {hit} of {} runs {}", runs.len(), gate.summary));
        }
    }
    let noisy: Vec<_> = rates
        .iter()
        .filter_map(|(name, values)| Some((name, variation(values).filter(|spread| *spread > SPREAD)?)))
        .collect();
    if let Some((name, spread)) = noisy.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
        let spread = spread * 100.0;
        verdict.suspect(format!(
            "{} cells vary by more than 10 % between rounds, most of all {name} ({spread:.0} %)",
            noisy.len()
        ));
    }
    verdict
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use load::{Client, Distribution, Errors, Plan};

    use super::*;

    /// A run of 10 connections that keeps every rule.
    fn outcome() -> Outcome {
        Outcome {
            schema: load::SCHEMA.into(),
            plan: Plan { connections: 10, ..Plan::new("http://x/") },
            threads: 1,
            duration_s: 1.0,
            requests: 1000,
            requests_per_second: 1000.0,
            drained: 0,
            bytes_received: 0,
            bytes_per_second: 0.0,
            response_time_us: Distribution { count: 1000, mean: 10_000.0, ..Distribution::default() },
            statuses: BTreeMap::from([(200, 1000)]),
            errors: Errors::default(),
            client: Client::default(),
            timeline: Vec::new(),
        }
    }

    fn run(verdict: Verdict, failure: Option<&str>) -> Run {
        let cell = crate::CellKey { target: "a".into(), connections: 10, path: "/".into(), close: false };
        let outcome = failure.is_none().then(outcome);
        Run {
            cell,
            round: 0,
            position: 0,
            outcome,
            server: None,
            failure: failure.map(String::from),
            verdict,
        }
    }

    #[test]
    fn a_good_run_is_valid_and_each_gate_catches_its_own_fault() {
        assert_eq!(judge_run(&outcome()), Verdict::Valid);
        let errors = Outcome { errors: Errors { reset: 2, ..Errors::default() }, ..outcome() };
        assert_eq!(judge_run(&errors).reasons(), ["2 of 1002 requests failed"]);
        let busy = Outcome { client: Client { busiest_thread_share: 0.9, ..Client::default() }, ..outcome() };
        assert!(judge_run(&busy).reasons()[0].starts_with("a load thread used 90 % of its core"));
        let times = Distribution { count: 1000, mean: 8_000.0, ..Distribution::default() };
        let off = Outcome { response_time_us: times, ..outcome() };
        assert!(judge_run(&off).reasons()[0].contains("20 % off"));
    }

    #[test]
    fn error_pages_and_silence_are_invalid() {
        let pages = Outcome { statuses: BTreeMap::from([(404, 1000)]), ..outcome() };
        assert_eq!(judge_run(&pages).word(), "INVALID");
        let silence = Outcome { requests: 0, requests_per_second: 0.0, ..outcome() };
        assert_eq!(judge_run(&silence).word(), "INVALID");
    }

    #[test]
    fn an_experiment_is_judged_by_its_runs() {
        let good = || run(Verdict::Valid, None);
        let steady = [("a".to_string(), vec![100.0, 101.0, 99.0])];
        assert_eq!(judge_all(&[good(), good()], 3, false, &steady), Verdict::Valid);
        assert_eq!(judge_all(&[good()], 2, true, &steady).reasons().len(), 2);
        let noisy = [("a".to_string(), vec![100.0, 150.0, 60.0])];
        assert!(judge_all(&[good()], 3, false, &noisy).reasons()[0].contains("most of all a"));
        let failed = || run(Verdict::Invalid(vec!["died".into()]), Some("died"));
        assert_eq!(judge_all(&[good(), failed()], 3, false, &steady).reasons(), ["1 of 2 runs failed"]);
        assert_eq!(judge_all(&[failed()], 3, false, &steady).word(), "INVALID");
    }
}
