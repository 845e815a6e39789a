//! Validity gates: what must hold for a figure to mean what it seems to (docs/validity.md).

mod failures;
mod word;

use crate::outcome::Outcome;
use crate::plan::Arrivals;

pub(crate) use failures::all;
use failures::count_bad;
pub use failures::{bad_answers, failed, failed_share};
pub use word::Verdict;

/// Share of requests without a proper answer above which a load is suspect.
const ERROR_SHARE: f64 = 0.001;

/// Share of a core used by a load thread above which the load may be what limits the rate.
pub const CLIENT_SHARE: f64 = 0.8;

/// How far a closed loop may be from Little's law, relative.
const LITTLE: f64 = 0.05;

/// Fewest turns of a connection for that. A connection is idle for up to one turn at the end of a number of requests, and has
/// one of the warm-up under way at the beginning: less than these make too much of that.
const TURNS: f64 = 40.0;

/// Share of what was due that may not have been sent.
const UNSENT_SHARE: f64 = 0.01;

/// Share of what is due that must be achieved, and standard deviations of chance that it may fall short beside.
const ACHIEVED_SHARE: f64 = 0.99;
const CHANCE: f64 = 3.0;

/// How late requests may be sent, in microseconds, and as a share of the response time, both at the 99th percentile.
const LAG_US: f64 = 1000.0;
const LAG_SHARE: f64 = 0.05;

/// Share of the load's own ceiling above which it may be what limits the rate.
const CEILING_SHARE: f64 = 0.5;

/// How many times the rate a second load generator may reach.
const SECOND_CLIENT: f64 = 1.05;

/// Share of the host's processor time that its own host may take away.
const STOLEN_SHARE: f64 = 0.01;

/// Segments that may be sent again, as a share of the requests.
const RETRANSMITTED_SHARE: f64 = 0.01;

/// A check of one load.
pub struct Gate {
    /// Why the load fails it, or `None`.
    pub check: fn(&Outcome) -> Option<String>,
    /// The same about many loads.
    pub summary: &'static str,
}

/// Every gate that raises suspicion.
pub const GATES: [Gate; 12] = [
    Gate { check: too_many_errors, summary: "more than 0.1 % of the requests failed" },
    Gate {
        check: client_was_busy,
        summary: "a load thread used more than 80 % of its core: the rate may be the load's own limit \
                  (processor time per request of the server is not touched by this)",
    },
    Gate {
        check: off_little,
        summary: "rate x mean response time is more than 5 % off what is under way on the connections",
    },
    Gate { check: not_sent, summary: "more than 1 % of what was due was never sent" },
    Gate { check: falls_behind, summary: "fewer than 99 % as many requests ended as were due" },
    Gate { check: sent_late, summary: "requests were sent late" },
    Gate {
        check: no_ports,
        summary: "connections could not be made for want of ports, descriptors or a route",
    },
    Gate { check: dropped, summary: "the kernel dropped or repeated segments" },
    Gate { check: never_steady, summary: "the rate did not settle" },
    Gate { check: near_its_ceiling, summary: "the rate is more than half of what the load itself can do" },
    Gate { check: second_gets_more, summary: "a second load generator gets more than 5 % more" },
    Gate { check: stolen, summary: "the host's own host took more than 1 % of the processor time away" },
];

/// Judges a load by what it measured.
pub fn judge(outcome: &Outcome) -> Verdict {
    let mut verdict = Verdict::Valid;
    let (bad, all) = (count_bad(outcome), all(outcome));
    if outcome.answered() == 0 {
        verdict.invalid("no request was answered in the time that was measured".into());
    } else if bad * 2 > all {
        verdict.invalid(format!("{bad} of {all} answers have an error status"));
    } else if is_closed(outcome) && outcome.errors.total() * 2 > all {
        verdict.invalid(format!("{} of {all} requests got no proper answer", outcome.errors.total()));
    }
    GATES.iter().filter_map(|gate| (gate.check)(outcome)).for_each(|reason| verdict.suspect(reason));
    verdict
}

/// Whether a request that fails makes room for the next one at once. In an open loop the load is the same however its requests
/// end: what an overloaded server still answers is what is asked about.
fn is_closed(outcome: &Outcome) -> bool {
    matches!(outcome.plan.arrivals, Arrivals::Closed { .. })
}

pub(crate) fn too_many_errors(outcome: &Outcome) -> Option<String> {
    let (failed, all) = (failed(outcome), all(outcome));
    (failed as f64 > ERROR_SHARE * all as f64).then(|| format!("{failed} of {all} requests failed"))
}

/// Whether too many requests ran out of time.
pub(crate) fn times_out(outcome: &Outcome) -> bool {
    outcome.errors.timeouts() as f64 > ERROR_SHARE * all(outcome) as f64
}

fn client_was_busy(outcome: &Outcome) -> Option<String> {
    let share = outcome.client.busiest_thread_share;
    let reason = || {
        format!("a load thread used {:.0} % of its core: the rate may be the load's own limit", share * 100.0)
    };
    (share > CLIENT_SHARE).then(reason)
}

/// Whether what was measured may be the load generator's own limit.
pub fn client_is_at_its_limit(outcome: &Outcome) -> bool {
    client_was_busy(outcome).is_some()
}

/// Little's law for a closed loop (Little, 1961): connections = rate x (mean response time + think time). With pipelining a
/// connection has as many requests under way as it sends at once, and less as their answers come: if all but the last come at
/// once that is one on average, and if all come with the last as many as were sent.
fn off_little(outcome: &Outcome) -> Option<String> {
    let Arrivals::Closed { think_s } = outcome.plan.arrivals else { return None };
    let connections = f64::from(outcome.plan.connections);
    let most = connections * f64::from(outcome.plan.pipeline);
    // Too few turns per connection for an average to hold.
    if (outcome.requests as f64) < most * TURNS {
        return None;
    }
    let in_flight = outcome.requests_per_second * (outcome.response_time_us.mean / 1e6 + think_s);
    let off = in_flight / in_flight.clamp(connections, most) - 1.0;
    let what = match outcome.plan.pipeline {
        1 => "the number of connections",
        _ => "what can be under way on the connections",
    };
    (off.abs() > LITTLE)
        .then(|| format!("rate x mean response time is {:.0} % off {what}", off.abs() * 100.0))
}

fn not_sent(outcome: &Outcome) -> Option<String> {
    let offered = outcome.offered.as_ref()?;
    let (unsent, due) = (offered.unsent, offered.due);
    (unsent as f64 > UNSENT_SHARE * due as f64).then(|| {
        format!(
            "{unsent} of {due} requests that were due found every connection busy to the end: the server is overloaded, \
             or there are too few connections"
        )
    })
}

/// Whether requests pile up: in the second half of the measuring clearly fewer end than are due. Where the rate is level both
/// are the same process, a response time apart, so that chance alone moves them by the root of what is under way at either end.
pub(crate) fn falls_behind(outcome: &Outcome) -> Option<String> {
    let offered = outcome.offered.as_ref().filter(|_| outcome.plan.arrivals.is_level())?;
    let (due, ended) = (offered.due_in_second_half as f64, offered.ended_in_second_half as f64);
    let under_way = outcome.drained as f64;
    (ended < ACHIEVED_SHARE * due - CHANCE * (2.0 * under_way).sqrt()).then(|| {
        format!(
            "in the second half {:.0} % as many requests ended as were due: the server falls behind, or answers take \
             longer than half of the measuring",
            ended / due * 100.0
        )
    })
}

pub(crate) fn sent_late(outcome: &Outcome) -> Option<String> {
    let (lag, response) = (&outcome.offered.as_ref()?.send_lag_us, &outcome.response_time_us);
    // The 99th percentile, or the highest below it that there are requests enough for.
    let known = lag.percentiles().into_iter().zip(response.percentiles()).take(5);
    let (name, lag, response) =
        known.rev().find_map(|((name, lag), (_, response))| Some((name, lag?, response?)))?;
    let lag = lag as f64;
    let bound = LAG_US.max(LAG_SHARE * response as f64);
    (lag > bound).then(|| {
        format!(
            "requests were sent late, {name} {}: the load cannot keep up, or there are too few connections",
            crate::report::duration(lag)
        )
    })
}

fn no_ports(outcome: &Outcome) -> Option<String> {
    let failed = outcome.errors.connect_failed;
    (failed > 0)
        .then(|| format!("{failed} connections could not be made, for want of ports, descriptors or a route"))
}

fn dropped(outcome: &Outcome) -> Option<String> {
    let host = outcome.host;
    // A link that loses packets is there to have them sent again.
    let retransmitted = outcome.plan.link.is_none()
        && host.retransmitted_segments as f64 > RETRANSMITTED_SHARE * all(outcome) as f64;
    (host.listen_drops > 0 || host.time_wait_overflows > 0 || retransmitted).then(|| {
        format!(
            "the kernel dropped {} connections at a full backlog, gave up {} waiting ones early, and sent {} segments \
             again",
            host.listen_drops, host.time_wait_overflows, host.retransmitted_segments
        )
    })
}

fn never_steady(outcome: &Outcome) -> Option<String> {
    let steady = outcome.steady.filter(crate::outcome::Steady::never)?;
    Some(format!(
        "the rate did not settle: from second {:.1} on its first half is {:+.0} % off the second; warm up longer (--warmup), \
         or measure longer",
        steady.from_s,
        steady.change * 100.0
    ))
}

fn near_its_ceiling(outcome: &Outcome) -> Option<String> {
    let crate::Check { ceiling_per_second: ceiling, ceiling_errors: errors, .. } = outcome.check?;
    if errors > 0 {
        return Some(format!(
            "the load's own ceiling is not known: {errors} requests to a server that does nothing failed"
        ));
    }
    (outcome.requests_per_second > CEILING_SHARE * ceiling).then(|| {
        format!(
            "the rate is {:.0} % of the {ceiling:.0} requests/s that the load reaches against a server that does nothing",
            outcome.requests_per_second / ceiling.max(1.0) * 100.0
        )
    })
}

fn second_gets_more(outcome: &Outcome) -> Option<String> {
    let times = outcome.check?.second_client?;
    (times > SECOND_CLIENT).then(|| {
        format!(
            "two load generators reach {times:.2} x the rate with as many connections: the load was the limit, not the \
             server"
        )
    })
}

fn stolen(outcome: &Outcome) -> Option<String> {
    let share = outcome.host.stolen_share;
    (share > STOLEN_SHARE)
        .then(|| format!("this host's own host took {:.1} % of its processor time away", share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Distribution, Offered};

    /// A load of 10 connections for a second that keeps every rule.
    fn good() -> Outcome {
        let mut outcome = Outcome::empty(&crate::Plan { connections: 10, ..crate::Plan::new("http://x/") });
        outcome.duration_s = 1.0;
        outcome.requests = 1000;
        outcome.requests_per_second = 1000.0;
        outcome.statuses.insert(200, 1000);
        outcome.response_time_us = Distribution { count: 1000, mean: 10_000.0, ..Distribution::default() };
        outcome
    }

    fn word_and_reasons(change: impl FnOnce(&mut Outcome)) -> (&'static str, usize) {
        let mut outcome = good();
        change(&mut outcome);
        let verdict = judge(&outcome);
        (verdict.word(), verdict.reasons().len())
    }

    fn open(outcome: &mut Outcome, unsent: u64, lag_us: u64, p99_us: u64) {
        outcome.plan.arrivals = Arrivals::Open {
            rate: crate::Rate::Steady { rate: 1000.0 },
            spacing: crate::Spacing::Constant,
            seed: 1,
            session: None,
        };
        let lag = Distribution { p99: Some(lag_us), ..Distribution::default() };
        outcome.offered = Some(Offered { due: 1000, unsent, send_lag_us: lag, ..Offered::default() });
        outcome.response_time_us.p99 = Some(p99_us);
    }

    #[test]
    fn a_good_load_is_valid_and_each_gate_catches_its_own_fault() {
        assert_eq!(word_and_reasons(|_| {}), ("VALID", 0));
        assert_eq!(word_and_reasons(|outcome| outcome.errors.reset = 2), ("SUSPECT", 1));
        assert_eq!(word_and_reasons(|outcome| outcome.client.busiest_thread_share = 0.81), ("SUSPECT", 1));
        assert_eq!(word_and_reasons(|outcome| outcome.response_time_us.mean *= 0.9), ("SUSPECT", 1));
        assert_eq!(word_and_reasons(|outcome| outcome.host.listen_drops = 1), ("SUSPECT", 1));
        assert_eq!(word_and_reasons(|outcome| outcome.host.retransmitted_segments = 11), ("SUSPECT", 1));
        assert_eq!(word_and_reasons(|outcome| outcome.host.stolen_share = 0.02), ("SUSPECT", 1));
        let steady = |share, change| Some(crate::Steady { share, change, ..crate::Steady::default() });
        assert_eq!(word_and_reasons(|outcome| outcome.steady = steady(0.5, 0.04)), ("VALID", 0));
        assert_eq!(word_and_reasons(|outcome| outcome.steady = steady(0.5, -0.2)), ("SUSPECT", 1));
        let check = |ceiling_per_second, second| {
            Some(crate::Check { ceiling_per_second, second_client: Some(second), ..crate::Check::default() })
        };
        assert_eq!(word_and_reasons(|outcome| outcome.check = check(2100.0, 1.04)), ("VALID", 0));
        assert_eq!(word_and_reasons(|outcome| outcome.check = check(1900.0, 1.04)), ("SUSPECT", 1));
        assert_eq!(word_and_reasons(|outcome| outcome.check = check(2100.0, 1.06)), ("SUSPECT", 1));
        // It is an error too.
        assert_eq!(word_and_reasons(|outcome| outcome.errors.connect_failed = 2), ("SUSPECT", 2));
        assert_eq!(word_and_reasons(|outcome| open(outcome, 0, 900, 2_000)), ("VALID", 0));
        assert_eq!(word_and_reasons(|outcome| open(outcome, 11, 900, 2_000)), ("SUSPECT", 1));
        assert_eq!(word_and_reasons(|outcome| open(outcome, 0, 1_100, 2_000)), ("SUSPECT", 1));
        assert_eq!(word_and_reasons(|outcome| open(outcome, 0, 1_100, 30_000)), ("VALID", 0));
        let behind = |ended, drained| {
            word_and_reasons(|outcome| {
                open(outcome, 0, 900, 2_000);
                outcome.drained = drained;
                let offered = outcome.offered.as_mut().unwrap();
                (offered.due_in_second_half, offered.ended_in_second_half) = (500, ended);
            })
        };
        assert_eq!(behind(495, 0), ("VALID", 0));
        assert_eq!(behind(494, 0), ("SUSPECT", 1));
        // Of 100 that are under way there may be 42 more or fewer by chance.
        assert_eq!(behind(453, 100), ("VALID", 0));
        assert_eq!(behind(452, 100), ("SUSPECT", 1));
    }

    #[test]
    fn thinking_counts_for_littles_law() {
        let think = |outcome: &mut Outcome, think_s| outcome.plan.arrivals = Arrivals::Closed { think_s };
        let half = |outcome: &mut Outcome| outcome.response_time_us.mean = 5_000.0;
        assert_eq!(
            word_and_reasons(|outcome| {
                half(outcome);
                think(outcome, 0.005)
            }),
            ("VALID", 0)
        );
        assert_eq!(
            word_and_reasons(|outcome| {
                half(outcome);
                think(outcome, 0.0)
            }),
            ("SUSPECT", 1)
        );
    }

    #[test]
    fn pipelining_has_one_to_as_many_requests_under_way_as_are_sent_at_once() {
        // 10 connections, 1000 per second: 10 ms for one under way on each.
        let word = |under_way: f64| {
            let (word, _) = word_and_reasons(|outcome| {
                (outcome.plan.pipeline, outcome.requests) = (16, 10_000);
                outcome.response_time_us.mean *= under_way;
            });
            word
        };
        assert_eq!([0.9, 1.0, 8.5, 16.0, 17.0].map(word), ["SUSPECT", "VALID", "VALID", "VALID", "SUSPECT"]);
    }

    #[test]
    fn error_pages_and_silence_are_invalid() {
        assert_eq!(
            word_and_reasons(|outcome| {
                outcome.statuses.insert(503, 900);
            })
            .0,
            "INVALID"
        );
        assert_eq!(word_and_reasons(|outcome| outcome.requests = 0).0, "INVALID");
        // A connection that is reset at once flatters the rate as an error page does.
        assert_eq!(word_and_reasons(|outcome| outcome.errors.reset = 1001).0, "INVALID");
        assert_eq!(word_and_reasons(|outcome| outcome.errors.reset = 1000).0, "SUSPECT");
        // Of too much load that is what there is to see.
        let (word, _) = word_and_reasons(|outcome| {
            open(outcome, 0, 1, 10_000);
            outcome.errors.first_byte_timeout = 9_000;
        });
        assert_eq!(word, "SUSPECT");
    }
}
