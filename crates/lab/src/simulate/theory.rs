//! The model against queueing theory, where theory has the answer.

use engine::{Balance, Model, Order, Spread, Topology};

use super::*;
use crate::queue::erlang_c;

fn topology(reactors: usize, workers: usize) -> Topology {
    Topology { reactors, workers, ..Model::ReusePortPool.row(1, 1024) }
}

fn route(sleep_us: f64, spin_us: f64, law: Law) -> Vec<Route> {
    vec![Route { share: 1.0, sleep_us, spin_us, law }]
}

fn open(rate: f64) -> Load {
    Load::Open { rate, burst: None }
}

fn closed(connections: usize) -> Load {
    Load::Closed { connections, think_us: 0.0, client_us: 0.0 }
}

fn setup(topology: Topology, load: Load, mix: Vec<Route>) -> Setup {
    let costs = Costs::default();
    Setup {
        seed: 7,
        seconds: 40.0,
        warmup_s: 2.0,
        cores: 64.0,
        load_share: 0.0,
        topology,
        costs,
        load,
        mix,
        change: None,
    }
}

#[track_caller]
fn near(actual: f64, expected: f64, share: f64) {
    let error = (actual / expected - 1.0).abs();
    assert!(error <= share, "{actual} where {expected} is expected: {:.1} % off", error * 100.0);
}

#[test]
fn a_reactor_is_m_m_1() {
    let setup = setup(topology(1, 0), open(7_000.0), route(0.0, 100.0, Law::Exponential));
    let outcome = simulate(&setup).unwrap();
    // W = S / (1 - rho), exponential.
    near(outcome.mean_us, 100.0 / 0.3, 0.04);
    near(outcome.p50_us, 100.0 / 0.3 * 2f64.ln(), 0.04);
    near(outcome.p99_us, 100.0 / 0.3 * 100f64.ln(), 0.06);
    near(outcome.reactors_busy, 0.7, 0.01);
    near(outcome.cores_busy * 64.0, 0.7, 0.01);
}

#[test]
fn workers_are_m_m_c() {
    for (servers, rate) in [(2_u32, 1_500.0), (4, 3_200.0), (16, 13_500.0)] {
        let workers = servers as usize;
        let mut setup = setup(topology(1, workers), open(rate), route(1_000.0, 0.0, Law::Exponential));
        setup.seconds = 400_000.0 / rate;
        let outcome = simulate(&setup).unwrap();
        let a = rate * 1e-3;
        let wait = erlang_c(servers, a).unwrap() / (workers as f64 - a) * 1_000.0;
        near(outcome.mean_us, 1_000.0 + wait, 0.05);
        near(outcome.workers_busy, a / workers as f64, 0.01);
        near(outcome.waiting, rate * wait * 1e-6, 0.1);
    }
}

#[test]
fn cores_shared_by_many_threads_are_processor_sharing() {
    // M/M/1-PS has the mean of M/M/1, whatever the law of the service times: that is what tells it from a queue.
    for law in [Law::Exponential, Law::Constant] {
        let setup = Setup { cores: 1.0, ..setup(topology(1, 2_000), open(6_000.0), route(0.0, 100.0, law)) };
        near(simulate(&setup).unwrap().mean_us, 250.0, 0.04);
    }
    // A load that takes half of two cores leaves one.
    let mix = route(0.0, 100.0, Law::Exponential);
    let setup = Setup { cores: 2.0, load_share: 0.5, ..setup(topology(1, 2_000), open(6_000.0), mix) };
    near(simulate(&setup).unwrap().mean_us, 250.0, 0.04);
}

#[test]
fn sleeping_workers_answer_n_over_t() {
    for workers in [1, 8, 32] {
        let setup = Setup {
            seconds: 5.0,
            ..setup(topology(1, workers), closed(64), route(1_000.0, 0.0, Law::Constant))
        };
        let outcome = simulate(&setup).unwrap();
        near(outcome.throughput, workers as f64 * 1_000.0, 0.01);
        near(outcome.mean_us, 64.0 / outcome.throughput * 1e6, 0.01);
    }
}

#[test]
fn a_closed_loop_is_the_machine_repairman() {
    // M/M/1//N: N clients that think, one server. P0 = 1 / sum of N! / (N - k)! (S / Z)^k, and X = (1 - P0) / S.
    let (clients, think, service) = (12, 1_000.0, 100.0);
    let load = Load::Closed { connections: clients, think_us: think, client_us: 0.0 };
    let outcome = simulate(&setup(topology(1, 0), load, route(0.0, service, Law::Exponential))).unwrap();
    let terms = (0..clients).scan(1.0, |term, k| {
        *term *= (clients - k) as f64 * service / think;
        Some(*term)
    });
    let busy = 1.0 - 1.0 / (1.0 + terms.sum::<f64>());
    near(outcome.throughput, busy / service * 1e6, 0.02);
    near(outcome.mean_us, clients as f64 / outcome.throughput * 1e6 - think, 0.03);
}

#[test]
fn no_more_is_answered_than_the_narrowest_part_allows() {
    let costs = Costs { reactor_us: 5.0, handoff_us: 4.0, lock_us: 0.0 };
    let rate = |topology, cores, costs, client_us| {
        let load = Load::Closed { connections: 256, think_us: 0.0, client_us };
        let seconds = 0.5;
        let setup = setup(topology, load, route(0.0, 20.0, Law::Constant));
        simulate(&Setup { cores, costs, seconds, warmup_s: 0.1, ..setup }).unwrap().throughput
    };
    let all = 1e6 / 29.0;
    near(rate(topology(1, 8), 1.0, costs, 0.0), all, 0.01); // the core
    near(rate(topology(4, 16), 3.0, costs, 0.0), 3.0 * all, 0.01); // the cores
    near(rate(topology(1, 64), 64.0, costs, 0.0), 1e6 / 7.0, 0.02); // the reactor: 5 and half of 4
    near(rate(topology(1, 64), 64.0, costs, 10.0), 1e5, 0.02); // the load
    near(rate(topology(8, 64), 64.0, Costs { lock_us: 20.0, ..costs }, 0.0), 5e4, 0.02); // the lock
    near(rate(topology(1, 0), 64.0, costs, 0.0), 1e6 / 25.0, 0.01); // one thread, however many cores
}

#[test]
fn connections_come_to_reactors_evenly_or_as_the_kernel_throws_them() {
    let outcome = |spread, balance| {
        let topology = Topology { spread, balance, ..topology(8, 0) };
        let load = Load::Closed { connections: 64, think_us: 900.0, client_us: 0.0 };
        simulate(&Setup { seconds: 2.0, ..setup(topology, load, route(0.0, 50.0, Law::Constant)) }).unwrap()
    };
    for balance in [Balance::RoundRobin, Balance::LeastConnections] {
        let even = outcome(Spread::Acceptor, balance);
        assert!(even.busiest_reactor < even.reactors_busy * 1.1, "{even:?}");
    }
    let thrown = outcome(Spread::ReusePort, Balance::RoundRobin);
    assert!(thrown.busiest_reactor > thrown.reactors_busy * 1.2, "{thrown:?}");
}

#[test]
fn nothing_is_lost_and_the_same_seed_gives_the_same() {
    let burst = Some(Burst { on_s: 0.05, off_s: 0.05 });
    let load = Load::Open { rate: 12_000.0, burst };
    for order in [Order::Fifo, Order::Lifo] {
        let topology = Topology { queue_capacity: 50, order, ..topology(2, 4) };
        let mut setup = setup(topology, load, route(500.0, 20.0, Law::Exponential));
        setup.seconds = 5.0;
        setup.costs = Costs { reactor_us: 5.0, handoff_us: 2.0, lock_us: 1.0 };
        let first = simulate(&setup).unwrap();
        assert_eq!(first.arrivals, first.done + first.rejected + first.in_system);
        assert!(first.rejected > 1_000 && first.done > 10_000, "{first:?}");
        assert_eq!(simulate(&setup).unwrap(), first);
        assert_ne!(simulate(&Setup { seed: 8, ..setup }).unwrap(), first);
    }
}

#[test]
fn a_controller_sees_what_happens_and_changes_the_workers() {
    let mut setup = setup(topology(1, 1), closed(100), route(1_000.0, 0.0, Law::Constant));
    (setup.seconds, setup.warmup_s) = (2.0, 1.0);
    let mut seen = Vec::new();
    // Twice as many each time, up to 20; from 2.1 s on 5.
    let mut grow = |now: &Observation| {
        seen.push(*now);
        if seen.len() > 20 { 5 } else { (now.workers * 2).min(20) }
    };
    let outcome = simulate_with(&setup, 0.1, &mut grow).unwrap();
    near(outcome.workers, 0.55 * 20.0 + 0.45 * 5.0, 0.01);
    near(outcome.throughput, outcome.workers * 1_000.0, 0.02);
    let Observation { workers, busy, waiting, done, cores_busy, .. } = seen[15];
    assert_eq!((workers, waiting, cores_busy), (20, 80, 0.0));
    near(busy, 20.0, 1e-9);
    near(done as f64, 2_000.0, 0.01);
    assert_eq!(seen[25].workers, 5);
    assert!(simulate_with(&setup, 0.0, &mut |_: &Observation| 1).is_err());
}

#[test]
fn who_is_to_leave_is_not_wanted_again_for_being_busy() {
    // Requests of a second: 16 workers are at one when 4 are wanted, and 12 of those finish it first.
    let mut setup = setup(topology(1, 16), closed(100), route(1e6, 0.0, Law::Constant));
    (setup.seconds, setup.warmup_s) = (2.0, 2.0);
    let mut seen = Vec::new();
    let mut shrink = |now: &Observation| {
        seen.push((now.workers, now.busy));
        if seen.len() == 15 { 4 } else { now.workers }
    };
    let outcome = simulate_with(&setup, 0.1, &mut shrink).unwrap();
    assert_eq!((seen[14].0, seen[15].0), (16, 4));
    near(seen[15].1, 4.0, 1e-9);
    near(outcome.workers, 4.0, 1e-9);
}

#[test]
fn requests_become_others_at_their_moment() {
    let change = Change { at_s: 3.0, mix: route(4_000.0, 0.0, Law::Constant) };
    let setup = setup(topology(1, 8), closed(64), route(1_000.0, 0.0, Law::Constant));
    let setup = Setup { seconds: 4.0, warmup_s: 1.0, change: Some(change), ..setup };
    // Two seconds with 8,000 of them in each, and two with 2,000.
    near(simulate(&setup).unwrap().throughput, 5_000.0, 0.01);
}

#[test]
fn what_cannot_be_modelled_is_refused() {
    let good = setup(topology(1, 1), closed(1), route(1.0, 0.0, Law::Constant));
    let refused = |setup: Setup| simulate(&setup).unwrap_err();
    assert!(refused(Setup { cores: 0.0, ..good.clone() }).contains("cores"));
    assert!(refused(Setup { load_share: 1.0, ..good.clone() }).contains("load_share"));
    assert!(refused(Setup { seconds: f64::NAN, ..good.clone() }).contains("seconds"));
    assert!(refused(Setup { mix: Vec::new(), ..good.clone() }).contains("mix"));
    assert!(refused(Setup { load: open(0.0), ..good.clone() }).contains("load"));
    let standing_still = Setup { mix: route(0.0, 0.0, Law::Constant), ..good.clone() };
    assert!(refused(standing_still).contains("some time"));
    let blocking = Setup { topology: Model::ThreadPool.row(1, 1), ..good };
    assert!(refused(blocking).contains("not modelled"));
}
