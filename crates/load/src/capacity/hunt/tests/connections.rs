//! Searches in which connections are too few, on servers that are made up.

use super::*;

/// A server without a limit of its own that takes 30 ms for each answer, under a load of as many connections as it is given.
fn far_away(plan: &Plan, _: &mut dyn FnMut(&Progress)) -> Result<Outcome, Error> {
    let Arrivals::Open { rate, .. } = &plan.arrivals else { panic!("no rate") };
    let level = rate.in_the_long_run();
    let mut outcome = Outcome { requests: 1000, ..Outcome::empty(plan) };
    outcome.response_time_us.p99 = Some(30_000);
    let mut offered = Offered { due: 1000, ..Offered::default() };
    (offered.service_time_us.count, offered.service_time_us.p99) = (1000, Some(30_000));
    if level * 0.030 > f64::from(plan.connections) {
        outcome.response_time_us.p99 = Some(1_000_000);
        offered.unsent = 500;
    }
    outcome.offered = Some(offered);
    Ok(outcome)
}

#[test]
fn too_few_connections_are_not_blamed_on_the_server() {
    let search = Search { start: Some(1_000.0), ..search_of(What::Rate, "p99<50ms", 10_000.0) };
    let found = search_by(&search, &mut Idle(far_away), &mut |_| ()).unwrap();
    // 64 are enough for 2,133 per second, and 300 are needed.
    assert_eq!((found.at_least, found.end), (10_000.0, End::Highest), "{found:?}");
    assert_eq!(found.probes.last().unwrap().connections, 512);
}

#[test]
fn where_there_cannot_be_more_connections_the_answer_is_a_lower_bound() {
    let search = search_of(What::Rate, "p99<50ms", 1e12);
    let found = search_by(&search, &mut Idle(far_away), &mut |_| ()).unwrap();
    assert!(found.end == End::Generator && found.is_lower_bound(), "{found:?}");
    assert!(found.reason.contains("connections are too few, and there cannot be more"), "{}", found.reason);
}

#[test]
fn a_server_that_more_connections_trouble_keeps_those_that_it_had() {
    let measure = |plan: &Plan, observer: &mut dyn FnMut(&Progress)| {
        let mut outcome = far_away(plan, observer)?;
        if plan.connections > 64 {
            outcome.errors.reset = 100;
        }
        Ok(outcome)
    };
    let search = Search { start: Some(1_000.0), ..search_of(What::Rate, "p99<50ms", 1e6) };
    let found = search_by(&search, &mut Idle(measure), &mut |_| ()).unwrap();
    assert_eq!((found.end, found.probes.last().unwrap().connections), (End::Server, 64), "{found:?}");
    assert!((2_050.0..=2_134.0).contains(&found.at_least) && found.reason.contains("100 reset"), "{found:?}");
}

#[test]
fn an_error_that_happens_once_does_not_end_the_growth_of_connections() {
    // Of 1,000 requests one is reset; or of the first load with more connections a tenth, and then none.
    for (resets, target) in [(1, "p99<50ms"), (100, "p99<50ms"), (1, "errors<0%")] {
        let mut done = false;
        let measure = |plan: &Plan, observer: &mut dyn FnMut(&Progress)| {
            let mut outcome = far_away(plan, observer)?;
            if plan.connections > 64 && !done {
                outcome.errors.reset = resets;
                done = true;
            }
            Ok(outcome)
        };
        let target = [target, "p99<50ms"].map(|bound| bound.parse().unwrap()).into();
        let search = Search { start: Some(1_000.0), target, ..search_of(What::Rate, "p99<50ms", 10_000.0) };
        let found = search_by(&search, &mut Idle(measure), &mut |_| ()).unwrap();
        assert_eq!((found.at_least, found.end), (10_000.0, End::Highest), "{found:?}");
    }
}
