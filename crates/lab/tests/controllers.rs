//! The controller of the number of workers on simulated servers: random workloads, each with its own best number.
//!
//! `PLIMSOLL_WORKLOADS=2000 cargo test --release -p plimsoll-lab --test controllers -- --nocapture` tries more of them than a
//! test run has time for, and prints the distribution.

use engine::{Kind, Model, Topology};
use lab::simulate::{Change, Costs, Law, Load, Observation, Route, Setup, simulate, simulate_with};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use server::auto::{Observation as Seen, PoolSize};

/// Workloads that are tried where nobody asks for more.
const WORKLOADS: u64 = 6;

/// Seconds between two decisions, as in the server.
const TICK_S: f64 = 0.1;

/// Workers for each core that are too many for work that only computes.
const CROWD: f64 = 8.0;

/// Most workers where nothing else is drawn.
const MOST: usize = 1024;

/// Requests that are measured, at least: how many there are varies by chance.
const REQUESTS: f64 = 10_000.0;

fn workloads() -> u64 {
    std::env::var("PLIMSOLL_WORKLOADS").ok().and_then(|text| text.parse().ok()).unwrap_or(WORKLOADS)
}

/// A host, work that sleeps and computes, and how many workers it may have.
#[derive(Clone)]
struct Workload {
    setup: Setup,
    most: usize,
}

impl Workload {
    /// Seconds of a request on the average: those in which it waits, and those in which it computes.
    fn request_s(&self) -> (f64, f64) {
        let mix = &self.setup.mix;
        let shares: f64 = mix.iter().map(|route| route.share).sum();
        let mean = |us: fn(&Route) -> f64| {
            mix.iter().map(|route| route.share * us(route)).sum::<f64>() / shares / 1e6
        };
        (mean(|route| route.sleep_us), mean(|route| route.spin_us))
    }

    /// The same, for as long as requests that take so long need to say something.
    fn for_long_enough(mut self) -> Self {
        let ((sleep_s, spin_s), setup) = (self.request_s(), &mut self.setup);
        let Load::Closed { connections, .. } = setup.load else { return self };
        let at_once = connections.min(self.most) as f64;
        let each_s = (spin_s / setup.cores).max((sleep_s + spin_s) / at_once);
        setup.seconds = setup.seconds.max(REQUESTS * each_s);
        setup.warmup_s += 20.0 * (sleep_s + spin_s);
        self
    }
}

/// Any work, one time in three with requests that take up to seconds, and one time in four with fewer workers than connections.
fn workload(seed: u64) -> Workload {
    let mut dice = ChaCha8Rng::seed_from_u64(!seed);
    let mut workload = Workload { setup: quick(seed), most: MOST };
    let mut log = |low: f64, high: f64| (dice.random_range(low.ln()..high.ln())).exp();
    let (sleep_us, spin_us) = (log(30_000.0, 2e6), log(500.0, 1e6));
    let Load::Closed { connections, .. } = workload.setup.load else { unreachable!("as it is drawn") };
    let fewer = log(2.0, connections as f64) as usize;
    if dice.random_range(0..3) == 0 {
        for route in &mut workload.setup.mix {
            (route.sleep_us, route.spin_us) = (if route.sleep_us > 0.0 { sleep_us } else { 0.0 }, spin_us);
        }
    }
    if dice.random_range(0..4) == 0 {
        workload.most = fewer.max(workload.setup.topology.workers);
    }
    workload.for_long_enough()
}

/// A host, and work of which a request takes some milliseconds at most, drawn at random.
fn quick(seed: u64) -> Setup {
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let mut log = |low: f64, high: f64| (dice.random_range(low.ln()..high.ln())).exp();
    let (sleep_us, spin_us) = (log(50.0, 30_000.0), log(20.0, 500.0));
    let connections = log(8.0, 500.0) as usize;
    let cores = dice.random_range(1..=4_usize);
    let route =
        |share: f64, sleep_us: f64, spin_us: f64| Route { share, sleep_us, spin_us, law: Law::Exponential };
    let mix = match dice.random_range(0..3) {
        0 => vec![route(1.0, sleep_us, spin_us)],
        1 => vec![route(1.0, 0.0, spin_us)],
        _ => vec![route(0.9, 0.0, spin_us), route(0.1, sleep_us, spin_us)],
    };
    let topology = Topology { reactors: cores, workers: cores, ..Model::ReusePortPool.row(cores, 10_000) };
    assert_eq!(topology.driver, Kind::Epoll);
    Setup {
        seed,
        seconds: 3.0,
        warmup_s: 5.0,
        cores: cores as f64,
        load_share: 0.0,
        topology,
        costs: Costs { reactor_us: 10.0, handoff_us: 2.0, lock_us: 0.0 },
        load: Load::Closed { connections, think_us: 0.0, client_us: 0.0 },
        mix,
        change: None,
    }
}

/// The throughput with the best of some fixed numbers of workers.
fn best_fixed(workload: &Workload) -> f64 {
    let Workload { setup, most } = workload;
    let (sleep_s, spin_s) = workload.request_s();
    let mut sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].map(|workers| workers.min(*most)).to_vec();
    sizes.dedup();
    let rate = |workers: usize| {
        let topology = Topology { workers, ..setup.topology };
        // It does not have to find anything out.
        let warmup_s = 0.5 + 3.0 * (sleep_s + spin_s);
        simulate(&Setup { topology, warmup_s, ..setup.clone() }).unwrap().throughput
    };
    sizes.into_iter().map(rate).fold(0.0, f64::max)
}

/// What a workload comes to under the controller.
struct Controlled {
    throughput: f64,
    /// The share of the time that was measured in which the number of workers was within a fifth of its usual one: now and then
    /// it looks whether another does more.
    settled: f64,
    /// Mean number of workers that were wanted.
    workers: f64,
}

fn controlled(Workload { setup, most }: &Workload) -> Controlled {
    let mut size = PoolSize::new(setup.topology.workers, *most);
    let (mut now, mut sizes) = (0.0, Vec::new());
    let mut controller = |seen: &Observation| {
        now += seen.seconds;
        let (cores_busy, own_busy) = (seen.cores_busy, seen.cores_busy);
        let Observation { seconds, workers, busy, waiting, done, .. } = *seen;
        let seen = Seen { seconds, workers, busy, waiting, done, cores_busy, own_busy };
        let wanted = size.step(&seen).map_or(workers, |(wanted, _)| wanted);
        if now > setup.warmup_s {
            sizes.push(wanted as f64);
        }
        wanted
    };
    let outcome = simulate_with(setup, TICK_S, &mut controller).unwrap();
    sizes.sort_by(f64::total_cmp);
    let usual = sizes[sizes.len() / 2];
    let near = sizes.iter().filter(|size| (*size / usual - 1.0).abs() <= 0.2).count();
    let all = sizes.len() as f64;
    let (settled, workers) = (near as f64 / all, sizes.iter().sum::<f64>() / all);
    Controlled { throughput: outcome.throughput, settled, workers }
}

/// Seconds of the first work, in which trial upon trial fails if that is its nature; seconds in which the workers for the other
/// are to be found; and seconds in which it is looked at what they do then.
const BEFORE_S: f64 = 12.0;
const WITHIN_S: f64 = 3.0;
const AFTER_S: f64 = 2.0;

/// A host whose work becomes another: what `seed` draws, and then what the next one does. With it comes the other work alone. The
/// first is quick: what waits of slow work would have to be done before anything changes.
fn changed_workload(seed: u64) -> (Workload, Workload) {
    let (before, other) = (quick(2 * seed), workload(2 * seed + 1));
    let mix = other.setup.mix.clone();
    let then = Setup { mix: mix.clone(), seconds: AFTER_S, warmup_s: WITHIN_S, ..before.clone() };
    let then = Workload { setup: then, most: other.most }.for_long_enough();
    let change = Some(Change { at_s: BEFORE_S, mix });
    let Setup { warmup_s, seconds, .. } = then.setup;
    let setup = Setup { warmup_s: BEFORE_S + warmup_s, seconds, change, ..before };
    (Workload { setup, ..then }, then)
}

/// How many were tried, the worst, the one below which 5 % are, and the median.
fn shares(mut found: Vec<(f64, u64)>) -> String {
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |share: f64| found[(share * (found.len() - 1) as f64) as usize];
    format!("{}: least {:?}, 5 % {:.3}, median {:.3}", found.len(), at(0.0), at(0.05).0, at(0.5).0)
}

#[test]
fn work_that_changes_has_its_workers_within_three_seconds() {
    // Half as many: each takes twice as long.
    let count = workloads().div_ceil(2);
    let found: Vec<(f64, u64)> = (0..count)
        .map(|seed| {
            let (workload, then) = changed_workload(seed);
            (controlled(&workload).throughput / best_fixed(&then), seed)
        })
        .collect();
    let slow = found.iter().filter(|(share, _)| *share < 0.9).count();
    let shares = shares(found);
    println!("3 s after a change, throughput / best fixed: {shares}");
    assert!(slow as u64 * 10 <= count, "{slow} below 0.9: {shares}");
}

#[test]
fn whatever_the_work_is_its_workers_are_found_and_kept() {
    let count = workloads() as usize;
    let mut crowded = 0;
    let mut found: Vec<(f64, f64, u64)> = (0..workloads())
        .map(|seed| {
            let workload = workload(seed);
            let Controlled { throughput, settled, workers } = controlled(&workload);
            let (sleep_s, _) = workload.request_s();
            crowded += usize::from(sleep_s == 0.0 && workers > CROWD * workload.setup.cores);
            (throughput / best_fixed(&workload), settled, seed)
        })
        .collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |share: f64| found[(share * (count - 1) as f64) as usize];
    let restless = found.iter().filter(|(_, settled, _)| *settled < 0.7).count();
    println!(
        "{count} workloads: throughput / best fixed: least {:?}, 5 % {:.3}, median {:.3}; not settled for 70 % of the time in \
         {restless}, too many workers in {crowded}",
        at(0.0),
        at(0.05).0,
        at(0.5).0
    );
    assert!(at(0.0).0 > 0.8, "{:?}", &found[..5.min(count)]);
    assert!(at(0.05).0 > 0.9, "{:?}", &found[..5.min(count)]);
    // Any number does as much for slow work that computes, and few requests tell: that wanders more than the rest.
    assert!(restless * 4 <= count, "{restless} of {count}");
    assert!(crowded * 40 <= count, "{crowded} of {count}");
}
