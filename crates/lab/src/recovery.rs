//! How long a server takes to recover: the seconds after a load has dropped, held against those before it rose.

use load::{Arrivals, Outcome, Rate, Second};

/// How many times the slowest 99th percentile of the seconds before still counts as that of before. A second has few samples
/// beyond its percentile, so that alike seconds differ.
const SLOWER: f64 = 1.5;

/// Share of its requests that may fail in a second, beyond those of the worst second before.
const MORE_ERRORS: f64 = 0.01;

/// Seconds from when the load drops until it is over, or until the last second that is not as those before the load rose: in
/// which requests failed, none was answered, or the 99th percentile is far higher. As long as the load goes on, if it never
/// recovers. `None` for a load that does not rise and then drop in steps while it is measured.
pub(crate) fn seconds(outcome: &Outcome) -> Option<f64> {
    Some(recovery(outcome)?.seconds)
}

/// Whether it had not recovered when the load ended, so that it takes longer than was seen.
pub(crate) fn is_under_way(outcome: &Outcome) -> bool {
    recovery(outcome).is_some_and(|recovery| !recovery.is_over)
}

struct Recovery {
    seconds: f64,
    is_over: bool,
}

fn recovery(outcome: &Outcome) -> Option<Recovery> {
    let (rise, drop) = turns(outcome)?;
    let whole: Vec<&Second> =
        outcome.timeline.iter().filter(|second| end(second) <= outcome.duration_s).collect();
    let before: Vec<_> = whole.iter().filter(|second| end(second) <= rise && second.requests > 0).collect();
    let usual_p99 = before.iter().map(|second| second.p99_us).max()?;
    let usual_errors = before.iter().map(|second| second.errors).max()?;
    let is_normal = |second: &Second| {
        let errors = second.errors.saturating_sub(usual_errors) as f64;
        second.requests > 0
            && errors <= MORE_ERRORS * second.requests as f64
            && second.p99_us as f64 <= SLOWER * usual_p99 as f64
    };
    let after = || whole.iter().filter(|second| end(second) > drop);
    // In a second that is missing nothing ended at all; they are missing at the end only.
    let known = whole.last().map_or(0.0, |second| end(second));
    if known + 1.0 <= outcome.duration_s {
        return Some(Recovery { seconds: outcome.duration_s - drop, is_over: false });
    }
    let slow = after().filter(|second| !is_normal(second));
    Some(Recovery {
        seconds: slow.map(|second| end(second) - drop).fold(0.0, f64::max),
        is_over: after().next_back().is_some_and(|second| is_normal(second)),
    })
}

/// When the load rises first and drops last, in seconds since measuring started.
fn turns(outcome: &Outcome) -> Option<(f64, f64)> {
    let Arrivals::Open { rate: Rate::Steps { rates, each_s }, .. } = &outcome.plan.arrivals else {
        return None;
    };
    let begins = |at: usize| (at + 1) as f64 * each_s - outcome.plan.warmup_s;
    let steps = || rates.windows(2).enumerate();
    let rise = steps().find(|(_, pair)| pair[1] > pair[0]).map(|(at, _)| begins(at))?;
    let drop = steps().rfind(|(_, pair)| pair[1] < pair[0]).map(|(at, _)| begins(at))?;
    (rise < drop && drop < outcome.duration_s).then_some((rise, drop))
}

fn end(second: &Second) -> f64 {
    (second.at_s + second.length_s) as f64
}

#[cfg(test)]
mod tests {
    use load::{Plan, Spacing};

    use super::*;

    /// A load at 100, 500 and 100 per second for 4 s each, of which the first second is warm-up; the 99th percentiles and the
    /// errors of its seconds.
    fn run(seconds: &[(u64, u64)]) -> Outcome {
        let plan = Plan {
            arrivals: Arrivals::Open {
                rate: Rate::Steps { rates: vec![100.0, 500.0, 100.0], each_s: 4.0 },
                spacing: Spacing::Poisson,
                seed: 1,
                session: None,
            },
            warmup_s: 1.0,
            ..Plan::new("http://x/")
        };
        let second = |(at_s, (p99_us, errors)): (u64, &(u64, u64))| {
            let requests = if *p99_us > 0 { 100 } else { 0 };
            Second { at_s, length_s: 1, requests, errors: *errors, p99_us: *p99_us, ..Second::default() }
        };
        Outcome {
            duration_s: 11.0,
            timeline: (0..).zip(seconds).map(second).collect(),
            ..Outcome::empty(&plan)
        }
    }

    const BEFORE: [(u64, u64); 3] = [(10, 0), (12, 1), (11, 0)];
    const DURING: [(u64, u64); 4] = [(100, 300); 4];

    fn after(after: [(u64, u64); 4]) -> Option<f64> {
        seconds(&run(&[&BEFORE[..], &DURING, &after].concat()))
    }

    #[test]
    fn it_lasts_until_the_last_second_that_is_not_as_before() {
        assert_eq!(after([(10, 0), (18, 2), (12, 0), (11, 1)]), Some(0.0), "all within what is usual");
        assert_eq!(after([(90, 0), (19, 0), (12, 0), (11, 0)]), Some(2.0), "slower");
        assert_eq!(after([(10, 50), (12, 0), (12, 0), (11, 0)]), Some(1.0), "with errors");
        assert_eq!(after([(10, 0), (12, 0), (12, 3), (11, 0)]), Some(3.0), "with errors again");
    }

    #[test]
    fn what_never_recovers_takes_as_long_as_there_is() {
        assert_eq!(after([(90, 0); 4]), Some(4.0));
        assert_eq!(after([(0, 100); 4]), Some(4.0), "nothing is answered");
        assert_eq!(seconds(&run(&[&BEFORE[..], &DURING].concat())), Some(4.0), "nothing ends any more");
    }

    #[test]
    fn what_has_not_recovered_when_the_load_ends_may_take_longer() {
        let is_under_way = |after: &[(u64, u64)]| is_under_way(&run(&[&BEFORE[..], &DURING, after].concat()));
        assert!(is_under_way(&[(90, 0); 4]) && is_under_way(&[(0, 100); 4]) && is_under_way(&[]));
        assert!(is_under_way(&[(10, 0), (12, 0), (12, 0), (90, 0)]), "slow again at the end");
        assert!(!is_under_way(&[(90, 0), (90, 0), (90, 0), (11, 0)]));
    }

    #[test]
    fn a_second_that_is_cut_short_says_nothing() {
        let mut outcome =
            run(&[&BEFORE[..], &DURING, &[(10, 0), (10, 0), (10, 0), (10, 0), (99, 9)]].concat());
        outcome.duration_s = 11.5;
        assert_eq!(seconds(&outcome), Some(0.0));
    }

    #[test]
    fn a_load_that_does_not_rise_and_drop_has_nothing_to_recover_from() {
        let mut outcome = run(&[BEFORE, BEFORE, BEFORE].concat());
        let mut with = |rate| {
            if let Arrivals::Open { rate: own, .. } = &mut outcome.plan.arrivals {
                *own = rate;
            }
            seconds(&outcome)
        };
        assert_eq!(with(Rate::Steady { rate: 100.0 }), None);
        assert_eq!(with(Rate::Steps { rates: vec![100.0, 500.0], each_s: 4.0 }), None);
        assert_eq!(with(Rate::Steps { rates: vec![100.0, 500.0, 100.0], each_s: 40.0 }), None, "too late");
        outcome.plan.arrivals = Arrivals::default();
        assert_eq!(seconds(&outcome), None);
    }
}
