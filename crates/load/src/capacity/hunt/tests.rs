//! Searches on servers that are made up: what is found, whose limit ends it, and what an overload leaves behind.

mod connections;

use std::time::Duration;

use super::*;
use crate::capacity::search_by;
use crate::outcome::Offered;
use crate::plan::{Arrivals, Plan, Stop};
use crate::progress::Progress;

fn search_of(what: What, target: &str, most: f64) -> Search {
    let target = vec![target.parse().unwrap()];
    let plan = Plan::new("http://x/");
    Search { plan, what, target, probe_s: 1.0, confirmations: 3, precision: 0.02, start: Some(10.0), most }
}

/// A load that is measured by a function, on a server that is idle as soon as it has ended.
struct Idle<F>(F);

impl<F: FnMut(&Plan, &mut dyn FnMut(&Progress)) -> Result<Outcome, Error>> Means for Idle<F> {
    fn load(&mut self, plan: &Plan, observer: &mut dyn FnMut(&Progress)) -> Result<Outcome, Error> {
        (self.0)(plan, observer)
    }

    fn ask(&mut self, plan: &Plan) -> Result<Outcome, Error> {
        Ok(Outcome { requests: 1, ..Outcome::empty(plan) })
    }

    fn pause(&mut self, _: Duration) -> Result<(), Error> {
        panic!("an idle server is not waited for");
    }
}

/// Hunts on a server whose 99th percentile at a level is known.
fn hunt(search: &Search, p99_us: impl Fn(f64, usize) -> f64) -> Result<Capacity, Error> {
    let mut made = 0;
    let measure = |plan: &Plan, _: &mut dyn FnMut(&Progress)| {
        made += 1;
        let level = match &plan.arrivals {
            Arrivals::Open { rate, .. } => rate.in_the_long_run(),
            _ => f64::from(plan.connections),
        };
        let mut outcome = Outcome::empty(&search.plan);
        (outcome.requests, outcome.requests_per_second) = (1000, level);
        outcome.response_time_us.p99 = Some(p99_us(level, made) as u64);
        Ok(outcome)
    };
    search_by(search, &mut Idle(measure), &mut |_| ())
}

/// M/M/1: the response time is exponential with rate mu - lambda, here with mu of 10,000.
fn queue(level: f64) -> f64 {
    if level < 10_000.0 { 100f64.ln() / (10_000.0 - level) * 1e6 } else { 1e9 }
}

#[test]
fn the_load_within_the_target_is_found_in_an_interval() {
    // ln(100) / (mu - lambda) = 50 ms at lambda = 9907.9.
    let found = hunt(&search_of(What::Rate, "p99<50ms", 1e6), |level, _| queue(level)).unwrap();
    let below = found.below.unwrap();
    assert!(found.at_least <= 9907.9 && below >= 9907.9 && below / found.at_least <= 1.02, "{found:?}");
    assert!(found.confirmed && found.reason.contains("p99<50ms: it is "), "{}", found.reason);
}

#[test]
fn one_noisy_probe_decides_nothing() {
    // Every fifth probe is bad, whatever the level.
    let noisy = |level: f64, made: usize| if made.is_multiple_of(5) { 1e9 } else { queue(level) };
    let found = hunt(&search_of(What::Rate, "p99<50ms", 1e6), noisy).unwrap();
    assert!((9500.0..=9907.9).contains(&found.at_least), "{found:?}");
}

#[test]
fn a_lucky_probe_keeps_no_level() {
    // Every fifth probe keeps the target, whatever the level: barely, or by far.
    for lucky_us in [49_000.0, 1.0] {
        let lucky = |level: f64, made: usize| if made.is_multiple_of(5) { lucky_us } else { queue(level) };
        let found = hunt(&search_of(What::Rate, "p99<50ms", 1e6), lucky).unwrap();
        assert!((9000.0..=9907.9).contains(&found.at_least) && found.confirmed, "{found:?}");
    }
}

#[test]
fn both_ends_of_the_interval_are_decided_by_several_probes() {
    let found = hunt(&search_of(What::Rate, "p99<50ms", 1e6), |level, _| queue(level)).unwrap();
    let of = |level: f64, kept: bool| {
        found.probes.iter().filter(|probe| probe.level == level && probe.kept == kept).count()
    };
    assert!(of(found.at_least, true) >= 3 && of(found.below.unwrap(), false) >= 2, "{found:?}");
    assert_eq!((of(found.at_least, false), of(found.below.unwrap(), true)), (0, 0));
    // Far from the edge one is enough.
    assert_eq!(of(10.0, true), 1);
    let last = found.probes.last().unwrap();
    assert!(last.level == found.at_least && last.kept, "the last probe is one of the answer");
}

/// A queue that carries so many per second, under a load that is as short as it is asked for: what was answered, and the seconds
/// of load in all. Of few answers no percentile is known.
fn slow_queue(carries: f64, target: &str, start: f64) -> (Result<Capacity, Error>, f64) {
    let mut seconds_in_all = 0.0;
    let measure = |plan: &Plan, _: &mut dyn FnMut(&Progress)| {
        let (Stop::Seconds(seconds), Arrivals::Open { rate, .. }) = (plan.stop, &plan.arrivals) else {
            panic!("no rate for a time")
        };
        seconds_in_all += seconds;
        let (level, mut outcome) = (rate.in_the_long_run(), Outcome::empty(plan));
        let count = (level * seconds) as u32;
        (outcome.requests, outcome.requests_per_second) = (count.into(), level.min(carries));
        // The quantiles of an exponential distribution, or what takes ever longer.
        let mean_us = if level < carries { 1e6 / (carries - level) } else { 1e8 };
        let mut times = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 3).unwrap();
        for at in 0..count {
            let part = (f64::from(at) + 0.5) / f64::from(count);
            times.saturating_record((-mean_us * (1.0 - part).ln()) as u64);
        }
        outcome.response_time_us = crate::recorded::distribution(&times);
        outcome.response_time_histogram = crate::hdr::encode(&times);
        Ok(outcome)
    };
    let search =
        Search { probe_s: 10.0, start: Some(start), precision: 0.05, ..search_of(What::Rate, target, 1e6) };
    (search_by(&search, &mut Idle(measure), &mut |_| ()), seconds_in_all)
}

#[test]
fn a_slow_server_is_not_blamed_for_how_few_answers_it_gives() {
    // ln(100) / (mu - lambda) = 200 ms at lambda = 106.97. A probe of 15 per second has 10,000 answers in eleven minutes.
    let (found, seconds) = slow_queue(130.0, "p99<200ms", 15.0);
    let found = found.unwrap();
    let below = found.below.unwrap();
    assert!(found.at_least <= 107.5 && below >= 106.5 && below / found.at_least <= 1.05, "{found:?}");
    assert!(found.confirmed && found.end == End::Server, "{found:?}");
    assert!(seconds < 20.0 * 60.0, "{seconds} s");
}

#[test]
fn a_probe_is_as_long_as_it_takes_to_tell_and_no_longer() {
    let mut expected = Duration::ZERO;
    let measure = |plan: &Plan, _: &mut dyn FnMut(&Progress)| {
        let Stop::Seconds(seconds) = plan.stop else { panic!("no time") };
        // 368 answers without a late one tell, and a fifth more are asked for.
        assert!((44.0..45.0).contains(&seconds), "{seconds}");
        let mut outcome = Outcome { requests: 500, ..Outcome::empty(plan) };
        (outcome.response_time_us.count, outcome.response_time_us.max) = (500, 1_000);
        Ok(outcome)
    };
    let search = Search { probe_s: 10.0, ..search_of(What::Rate, "p99<50ms", 10.0) };
    let found = search_by(&search, &mut Idle(measure), &mut |news| {
        if let News::Expected(time) = news {
            expected = time;
        }
    });
    assert_eq!((found.unwrap().at_least, expected.as_secs() / 60), (10.0, 11));
}

#[test]
fn a_probe_that_leaves_a_level_open_is_made_longer_step_by_step() {
    let mut lengths = Vec::new();
    // Four answers are late, however long it takes.
    let measure = |plan: &Plan, _: &mut dyn FnMut(&Progress)| {
        let Stop::Seconds(seconds) = plan.stop else { panic!("no time") };
        lengths.push(seconds.round() as u64);
        let mut times = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 3).unwrap();
        times.record_n(1_000, (seconds * 10.0) as u64).unwrap();
        times.record_n(60_000, 4).unwrap();
        let mut outcome =
            Outcome { requests: times.len(), requests_per_second: 10.0, ..Outcome::empty(plan) };
        outcome.response_time_us = crate::recorded::distribution(&times);
        outcome.response_time_histogram = crate::hdr::encode(&times);
        Ok(outcome)
    };
    let search = Search { probe_s: 10.0, confirmations: 1, ..search_of(What::Rate, "p99<50ms", 10.0) };
    let found = search_by(&search, &mut Idle(measure), &mut |_| ()).unwrap();
    assert_eq!((found.at_least, found.confirmed), (10.0, true));
    assert_eq!(lengths, [44, 132, 44, 132]);
}

#[test]
fn what_no_probe_can_tell_is_said_and_is_no_miss() {
    // It begins where ten minutes have as many answers as it takes.
    let (found, _) = slow_queue(2.0, "p99<200s", 0.1);
    let found = found.unwrap();
    assert!(found.at_least < 2.0 && found.below.is_some_and(|below| below >= 1.9), "{found:?}");
    let search = search_of(What::Rate, "p99.999<50ms", 100.0);
    let measure = |plan: &Plan, _: &mut dyn FnMut(&Progress)| {
        let mut outcome = Outcome { requests: 6_000, ..Outcome::empty(plan) };
        (outcome.requests_per_second, outcome.response_time_us.count) = (10.0, 6_000);
        Ok(outcome)
    };
    let error = search_by(&search, &mut Idle(measure), &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("is not known at 100 ") && error.contains("too few samples to tell"), "{error}");
}

#[test]
fn each_probe_has_a_seed_of_its_own() {
    let mut seeds = Vec::new();
    let measure = |plan: &Plan, _: &mut dyn FnMut(&Progress)| {
        let Arrivals::Open { seed, .. } = plan.arrivals else { panic!("no rate") };
        seeds.push(seed);
        let mut outcome = Outcome { requests: 1000, ..Outcome::empty(plan) };
        outcome.response_time_us.p99 = Some(30_000);
        Ok(outcome)
    };
    let search = search_of(What::Rate, "p99<50ms", 20.0);
    let found = search_by(&search, &mut Idle(measure), &mut |_| ()).unwrap();
    assert_eq!(found.probes.iter().map(|probe| probe.seed).collect::<Vec<_>>(), seeds);
    seeds.dedup();
    assert!(seeds.len() > 2 && seeds.len() == found.probes.len() && seeds.is_sorted(), "{seeds:?}");
}

#[test]
fn an_answer_that_does_not_last_is_stepped_down_from() {
    // For as long as an ordinary probe a queue takes in what is too much.
    let measure = |plan: &Plan, _: &mut dyn FnMut(&Progress)| {
        let Stop::Seconds(seconds) = plan.stop else { panic!("no time") };
        let Arrivals::Open { rate, .. } = &plan.arrivals else { panic!("no rate") };
        let carried = if seconds > 10.0 { 1_000.0 } else { 1_200.0 };
        let level = rate.in_the_long_run();
        let mut outcome = Outcome { requests: 1000, ..Outcome::empty(plan) };
        outcome.response_time_us.p99 = Some(if level < carried { 1_000 } else { 1_000_000 });
        Ok(outcome)
    };
    let search = Search { probe_s: 10.0, ..search_of(What::Rate, "p99<50ms", 1e6) };
    let found = search_by(&search, &mut Idle(measure), &mut |_| ()).unwrap();
    assert!(found.confirmed && (900.0..1_000.0).contains(&found.at_least), "{found:?}");
    assert!(found.below.unwrap() >= 1_000.0, "{found:?}");
}

#[test]
fn what_the_verdict_doubts_is_told_and_never_clear() {
    let measure = |plan: &Plan, _: &mut dyn FnMut(&Progress)| {
        let mut outcome = Outcome { requests: 1000, ..Outcome::empty(plan) };
        outcome.response_time_us.p99 = Some(1);
        outcome.verdict.suspect("the host was busy".into());
        Ok(outcome)
    };
    let search = search_of(What::Rate, "p99<50ms", 10.0);
    let found = search_by(&search, &mut Idle(measure), &mut |_| ()).unwrap();
    assert_eq!(found.doubts(), ["the host was busy"]);
    // Two that decide, and two at the end.
    assert_eq!(found.probes.len(), 4);
}

#[test]
fn clients_come_in_whole_numbers_and_a_limit_ends_the_search() {
    let found = hunt(&search_of(What::Clients, "p99<1s", 1000.0), |level, _| level * 3000.0).unwrap();
    assert!((327.0..=333.0).contains(&found.at_least) && found.at_least.fract() == 0.0, "{found:?}");
    let found = hunt(&search_of(What::Clients, "p99<1s", 100.0), |_, _| 1.0).unwrap();
    assert_eq!((found.at_least, found.below), (100.0, None));
    assert!(found.reason.contains("highest level"), "{}", found.reason);
    assert!(found.end == End::Highest && found.is_lower_bound());
}

/// A server that holds so many clients, and does this to those beyond.
fn holding(most: u32, start: f64, beyond: fn(&mut Outcome)) -> Result<Capacity, Error> {
    let measure = |plan: &Plan, _: &mut dyn FnMut(&Progress)| {
        let mut outcome = Outcome::empty(plan);
        (outcome.requests, outcome.requests_per_second) = (1000, 1000.0);
        if plan.connections > most {
            beyond(&mut outcome);
        }
        Ok(outcome)
    };
    let search = Search { start: Some(start), ..search_of(What::Clients, "errors<0.1%", 20_000.0) };
    search_by(&search, &mut Idle(measure), &mut |_| ())
}

#[test]
fn whose_limit_ended_a_search_is_told_apart() {
    let found = holding(1500, 100.0, |outcome| outcome.errors.reset = 30).unwrap();
    assert!(found.end == End::Server && (1470.0..=1500.0).contains(&found.at_least), "{found:?}");
    assert!(found.reason.ends_with("; errors: 30 reset"), "{}", found.reason);
    let found = holding(1500, 100.0, |outcome| outcome.errors.connect_failed = 30).unwrap();
    assert!(found.end == End::Generator && found.is_lower_bound(), "{found:?}");
}

#[test]
fn a_client_that_is_answered_only_since_the_load_ended_is_not_held() {
    // Beyond 100 clients some wait as long as the load lasts.
    let measure = |plan: &Plan, _: &mut dyn FnMut(&Progress)| {
        let Stop::Seconds(seconds) = plan.stop else { panic!("no time") };
        let mut outcome = Outcome::empty(plan);
        (outcome.requests, outcome.requests_per_second) = (1000, 1000.0);
        let waited = if plan.connections > 100 { seconds } else { 0.01 };
        (outcome.response_time_us.count, outcome.response_time_us.max) = (1000, (waited * 1e6) as u64);
        Ok(outcome)
    };
    let found =
        search_by(&search_of(What::Clients, "max<15s", 1000.0), &mut Idle(measure), &mut |_| ()).unwrap();
    assert!((98.0..=100.0).contains(&found.at_least) && found.end == End::Server, "{found:?}");
    assert!(found.reason.starts_with("max<15s: it is 16.5"), "{}", found.reason);
}

#[test]
fn clients_are_halved_down_to_one() {
    let found = holding(3, 5000.0, |outcome| outcome.errors.reset = 30).unwrap();
    assert_eq!((found.at_least, found.below), (3.0, Some(4.0)));
}

#[test]
fn a_target_that_nothing_keeps_is_said() {
    let error = hunt(&search_of(What::Rate, "p99<50ms", 1e6), |_, _| 1e9).unwrap_err().to_string();
    assert!(error.contains("p99<50ms"), "{error}");
}

/// A server that holds 100 clients. More of them leave it with work for a while, in which nobody is answered in time; all
/// by a clock of its own.
struct Backlogged {
    /// Seconds that an overload leaves it with.
    leaves_s: f64,
    /// Seconds that it has still to do.
    left_s: f64,
    paused: Duration,
}

impl Means for Backlogged {
    fn load(&mut self, plan: &Plan, _: &mut dyn FnMut(&Progress)) -> Result<Outcome, Error> {
        let Stop::Seconds(seconds) = plan.stop else { panic!("no time") };
        let mut outcome = Outcome::empty(plan);
        (outcome.requests, outcome.requests_per_second) = (1000, 1000.0);
        let is_overloaded = plan.connections > 100;
        if is_overloaded || self.left_s > 0.0 {
            outcome.errors.first_byte_timeout = 30;
        }
        self.left_s = if is_overloaded { self.leaves_s } else { (self.left_s - seconds).max(0.0) };
        Ok(outcome)
    }

    fn ask(&mut self, plan: &Plan) -> Result<Outcome, Error> {
        let took_s = self.left_s.min(plan.timeout_s) + 0.001;
        let mut outcome = Outcome { requests: 1, ..Outcome::empty(plan) };
        outcome.response_time_us.max = (took_s * 1e6) as u64;
        if self.left_s > plan.timeout_s {
            (outcome.requests, outcome.errors.first_byte_timeout) = (0, 1);
        }
        self.left_s = (self.left_s - took_s).max(0.0);
        Ok(outcome)
    }

    fn pause(&mut self, time: Duration) -> Result<(), Error> {
        self.left_s = (self.left_s - time.as_secs_f64()).max(0.0);
        self.paused += time;
        Ok(())
    }
}

/// What is found on a server that an overload leaves with so much to do, and how often waiting for it was told of.
fn backlogged(leaves_s: f64) -> (Capacity, u32) {
    let mut server = Backlogged { leaves_s, left_s: 0.0, paused: Duration::ZERO };
    let mut told = 0;
    let search = search_of(What::Clients, "errors<0.1%", 1000.0);
    let found = search_by(&search, &mut server, &mut |news| {
        told += u32::from(matches!(news, News::Draining(_)));
    });
    assert_eq!(server.paused.is_zero(), told == 0);
    (found.unwrap(), told)
}

#[test]
fn what_an_overloaded_probe_leaves_behind_does_not_spoil_the_next() {
    let (found, told) = backlogged(10.0);
    assert!((98.0..=100.0).contains(&found.at_least) && found.confirmed, "{found:?}");
    assert!(
        told > 0 && found.spoilt() == 0 && found.probes.iter().all(|probe| !probe.undrained),
        "{found:?}"
    );
    assert_eq!(backlogged(0.0).1, 0, "what leaves nothing behind is not waited for");
}

#[test]
fn a_probe_of_a_server_that_does_not_drain_in_time_is_suspect_and_says_so() {
    let (found, _) = backlogged(1000.0);
    let first = found.probes.iter().find(|probe| probe.undrained).unwrap();
    let before = found.probes.iter().take_while(|probe| !probe.undrained);
    assert!(before.last().is_some_and(|probe| !probe.kept), "only what follows an overload: {found:?}");
    let why = first.reasons.last().unwrap();
    assert!(why.starts_with("suspect: the server had not drained "), "{why}");
    assert!(found.spoilt() > 0 && found.at_least < 98.0, "{found:?}");
}
