//! While memory is scarce nobody new is let in, those who are there are served, and whoever came waits; but not for good.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, connect, end, expect_echo, start_with, sum, until, until_within};
use engine::{Kind, Level, Model, Running, Spread, Topology};

fn pauses(running: &Running) -> u64 {
    sum(running.counters(), |one| &one.paused)
}

/// Every way in which connections are accepted.
fn topologies() -> Vec<Topology> {
    let reactor = Model::Reactor.row(1, 16);
    let uring = engine::driver::uring::probe().is_ok();
    [
        Some(reactor),
        Some(Topology { spread: Spread::Acceptor, ..reactor }),
        uring.then_some(Topology { driver: Kind::Uring, ..reactor }),
        Some(Model::ThreadPool.row(1, 16)),
        Some(Model::ThreadPerConnection.row(1, 16)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn accepting_pauses_while_memory_is_scarce_and_goes_on_then() {
    static SCARCE: AtomicBool = AtomicBool::new(false);
    let in_use = || Some(if SCARCE.load(Ordering::Relaxed) { 0.95 } else { 0.5 });
    for topology in topologies() {
        SCARCE.store(false, Ordering::Relaxed);
        let running = start_with(topology, || 1, Some(in_use));
        let mut first = connect(&running);
        expect_echo(&mut first, b"first");
        assert_eq!(pauses(&running), 0, "{topology:?}");

        SCARCE.store(true, Ordering::Relaxed);
        // It looks whether it is after each that it accepts.
        until(&format!("it pauses {topology:?}"), || {
            let mut one = connect(&running);
            one.write_all(b"one").unwrap();
            thread::sleep(Duration::from_millis(50));
            pauses(&running) > 0
        });
        let mut waits = connect(&running);
        waits.write_all(b"waits").unwrap();
        let before = pauses(&running);
        until(&format!("it pauses again {topology:?}"), || pauses(&running) > before + 1);
        waits.set_nonblocking(true).unwrap();
        assert_eq!(waits.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "{topology:?}");
        waits.set_nonblocking(false).unwrap();
        if topology.driver != Kind::Blocking {
            // There, who has been idle may be gone.
            expect_echo(&mut first, b"still served");
        }

        SCARCE.store(false, Ordering::Relaxed);
        let mut back = [0; 5];
        waits.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"waits", "{topology:?}");
        end(running);
    }
}

#[test]
fn threads_let_idle_connections_go_though_nobody_comes() {
    static SCARCE: AtomicBool = AtomicBool::new(false);
    let in_use = || Some(if SCARCE.load(Ordering::Relaxed) { 0.95 } else { 0.5 });
    for model in [Model::ThreadPool, Model::ThreadPerConnection] {
        SCARCE.store(false, Ordering::Relaxed);
        let running = start_with(model.row(1, 16), || 1, Some(in_use));
        let mut idle = connect(&running);
        expect_echo(&mut idle, b"once");
        SCARCE.store(true, Ordering::Relaxed);
        idle.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(idle.read(&mut [0]).unwrap(), 0, "{model:?}");
        end(running);
    }
}

/// What becomes of somebody who comes now: whether it is served, or refused.
fn is_served(running: &Running) -> bool {
    let mut client = connect(running);
    let _ = client.write_all(b"x");
    let mut first = [0];
    // The refusal may be lost where the server has closed before this wrote.
    client.read(&mut first).is_ok_and(|n| n == 1 && first[0] == b'x')
}

fn until_level(running: &Running, level: Level) {
    // It takes up to ten looks at the host, one a second.
    until_within(2 * PATIENCE, &format!("{level:?} comes"), || running.pressure().level() == level);
}

#[test]
fn where_memory_stays_scarce_some_are_let_in_and_the_others_are_told() {
    static PERCENT: AtomicU32 = AtomicU32::new(95);
    let in_use = || Some(f64::from(PERCENT.load(Ordering::Relaxed)) / 100.0);
    let start = |topology| start_with(topology, || 1, Some(in_use));
    // All at once, since it takes its time.
    let servers: Vec<Running> = topologies().into_iter().map(start).collect();
    for running in &servers {
        until_level(running, Level::Lasting);
        let (start, mut served, mut refused) = (Instant::now(), 0, 0);
        while served < 2 {
            assert!(start.elapsed() < PATIENCE, "they are shut out");
            if is_served(running) { served += 1 } else { refused += 1 }
        }
        // There are seconds between the two, in which others came.
        assert!(start.elapsed() >= Duration::from_secs(1));
        let turned_away = sum(running.counters(), |one| &one.turned_away);
        assert!((1..=refused).contains(&turned_away), "{refused} {turned_away}");
    }
    PERCENT.store(98, Ordering::Relaxed);
    for running in &servers {
        until_level(running, Level::Out);
        assert!((0..5).all(|_| !is_served(running)));
    }
    PERCENT.store(50, Ordering::Relaxed);
    for running in servers {
        until_level(&running, Level::Enough);
        assert!((0..5).all(|_| is_served(&running)));
        end(running);
    }
}
