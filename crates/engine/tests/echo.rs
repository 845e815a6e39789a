//! A running server of the engine: every spread serves, refuses when it is full, and stops cleanly.

mod common;

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{Echo, connect, end, expect_echo, expect_refusal, start, sum, until};
use engine::{Kind, Model, Settings, Spread};

const SPREADS: [(usize, Spread); 4] =
    [(1, Spread::ReusePort), (3, Spread::ReusePort), (1, Spread::Acceptor), (3, Spread::Acceptor)];

#[test]
fn every_spread_serves_many_connections_and_stops() {
    for (reactors, spread) in SPREADS {
        let running = start(reactors, spread, 400);
        let mut streams: Vec<_> = (0..200).map(|_| connect(&running)).collect();
        for round in 0..3 {
            for (index, stream) in streams.iter_mut().enumerate() {
                expect_echo(stream, format!("{spread:?} {round} {index}\n").as_bytes());
            }
        }
        let counters = end(running);
        assert_eq!(sum(&counters, |one| &one.accepted), 200);
        assert_eq!(sum(&counters, |one| &one.closed), 200);
        for mut stream in streams {
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the server closed its side");
        }
    }
}

#[test]
fn an_acceptor_gives_connections_to_the_reactors_in_turn() {
    let running = start(3, Spread::Acceptor, 100);
    let mut streams: Vec<_> = (0..9).map(|_| connect(&running)).collect();
    streams.iter_mut().for_each(|stream| expect_echo(stream, b"x"));
    let taken: Vec<u64> =
        running.counters()[..3].iter().map(|c| c.accepted.load(Ordering::Relaxed)).collect();
    assert_eq!(taken, [3, 3, 3]);
    end(running);
}

#[test]
fn a_full_reactor_refuses_and_recovers() {
    for (reactors, spread) in [(1, Spread::ReusePort), (1, Spread::Acceptor)] {
        let running = start(reactors, spread, 2);
        let mut first = connect(&running);
        let mut second = connect(&running);
        expect_echo(&mut first, b"one");
        expect_echo(&mut second, b"two");
        expect_refusal(&running, spread);
        assert_eq!(running.counters()[0].refused.load(Ordering::Relaxed), 1);
        drop(first);
        // The end of the first connection reaches the reactor before the next one can be accepted, or that
        // one is refused too; so this is tried until it holds.
        until("the next one is let in", || {
            let mut next = connect(&running);
            next.write_all(b"back").unwrap();
            let mut back = [0; 4];
            next.read_exact(&mut back).is_ok() && &back == b"back"
        });
        end(running);
    }
}

#[test]
fn a_drain_without_end_is_over_when_nobody_is_left() {
    for model in Model::ALL.iter().filter(|model| model.row(2, 10).driver != Kind::Uring) {
        let topology = model.row(2, 10);
        let address = ([127, 0, 0, 1], 0).into();
        let settings = Settings { drain: Duration::MAX, ..Settings::new(topology, address) };
        let running = engine::start(&settings, Arc::new(Echo)).unwrap();
        expect_echo(&mut connect(&running), b"hello");
        let counters = end(running);
        assert_eq!(sum(&counters, |one| &one.closed), 1, "{model}");
    }
}

#[test]
fn starting_and_stopping_leaves_nothing_behind() {
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    // Other tests of this file run beside this one, so it looks for growth over many cycles.
    let before = (count("fd"), count("task"));
    for _ in 0..20 {
        let running = start(2, Spread::Acceptor, 10);
        expect_echo(&mut connect(&running), b"hello");
        end(running);
    }
    let after = (count("fd"), count("task"));
    assert!(after.0 < before.0 + 450 && after.1 < before.1 + 20, "{before:?} {after:?}");
}
