//! Validity gates: what must hold for a figure to mean what it seems to (docs/validity.md).

mod failures;

use load::capacity::Capacity;
use load::verdict::{CLIENT_SHARE, GATES, Gate, failed, judge};
use load::{Host, Outcome, Stop, Verdict};

use load::sample::ServerUse;

use crate::noise::{DISTURBED, Drift, disturbed};
use crate::results::{Measured, Results, Run};
use crate::resume;
use crate::stats::variation;

/// How far the time over which the server was observed may be from that of the load, relative.
const WINDOW: f64 = 0.05;

/// Spread of the rounds of a cell above which the host is too noisy.
const SPREAD: f64 = 0.1;

/// Fewest rounds from which an interval means anything.
const ROUNDS: u32 = 3;

/// The same as [`observed_otherwise`] about many runs.
const OBSERVED_OTHERWISE: &str = "the server was observed over another time than it was loaded";

/// The same as [`busy_together`] about many runs.
const BUSY_TOGETHER: &str =
    "two loads used more than 80 % of a core that they share: the rates may be their own limit";

/// The same as [`spoilt`] about many runs.
const SPOILT: &str =
    "probes of the search missed their target before the server had drained: it may hold more";

/// The same as [`unconfirmed`] about many runs.
const UNCONFIRMED: &str = "the clients that a search found were held, but not for long";

/// Judges one run by what the load measured, and how the server was observed.
pub(crate) fn judge_run(Measured { outcome, server, beside, search }: &Measured) -> Verdict {
    let mut verdict = judge(outcome);
    let spoilt = search.as_ref().and_then(spoilt);
    let search = search.as_ref().and_then(unconfirmed);
    let disturbed = disturbed(outcome, server, beside.as_ref());
    let together = beside.as_ref().and_then(|beside| busy_together(outcome, beside));
    let reasons = [observed_otherwise(outcome, server), disturbed, search, spoilt, together];
    let beside = beside.iter().flat_map(|beside| beside_gates().map(|gate| fails_beside(gate, beside)));
    reasons.into_iter().chain(beside).flatten().for_each(|reason| verdict.suspect(reason));
    verdict
}

/// Processor time per request is only right if both are of the same time. A load of a number of requests may be over between
/// two looks: what is seen before it and behind it is a server that has nothing to do.
fn observed_otherwise(outcome: &Outcome, server: &ServerUse) -> Option<String> {
    let (observed, loaded) = (server.window_s, outcome.duration_s);
    let reason = || format!("the server was observed for {observed:.2} s and loaded for {loaded:.2} s");
    let off = observed / loaded - 1.0;
    let is_all_seen = matches!(outcome.plan.stop, Stop::Requests(_)) && off > 0.0;
    (off.abs() > WINDOW && !is_all_seen).then(reason)
}

/// Threads of two loads that are pinned to the same core have no more than that between them: each may look idle on a core that
/// is full. What is already said of one of them is not said again.
fn busy_together(outcome: &Outcome, beside: &Outcome) -> Option<String> {
    let shares = [outcome, beside].map(|load| load.client.busiest_thread_share);
    let share = shares[0] + shares[1];
    // Of several cores nobody knows which of them the busiest threads were on.
    let is_shared = outcome.plan.cpus.len() == 1 && outcome.plan.cpus == beside.plan.cpus;
    let is_said = shares.iter().any(|share| *share > CLIENT_SHARE);
    (is_shared && share > CLIENT_SHARE && !is_said).then(|| {
        format!(
            "the two loads used {:.0} % of a core that they share: the rates may be the loads' own limit",
            share * 100.0
        )
    })
}

/// What a load beside asks for is meant to be answered, all of it.
const BESIDE: [Gate; 2] = [
    Gate {
        check: |beside| (beside.answered() == 0).then(|| "no request was answered".into()),
        summary: "no request was answered",
    },
    Gate {
        check: |beside| {
            Some(failed(beside)).filter(|count| *count > 0).map(|count| format!("{count} requests failed"))
        },
        summary: "requests failed",
    },
];

/// The gates of a load beside: those of every load, but its own for the first one, which is about errors.
fn beside_gates() -> impl Iterator<Item = &'static Gate> {
    let [_errors, others @ ..] = &GATES;
    BESIDE.iter().chain(others)
}

/// Why a load beside fails a gate. What the host did meanwhile it did to both loads: the other one is asked for that.
fn fails_beside(gate: &Gate, beside: &Outcome) -> Option<String> {
    let beside = Outcome { host: Host::default(), ..beside.clone() };
    (gate.check)(&beside).map(|reason| format!("the load beside: {reason}"))
}

/// What a search found is tried for longer at the end.
fn unconfirmed(found: &Capacity) -> Option<String> {
    (!found.confirmed).then(|| format!("{:.0} clients were held, but not for long", found.at_least))
}

/// A probe that missed since the one before was not over would have the search find too little.
fn spoilt(found: &Capacity) -> Option<String> {
    let probes = match found.spoilt() {
        0 => return None,
        1 => "1 probe of the search missed its target".into(),
        count => format!("{count} probes of the search missed their target"),
    };
    Some(format!("{probes} before the server had drained: it may hold more"))
}

/// Judges the experiment by its runs; `rates` has the requests per second of every cell's rounds, and `drift` what became of
/// them from the first round to the last.
pub(crate) fn judge_all(results: &Results, rates: &[(String, Vec<f64>)], drift: Option<Drift>) -> Verdict {
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
    let once = results.cells.iter().filter(|cell| cell.rounds == 1).count();
    if once > 0 && *rounds >= ROUNDS {
        let all = results.cells.len();
        verdict.suspect(format!("{once} of {all} cells were measured once: nothing can be told of them"));
    }
    resume::reason(results).into_iter().for_each(|reason| verdict.suspect(reason));
    judge_runs(runs, &mut verdict);
    judge_spread(rates, &mut verdict);
    drift.and_then(|drift| drift.reason()).into_iter().for_each(|reason| verdict.suspect(reason));
    verdict
}

/// The same reason in many runs is said once, with the number of runs.
fn judge_runs(runs: &[Run], verdict: &mut Verdict) {
    failures::judge(runs, verdict);
    let is_wrong = |run: &&Run| run.failure.is_none() && matches!(run.verdict, Verdict::Invalid(_));
    let wrong = runs.iter().filter(is_wrong).count();
    if wrong > 0 {
        verdict.suspect(format!("{wrong} of {} runs got no proper answers", runs.len()));
    }
    let measured = || runs.iter().filter_map(|run| Some((run.outcome.as_ref()?, run.server.as_ref()?)));
    let mut say = |hit: usize, summary: &str| {
        if hit > 0 {
            verdict.suspect(format!("in {hit} of {} runs {summary}", runs.len()));
        }
    };
    for gate in &GATES {
        say(measured().filter(|(outcome, _)| (gate.check)(outcome).is_some()).count(), gate.summary);
    }
    let observed = measured().filter(|(outcome, server)| observed_otherwise(outcome, server).is_some());
    say(observed.count(), OBSERVED_OTHERWISE);
    let busy = |run: &Run| disturbed(run.outcome.as_ref()?, run.server.as_ref()?, run.beside.as_ref());
    say(runs.iter().filter_map(busy).count(), DISTURBED);
    let together = |run: &Run| busy_together(run.outcome.as_ref()?, run.beside.as_ref()?);
    say(runs.iter().filter_map(together).count(), BUSY_TOGETHER);
    for gate in beside_gates() {
        let failing = runs.iter().filter_map(|run| fails_beside(gate, run.beside.as_ref()?));
        say(failing.count(), &format!("the load beside: {}", gate.summary));
    }
    let brief = runs.iter().filter_map(|run| unconfirmed(run.search.as_ref()?));
    say(brief.count(), UNCONFIRMED);
    say(runs.iter().filter_map(|run| spoilt(run.search.as_ref()?)).count(), SPOILT);
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
        judge_run(&(outcome, server).into())
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
        assert_eq!(
            (silence.word(), &*silence.reasons()[0]),
            ("INVALID", "no request was answered in the time that was measured")
        );
    }

    #[test]
    fn an_experiment_says_each_reason_once() {
        let mut results = fake::results(&["a"], 3, |_, _| (1_000.0, 20.0));
        assert_eq!(judge_all(&results, &[], None), Verdict::Valid);
        (results.planned_runs, results.rounds) = (5, 2);
        for run in &mut results.runs[..2] {
            run.outcome.as_mut().unwrap().client.busiest_thread_share = 0.9;
        }
        let rates =
            [("a".to_string(), vec![80.0, 100.0, 120.0]), ("b".to_string(), vec![10.0, 100.0, 190.0])];
        let verdict = judge_all(&results, &rates, None);
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
        let verdict = judge_all(&results, &[], None);
        assert_eq!(
            verdict,
            Verdict::Suspect(vec!["2 of 3 runs failed, such as a at 10 connections, /: it died".into()])
        );
        results.runs.iter_mut().for_each(fail);
        let verdict = judge_all(&results, &[], None);
        assert_eq!(
            (verdict.word(), &*verdict.reasons()[0]),
            ("INVALID", "no run gave a figure that means anything")
        );
    }

    #[test]
    fn an_experiment_says_what_was_not_held_for_long() {
        let mut results = fake::searched(&[("a", 1_000.0)], 3);
        assert_eq!(judge_all(&results, &[], None), Verdict::Valid);
        fake::brief(&mut results, "a");
        let reason = format!("in 1 of 3 runs {UNCONFIRMED}");
        assert_eq!(judge_all(&results, &[], None), Verdict::Suspect(vec![reason]));
    }

    #[test]
    fn an_experiment_says_where_a_probe_spoilt_the_next() {
        let mut results = fake::searched(&[("a", 1_000.0)], 3);
        let mut probes = |kept: bool| {
            let probe = fake::probe(kept, true);
            results.runs[0].search.as_mut().unwrap().probes.push(probe);
            let measured = fake::measured(&fake::key("a", 10), 1_000.0, 20.0);
            let run = judge_run(&Measured { search: results.runs[0].search.clone(), ..measured.into() });
            (run.reasons().to_vec(), judge_all(&results, &[], None).reasons().to_vec())
        };
        assert_eq!(probes(true), (vec![], vec![]), "what is held all the same is held");
        let (run, all) = probes(false);
        let reason =
            "1 probe of the search missed its target before the server had drained: it may hold more";
        assert_eq!(run, [reason]);
        assert_eq!(all, [format!("in 1 of 3 runs {SPOILT}")]);
    }

    #[test]
    fn two_loads_on_one_core_are_judged_by_what_both_use_of_it() {
        let judged = |shares: [f64; 2], cores: [usize; 2]| {
            let load = |at: usize| {
                let (mut outcome, server) = fake::measured(&fake::key("a", 10), 1_000.0, 20.0);
                outcome.client.busiest_thread_share = shares[at];
                outcome.plan.cpus = vec![cores[at]];
                (outcome, server)
            };
            let (beside, _) = load(1);
            let run = judge_run(&Measured { beside: Some(beside.clone()), ..load(0).into() });
            let mut results = fake::results(&["a"], 3, |_, _| (1_000.0, 20.0));
            (results.runs[0].outcome, results.runs[0].beside) = (Some(load(0).0), Some(beside));
            (run.reasons().to_vec(), judge_all(&results, &[], None).reasons().to_vec())
        };
        let none = (vec![], vec![]);
        assert_eq!(judged([0.5, 0.4], [1, 2]), none, "each has a core of its own");
        assert_eq!(judged([0.5, 0.25], [1, 1]), none);
        let (run, all) = judged([0.5, 0.4], [1, 1]);
        let reason =
            "the two loads used 90 % of a core that they share: the rates may be the loads' own limit";
        assert_eq!(run, [reason]);
        assert_eq!(all, [format!("in 1 of 3 runs {BUSY_TOGETHER}")]);
        assert_eq!(judged([0.9, 0.1], [1, 1]).0.len(), 1, "that is said of the one alone");
    }

    #[test]
    fn the_load_beside_passes_the_gates_too() {
        let judged = |change: fn(&mut Outcome)| {
            let measured = || fake::measured(&fake::key("a", 10), 1_000.0, 20.0);
            let mut beside = measured().0;
            change(&mut beside);
            let mut results = fake::results(&["a"], 3, |_, _| (1_000.0, 20.0));
            results.runs[0].beside = Some(beside.clone());
            let run = judge_run(&Measured { beside: Some(beside), ..measured().into() });
            (run.reasons().to_vec(), judge_all(&results, &[], None).reasons().to_vec())
        };
        let busy: fn(&mut Outcome) = |beside| beside.client.busiest_thread_share = 0.9;
        let host: fn(&mut Outcome) = |beside| beside.host.listen_drops = 1;
        assert_eq!(judged(|_| {}), (vec![], vec![]));
        assert_eq!(judged(host), (vec![], vec![]), "the other load is asked for what the host did");
        let (run, all) = judged(busy);
        let reason =
            "the load beside: a load thread used 90 % of its core: the rate may be the load's own limit";
        assert_eq!(run, [reason]);
        assert_eq!(all, [format!("in 1 of 3 runs the load beside: {}", GATES[1].summary)]);
        let (run, all) = judged(|beside| beside.errors.reset = 1);
        assert_eq!(run, ["the load beside: 1 requests failed"]);
        assert_eq!(all, ["in 1 of 3 runs the load beside: requests failed"]);
        let (run, _) = judged(|beside| beside.errors.reset = 500);
        assert_eq!(run, ["the load beside: 500 requests failed"], "that is said once");
        let (run, _) = judged(|beside| beside.requests = 0);
        assert_eq!(run, ["the load beside: no request was answered"]);
    }
}
