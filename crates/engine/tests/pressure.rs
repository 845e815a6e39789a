//! While memory is scarce nobody new is let in, those who are there are served, and whoever came waits.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, connect, expect_echo, start_with};
use engine::{Kind, Model, Running, Spread, Topology};

fn pauses(running: &Running) -> u64 {
    running.counters().iter().map(|one| one.paused.load(Ordering::Relaxed)).sum()
}

fn until_more_pauses(running: &Running, than: u64) {
    let start = Instant::now();
    while pauses(running) <= than {
        assert!(start.elapsed() < PATIENCE, "it does not pause");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn accepting_pauses_while_memory_is_scarce_and_goes_on_then() {
    static SCARCE: AtomicBool = AtomicBool::new(false);
    let in_use = || Some(if SCARCE.load(Ordering::Relaxed) { 0.95 } else { 0.5 });
    let reactor = Model::Reactor.row(1, 16);
    let uring = engine::driver::uring::probe().is_ok();
    let topologies = [
        Some(reactor),
        Some(Topology { spread: Spread::Acceptor, ..reactor }),
        uring.then_some(Topology { driver: Kind::Uring, ..reactor }),
        Some(Model::ThreadPool.row(1, 16)),
        Some(Model::ThreadPerConnection.row(1, 16)),
    ];
    for topology in topologies.into_iter().flatten() {
        SCARCE.store(false, Ordering::Relaxed);
        let running = start_with(topology, || 1, Some(in_use));
        let mut first = connect(&running);
        expect_echo(&mut first, b"first");
        assert_eq!(pauses(&running), 0, "{topology:?}");

        SCARCE.store(true, Ordering::Relaxed);
        // It looks whether it is after each that it accepts.
        let start = Instant::now();
        while pauses(&running) == 0 {
            assert!(start.elapsed() < PATIENCE, "{topology:?}");
            let mut one = connect(&running);
            one.write_all(b"one").unwrap();
            thread::sleep(Duration::from_millis(50));
        }
        let mut waits = connect(&running);
        waits.write_all(b"waits").unwrap();
        until_more_pauses(&running, pauses(&running) + 1);
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
        running.stop().set();
        running.join().unwrap();
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
        running.stop().set();
        running.join().unwrap();
    }
}
