//! What a probe of a search says: whether it kept the target, how clearly, and whose fault it was where not.

use crate::outcome::Outcome;
use crate::threshold::{Finding, Threshold};
use crate::verdict::{self, Verdict};

/// Why a probe does not count as one that kept the target; empty where it does. Beside the target itself, what was offered
/// must be what the level says, and answers must be answers: a server that falls behind has kept nothing yet. What too few
/// answers leave open is no miss.
pub(super) fn missed(target: &[Threshold], outcome: &Outcome) -> Vec<String> {
    let missed = target.iter().filter_map(|threshold| match threshold.found_in(outcome) {
        Finding::Missed(why) => Some(why),
        Finding::Kept | Finding::Unknown(_) => None,
    });
    let mut reasons: Vec<String> = missed.collect();
    if outcome.offered.as_ref().is_some_and(|offered| offered.unsent > 0) {
        reasons.push("not all that was due could be sent: every connection was busy".into());
    }
    reasons.extend(verdict::falls_behind(outcome));
    if let Verdict::Invalid(why) = &outcome.verdict {
        reasons.extend(why.first().cloned());
    } else if !target.iter().any(Threshold::is_of_errors) {
        reasons.extend(verdict::too_many_errors(outcome));
    }
    reasons
}

/// What of the target too few answers leave open.
pub(super) fn unknown(target: &[Threshold], outcome: &Outcome) -> Vec<String> {
    let unknown = target.iter().filter_map(|threshold| match threshold.found_in(outcome) {
        Finding::Unknown(why) => Some(why),
        Finding::Kept | Finding::Missed(_) => None,
    });
    unknown.collect()
}

/// Whether a probe kept the target so well that no second look is needed: each figure by a factor of 2 at least, with what
/// chance may have added to it, and no gate says that the figures need care.
pub(super) fn clearly_kept(target: &[Threshold], outcome: &Outcome) -> bool {
    outcome.verdict == Verdict::Valid && target.iter().all(|threshold| threshold.is_clearly_kept_by(outcome))
}

/// Whether a probe missed for want of connections alone: they were all busy when requests were due, and the answers themselves
/// came in time. Then it says nothing of the server.
pub(super) fn lacks_connections(target: &[Threshold], outcome: &Outcome) -> bool {
    let Some(offered) = &outcome.offered else { return false };
    let waited = offered.unsent > 0 || verdict::sent_late(outcome).is_some();
    // Connections that wait for a server that does not answer are busy for that.
    if verdict::times_out(outcome) {
        return false;
    }
    if !waited || verdict::client_is_at_its_limit(outcome) || offered.service_time_us.count == 0 {
        return false;
    }
    let served = Outcome {
        response_time_us: offered.service_time_us.clone(),
        // What was sent late is no answer that came late.
        response_time_histogram: String::new(),
        ..outcome.clone()
    };
    target.iter().all(|threshold| threshold.missed_by(&served).is_none())
}

/// Whether more connections are trouble for a server: a greater share of its requests fails with them, and too great a one for the
/// target, or for a load to be trusted where that says nothing of errors.
pub(super) fn is_troubled(target: &[Threshold], before: &Outcome, more: &Outcome) -> bool {
    let mut of_errors = target.iter().filter(|threshold| threshold.is_of_errors()).peekable();
    let too_many = match of_errors.peek() {
        Some(_) => of_errors.any(|threshold| threshold.missed_by(more).is_some()),
        None => verdict::too_many_errors(more).is_some(),
    };
    too_many && verdict::failed_share(more) > verdict::failed_share(before)
}

/// What went wrong with the requests of a probe: `3 reset, 2 first byte timeout`.
pub(super) fn errors(outcome: &Outcome) -> Option<String> {
    let named = outcome.errors.named().into_iter().filter(|(_, count)| *count > 0);
    let said: Vec<String> =
        named.map(|(name, count)| format!("{count} {}", name.replace('_', " "))).collect();
    (!said.is_empty()).then(|| format!("errors: {}", said.join(", ")))
}

/// Whether a miss may be the load generator's own: connections that could not be made for want of ports or descriptors, or a
/// thread that is busy all the time, and nothing that only the server can have done. Where such a thread was busy, a request may
/// have run out of time for that; where it was idle, it waited for the server.
pub(super) fn is_client_bound(outcome: &Outcome) -> bool {
    let (own, timeouts) = (outcome.errors.connect_failed, outcome.errors.timeouts());
    let servers = verdict::failed(outcome) - own - timeouts;
    own > servers + timeouts || servers == 0 && verdict::client_is_at_its_limit(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Distribution, Offered};
    use crate::plan::Plan;

    #[test]
    fn a_busy_load_may_be_why_answers_are_late_and_not_why_connections_are_reset() {
        let mut busy = Outcome::empty(&Plan::new("http://x/"));
        busy.client.busiest_thread_share = 0.99;
        assert!(is_client_bound(&busy));
        busy.errors.first_byte_timeout = 5_000;
        assert!(is_client_bound(&busy), "a busy load may be why requests ran out of time");
        busy.errors.reset = 1;
        assert!(!is_client_bound(&busy));
        // An idle load that waits in vain waits for the server, whatever else went wrong once.
        let mut idle = Outcome::empty(&Plan::new("http://x/"));
        (idle.errors.first_byte_timeout, idle.errors.connect_failed) = (5_000, 1);
        assert!(!is_client_bound(&idle));
        idle.errors.connect_failed = 5_001;
        assert!(is_client_bound(&idle));
    }

    #[test]
    fn only_answers_that_came_in_time_once_sent_miss_for_want_of_connections() {
        let target = ["p99<50ms".parse().unwrap()];
        let lacks = |unsent: u64, service_us: u64, timeouts: u64| {
            let times = Distribution { count: 10_000, p99: Some(service_us), ..Distribution::default() };
            let offered = Offered { due: 10_000, unsent, service_time_us: times, ..Offered::default() };
            let mut outcome = Outcome { offered: Some(offered), ..Outcome::empty(&Plan::new("http://x/")) };
            (outcome.requests, outcome.errors.first_byte_timeout) = (10_000 - timeouts, timeouts);
            lacks_connections(&target, &outcome)
        };
        assert!(lacks(1, 30_000, 0) && !lacks(0, 30_000, 0) && !lacks(1, 60_000, 0));
        // Two per cent of time-outs keep connections busy that others wait for.
        assert!(lacks(1, 30_000, 10) && !lacks(1, 30_000, 200));
    }

    #[test]
    fn errors_count_even_where_the_target_says_nothing_of_them() {
        let of = |target: &str, failed: u64| {
            let mut outcome = Outcome { requests: 1000, ..Outcome::empty(&Plan::new("http://x/")) };
            outcome.response_time_us.p99 = Some(1);
            outcome.errors.reset = failed;
            missed(&target.split(',').map(|bound| bound.parse().unwrap()).collect::<Vec<_>>(), &outcome).len()
        };
        assert_eq!((of("p99<1s", 1), of("p99<1s", 2), of("p99<1s,errors<5%", 20)), (0, 1, 0));
    }
}
