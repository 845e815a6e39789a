//! Connections move from a busy reactor to an idle one while they are in use, and nobody notices.

mod common;

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, connect, end, expect_echo, start_topology, sum};
use engine::{Kind, Model, Rebalance, Running, Spread, Topology};

const REACTORS: usize = 2;

fn moved_out(running: &Running) -> u64 {
    sum(running.counters(), |one| &one.moved_out)
}

/// Eight connections, of which the first reactor has those with even numbers.
fn server(driver: Kind, rebalance: Rebalance) -> (Running, Vec<TcpStream>) {
    let row = Model::Reactor.row(1, 16);
    let running =
        start_topology(Topology { driver, reactors: REACTORS, spread: Spread::Acceptor, rebalance, ..row });
    let mut streams: Vec<TcpStream> = (0..8).map(|_| connect(&running)).collect();
    // The echo server works for each message, so that its reactor is busy.
    streams.iter_mut().for_each(|stream| expect_echo(stream, b"hello"));
    (running, streams)
}

/// Uses every second connection without a pause until `enough`.
fn use_every_second(streams: &mut [TcpStream], enough: impl Fn() -> bool) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for stream in streams.iter_mut().step_by(2) {
            scope.spawn(|| {
                for message in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    expect_echo(stream, format!("message {message}\n").as_bytes());
                }
            });
        }
        let start = Instant::now();
        while !enough() && start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn work_is_spread_again_and_nothing_is_lost() {
    for driver in [Kind::Epoll, Kind::Uring] {
        if driver == Kind::Uring && engine::driver::uring::probe().is_err() {
            eprintln!("skipped: no io_uring");
            continue;
        }
        let (running, mut streams) = server(driver, Rebalance::On);
        use_every_second(&mut streams, || moved_out(&running) > 0);
        streams.iter_mut().for_each(|stream| expect_echo(stream, b"still here"));
        let moved = moved_out(&running);
        assert!(moved > 0, "{driver}");
        assert_eq!(sum(running.counters(), |one| &one.moved_in), moved, "{driver}");
        let counters = end(running);
        assert_eq!(sum(&counters, |one| &one.accepted), 8);
        assert_eq!(sum(&counters, |one| &one.refused), 0);
        assert_eq!(sum(&counters, |one| &one.closed), 8 + sum(&counters, |one| &one.moved_in));
    }
}

#[test]
fn a_stop_in_the_midst_of_it_loses_nobody() {
    for _ in 0..3 {
        let (running, mut streams) = server(Kind::Epoll, Rebalance::On);
        use_every_second(&mut streams, || moved_out(&running) > 0);
        let counters = end(running);
        let came = 8 + sum(&counters, |one| &one.moved_in);
        assert_eq!(sum(&counters, |one| &one.closed), came);
        assert_eq!(sum(&counters, |one| &one.moved_out) + 8, came);
    }
}

#[test]
fn switched_off_everybody_stays() {
    let (running, mut streams) = server(Kind::Epoll, Rebalance::Off);
    let start = Instant::now();
    use_every_second(&mut streams, || start.elapsed() > Duration::from_secs(2));
    assert_eq!(moved_out(&running), 0);
    end(running);
}
