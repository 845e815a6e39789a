//! Pools in front of work that sleeps, computes, waits for others, or is not there.

use super::*;

/// A pool in front of work that sleeps and computes, in closed loop: what workers do in a tenth of a second.
#[derive(Clone, Copy, Debug)]
struct Host {
    clients: usize,
    sleep_s: f64,
    compute_s: f64,
    cores: f64,
    /// Requests of which no more than so many go on at once, however many workers there are.
    gate: usize,
    /// Share of the processors that others keep busy.
    others: f64,
}

impl Host {
    /// `begun` is the part of a request that is done and not yet counted.
    fn tick(&self, workers: usize, begun: &mut f64) -> Observation {
        let busy = workers.min(self.clients);
        let by_threads = busy.min(self.gate) as f64 / (self.sleep_s + self.compute_s);
        // Each thread more than is needed costs a little.
        let cost_s = self.compute_s.max(1e-9) * (1.0 + 0.0002 * workers as f64);
        let by_cores = self.cores / cost_s;
        let rate = by_threads.min(by_cores);
        let own_busy = (rate * cost_s / self.cores).min(1.0);
        let done = (*begun + rate * 0.1).floor();
        *begun += rate * 0.1 - done;
        Observation {
            seconds: 0.1,
            workers,
            busy: busy as f64,
            waiting: self.clients - busy,
            done: done as u64,
            cores_busy: (own_busy + self.others).min(1.0),
            own_busy,
        }
    }

    /// Workers after every tenth of a second.
    fn run(&self, size: &mut PoolSize, start: usize, seconds: f64) -> Vec<usize> {
        let (mut workers, mut begun) = (start, 0.0);
        (0..(seconds * 10.0) as usize)
            .map(|_| {
                if let Some((wanted, _)) = size.step(&self.tick(workers, &mut begun)) {
                    workers = wanted;
                }
                workers
            })
            .collect()
    }

    fn rate(&self, workers: usize) -> u64 {
        self.tick(workers, &mut 0.0).done
    }
}

const NO_GATE: usize = usize::MAX;

/// Work that was there for so long that no number of workers is tried any more becomes another: the workers after each tenth
/// of a second of the other.
fn after_long(before: &Host, then: &Host) -> Vec<usize> {
    let mut size = PoolSize::new(2, 1024);
    let workers = *before.run(&mut size, 2, 90.0).last().unwrap();
    then.run(&mut size, workers, 30.0)
}

#[test]
fn work_that_changes_gets_its_workers_within_three_seconds() {
    let all = Host { clients: 1000, sleep_s: 0.0, compute_s: 1e-3, cores: 2.0, gate: NO_GATE, others: 0.0 };
    let spin = |compute_s| Host { compute_s, ..all };
    let sleep = |sleep_s| Host { sleep_s, compute_s: 10e-6, ..all };
    let database = |gate| Host { gate, sleep_s: 0.01, compute_s: 10e-6, ..all };
    for (before, then) in [
        (spin(1e-3), sleep(0.03)),
        (spin(0.03), sleep(0.03)),
        (spin(1e-3), sleep(1.0)),
        (sleep(1e-4), sleep(0.03)),
        (database(4), sleep(0.1)),
    ] {
        let workers = after_long(&before, &then);
        let best = (1..=1024).map(|n| then.rate(n)).max().unwrap();
        let rate = then.rate(workers[29]);
        assert!(rate as f64 >= 0.95 * best as f64, "{before:?} {then:?}: {rate} of {best}: {workers:?}");
    }
    // Four workers cannot see that more than four requests may go on now: it is tried before long.
    let workers = after_long(&database(4), &database(64));
    assert!(workers[200] >= 64, "{workers:?}");
}

#[test]
fn work_that_comes_to_compute_does_not_keep_what_sleeping_work_needed() {
    let sleep =
        Host { clients: 1000, sleep_s: 0.03, compute_s: 10e-6, cores: 2.0, gate: NO_GATE, others: 0.0 };
    let spin = Host { sleep_s: 0.0, compute_s: 1e-3, ..sleep };
    let workers = after_long(&sleep, &spin);
    assert!(workers[299] <= 16, "{workers:?}");
}

#[test]
fn work_that_sleeps_gets_its_workers_within_two_seconds() {
    for (clients, sleep_s) in [(64, 0.03), (1000, 0.03), (1000, 0.001), (64, 0.0002)] {
        let host = Host { clients, sleep_s, compute_s: 10e-6, cores: 1.0, gate: NO_GATE, others: 0.0 };
        let workers = host.run(&mut PoolSize::new(1, 1024), 1, 20.0);
        let best = (1..=1024).map(|n| host.rate(n)).max().unwrap();
        assert!(host.rate(workers[20]) as f64 >= 0.95 * best as f64, "{clients} {sleep_s}: {workers:?}");
        let mean =
            workers[30..].iter().map(|n| host.rate(*n)).sum::<u64>() as f64 / (workers.len() - 30) as f64;
        assert!(mean >= 0.97 * best as f64, "{clients} {sleep_s}: {mean} of {best}: {workers:?}");
    }
}

#[test]
fn others_that_keep_the_processors_busy_do_not_keep_sleeping_work_from_its_workers() {
    let host =
        Host { clients: 256, sleep_s: 0.005, compute_s: 10e-6, cores: 1.0, gate: NO_GATE, others: 1.0 };
    let workers = host.run(&mut PoolSize::new(1, 1024), 1, 20.0);
    assert!(workers[100] >= 256, "{workers:?}");
}

#[test]
fn work_that_computes_gets_no_more_than_a_few() {
    let host =
        Host { clients: 1000, sleep_s: 0.0, compute_s: 500e-6, cores: 2.0, gate: NO_GATE, others: 0.0 };
    let workers = host.run(&mut PoolSize::new(2, 1024), 2, 60.0);
    // It looks now and then whether more would do more.
    let many = workers.iter().filter(|n| **n > 4).count();
    assert!(workers.iter().all(|n| *n <= 8) && many < 60, "{many}: {workers:?}");
    // Nor does it keep what work that slept has left behind.
    let workers = host.run(&mut PoolSize::new(2, 1024), 512, 60.0);
    assert!(*workers.last().unwrap() <= 8, "{workers:?}");
}

#[test]
fn what_waits_for_something_else_gets_no_workers_that_do_not_help() {
    // Only four requests go on at once: a database with so many connections.
    let host = Host { clients: 1000, sleep_s: 0.01, compute_s: 1e-6, cores: 2.0, gate: 4, others: 0.0 };
    let workers = host.run(&mut PoolSize::new(4, 1024), 4, 120.0);
    let long = workers[100..].iter().filter(|n| **n > 64).count();
    assert!(long < 120, "{long} tenths of a second with many workers: {workers:?}");
}

#[test]
fn a_pool_with_nothing_to_do_shrinks_and_one_with_little_keeps_what_it_needs() {
    let mut size = PoolSize::new(2, 1024);
    let little = Host { clients: 10, sleep_s: 0.03, compute_s: 1e-6, cores: 2.0, gate: NO_GATE, others: 0.0 };
    let workers = little.run(&mut size, 512, 30.0);
    assert!((10..=16).contains(workers.last().unwrap()), "{workers:?}");
    let nothing = Host { clients: 0, ..little };
    assert_eq!(nothing.run(&mut size, 12, 30.0).last(), Some(&2));
}

#[test]
fn a_steady_load_comes_to_rest() {
    let host =
        Host { clients: 1000, sleep_s: 0.03, compute_s: 40e-6, cores: 1.0, gate: NO_GATE, others: 0.0 };
    let workers = host.run(&mut PoolSize::new(1, 4096), 1, 600.0);
    let settled = &workers[600..];
    let mean = settled.iter().sum::<usize>() as f64 / settled.len() as f64;
    let variance = settled.iter().map(|n| (*n as f64 - mean).powi(2)).sum::<f64>() / settled.len() as f64;
    assert!(variance.sqrt() / mean < 0.1, "{mean} +- {}", variance.sqrt());
}

#[test]
fn bounds_that_change_are_kept_at_once() {
    let mut size = PoolSize::new(2, 64);
    size.bounds(8);
    assert_eq!(size.step(&Observation { workers: 2, ..Observation::default() }), Some((8, Reason::Bounds)));
}

#[test]
fn slow_work_that_sleeps_has_and_keeps_as_many_as_there_may_be() {
    for sleep_s in [0.2, 1.0, 2.0] {
        let host = Host { clients: 2000, sleep_s, compute_s: 10e-6, cores: 2.0, gate: NO_GATE, others: 0.0 };
        let workers = host.run(&mut PoolSize::new(2, 64), 2, 120.0);
        assert!(workers[30..].iter().all(|n| *n == 64), "{sleep_s}: {workers:?}");
    }
}

#[test]
fn slow_work_that_computes_gets_no_more_than_a_few() {
    for compute_s in [0.1, 0.3, 1.0] {
        let host = Host { clients: 200, sleep_s: 0.0, compute_s, cores: 2.0, gate: NO_GATE, others: 0.0 };
        let workers = host.run(&mut PoolSize::new(2, 1024), 2, 300.0);
        assert!(workers.iter().all(|n| *n <= 16), "{compute_s}: {workers:?}");
        let mean = workers.iter().sum::<usize>() as f64 / workers.len() as f64;
        assert!(mean < 6.0, "{compute_s}: {mean}: {workers:?}");
    }
}

#[test]
fn slow_work_that_sleeps_gets_its_workers_though_the_processors_are_busy() {
    // A tick of a server whose reactors use all of the processors, while its workers sleep for a second.
    let host = Host { clients: 200, sleep_s: 1.0, compute_s: 10e-6, cores: 2.0, gate: NO_GATE, others: 0.0 };
    let (mut size, mut workers, mut begun) = (PoolSize::new(2, 1024), 2, 0.0);
    for _ in 0..110 {
        let seen = Observation { cores_busy: 1.0, own_busy: 1.0, ..host.tick(workers, &mut begun) };
        workers = size.step(&seen).map_or(workers, |(wanted, _)| wanted);
    }
    assert!(workers >= 200, "{workers}");
}

/// Whether the work of eight workers that are always busy seems to become another, in a time of which each tenth of a second
/// finishes so many requests.
fn seems_another(done: impl IntoIterator<Item = u64>) -> bool {
    let mut nature = Nature::default();
    let seen = |done| Observation { seconds: 0.1, workers: 8, busy: 8.0, done, ..Observation::default() };
    done.into_iter().any(|done| nature.changes(&seen(done)))
}

#[test]
fn requests_that_run_in_step_or_vary_by_chance_are_no_other_work() {
    // All eight end every 0.6 s, or half of them.
    for at_once in [4, 8] {
        assert!(!seems_another((0..600).map(|tenth| if tenth % 6 == 5 { at_once } else { 0 })));
    }
    // Twice as many, and then half as many.
    let stretch = |count: u64| [count; 2];
    assert!(!seems_another([500, 1000, 240].repeat(50).into_iter().flat_map(stretch)));
    // Once none, though three were to be expected.
    assert!(!seems_another((0..600).map(|tenth| u64::from(tenth % 10 > 2))));
}

#[test]
fn requests_that_take_longer_or_shorter_from_then_on_are_other_work() {
    let then = |before: u64, after: u64| seems_another([[before; 40], [after; 40]].concat());
    // 1 ms and 10 s, and back; and a third of the time.
    assert!(then(800, 0) && then(0, 800) && then(80, 240));
    assert!(!then(80, 80) && !then(80, 100));
}

/// What a pool of 2 to 64 workers does in four minutes in front of work that computes all the time while so many requests wait, and
/// of which one is finished every `tenths(workers)` tenths of a second.
fn decisions(start: usize, waiting: usize, tenths: impl Fn(usize) -> u64) -> Vec<(usize, Reason)> {
    let (mut size, mut workers) = (PoolSize::new(2, 64), start);
    let seen = |tenth: u64| {
        let done = u64::from(tenth.is_multiple_of(tenths(workers)));
        let busy = workers as f64;
        let seen = Observation { seconds: 0.1, workers, busy, waiting, done, cores_busy: 1.0, own_busy: 1.0 };
        let decision = size.step(&seen)?;
        workers = decision.0;
        Some(decision)
    };
    (0..2400).filter_map(seen).collect()
}

#[test]
fn where_few_requests_tell_a_little_more_of_them_is_no_gain() {
    let decisions = decisions(2, 200, |workers| if workers == 2 { 5 } else { 4 });
    let ends = decisions.iter().find(|(_, reason)| *reason == Reason::NoGain);
    assert_eq!(ends, Some(&(2, Reason::NoGain)), "{decisions:?}");
}

#[test]
fn fewer_workers_are_tried_until_slow_requests_tell() {
    let decisions = decisions(16, 0, |_| 9);
    assert!(decisions.iter().all(|(_, reason)| *reason != Reason::Worse), "{decisions:?}");
    assert!(decisions.iter().any(|(_, reason)| *reason == Reason::TriesFewer), "{decisions:?}");
}
