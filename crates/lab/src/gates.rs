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

/// Judges one run by what the load measured.
pub(crate) fn judge_run(outcome: &Outcome) -> Verdict {
    let mut verdict = Verdict::Valid;
    let errors = outcome.errors.total();
    let bad: u64 = outcome.statuses.iter().filter(|(code, _)| **code >= 400).map(|(_, count)| count).sum();
    let all = (outcome.requests + outcome.drained + errors).max(1);
    if outcome.requests == 0 {
        verdict.invalid("no request was answered".into());
    } else if bad * 2 > all {
        verdict.invalid(format!("{bad} of {all} answers have an error status"));
    }
    if (errors + bad) as f64 > ERROR_SHARE * all as f64 {
        verdict.suspect(format!("{} of {all} requests failed", errors + bad));
    }
    if outcome.client.busiest_thread_share > CLIENT_SHARE {
        let share = outcome.client.busiest_thread_share * 100.0;
        verdict.suspect(format!(
            "a load thread used {share:.0} % of its core: the rate may be the load's own limit"
        ));
    }
    if let Some(off) = off_little(outcome).filter(|off| *off > LITTLE) {
        verdict.suspect(format!(
            "rate times response time is {:.0} % off the number of connections",
            off * 100.0
        ));
    }
    verdict
}

/// Little's law for a closed loop without think time: connections = rate x mean response time.
fn off_little(outcome: &Outcome) -> Option<f64> {
    let connections = f64::from(outcome.plan.connections);
    // Too few turns per connection for an average to hold.
    if (outcome.requests as f64) < connections * 20.0 {
        return None;
    }
    let in_flight = outcome.requests_per_second * outcome.response_time_us.mean / 1e6;
    Some((in_flight / connections - 1.0).abs())
}

/// Judges the experiment by its runs.
pub(crate) fn judge_all(
    runs: &[Run],
    rounds: u32,
    interrupted: bool,
    rates: &[(String, Vec<f64>)],
) -> Verdict {
    let mut verdict = Verdict::Valid;
    if interrupted {
        verdict.suspect("it was interrupted: some cells were not measured in every round".into());
    }
    if rounds < ROUNDS {
        verdict.suspect(format!("{rounds} rounds are too few for an interval: at least {ROUNDS}"));
    }
    let failed = runs.iter().filter(|run| run.failure.is_some()).count();
    if !runs.is_empty() && failed == runs.len() {
        verdict.invalid("every run failed".into());
    } else if failed > 0 {
        verdict.suspect(format!("{failed} of {} runs failed", runs.len()));
    }
    // The same reason in many runs is said once, with the number of runs.
    for (what, part) in [
        ("invalid", "answer"),
        ("load", "a load thread used"),
        ("errors", "requests failed"),
        ("little", "rate times"),
    ] {
        let hit = runs
            .iter()
            .filter(|run| run.verdict.reasons().iter().any(|reason| reason.contains(part)))
            .count();
        if hit > 0 {
            let text = match what {
                "load" => {
                    "a load thread used more than 80 % of its core: the rate may be the load's own limit (CPU per request is not touched by this)"
                }
                "errors" => "more than 0.1 % of the requests failed",
                "little" => "rate times response time is more than 5 % off the number of connections",
                _ => "there was no proper answer",
            };
            verdict.suspect(format!("in {hit} of {} runs {text}", runs.len()));
        }
    }
    let noisy: Vec<_> =
        rates.iter().filter(|(_, values)| variation(values).is_some_and(|spread| spread > SPREAD)).collect();
    if let Some((name, values)) = noisy.first() {
        let spread = variation(values).unwrap_or(0.0) * 100.0;
        verdict.suspect(format!(
            "{} cells vary by more than 10 % between rounds, such as {name} ({spread:.0} %)",
            noisy.len()
        ));
    }
    verdict
}
