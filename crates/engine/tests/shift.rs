//! The number of reactors follows the processors: those that rest hand everything on, and nobody is lost.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use common::{connect, end, expect_echo, expect_refusal, start_where, sum, until};
use engine::meter::Counters;
use engine::{Kind, Model, Running, Spread, Topology};

/// Every way in which a reactor comes by its connections.
fn ways() -> impl Iterator<Item = (Kind, Spread)> {
    let uring = match engine::driver::uring::probe() {
        Ok(()) => Some(Kind::Uring),
        Err(error) => {
            eprintln!("skipped: no io_uring ({error})");
            None
        }
    };
    let spreads = [Spread::ReusePort, Spread::Acceptor, Spread::Shared];
    let drivers = [Kind::Epoll].into_iter().chain(uring);
    drivers.flat_map(move |driver| spreads.map(|spread| (driver, spread)))
}

fn server(
    (driver, spread): (Kind, Spread),
    reactors: usize,
    connections: usize,
    usable: fn() -> usize,
) -> Running {
    let row = Model::Reactor.row(1, connections);
    start_where(Topology { driver, reactors, spread, ..row }.following(3), usable)
}

/// Connections that each reactor has.
fn open(running: &Running) -> Vec<u64> {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let open = |one: &Counters| (read(&one.accepted) + read(&one.moved_in)).saturating_sub(read(&one.closed));
    running.counters()[..3].iter().map(|one| open(one)).collect()
}

/// Connects so many clients, each of which is answered.
fn clients(running: &Running, count: usize) -> Vec<TcpStream> {
    let mut streams: Vec<TcpStream> = (0..count).map(|_| connect(running)).collect();
    streams.iter_mut().for_each(|stream| expect_echo(stream, b"hello"));
    streams
}

#[test]
fn reactors_rest_and_wake_and_are_started_and_nobody_is_lost() {
    static USABLE: AtomicUsize = AtomicUsize::new(2);
    for way in ways() {
        USABLE.store(2, Ordering::Relaxed);
        let running = server(way, 2, 100, || USABLE.load(Ordering::Relaxed));
        let shift = running.shift();
        let mut streams = clients(&running, 24);
        assert_eq!((shift.working(), shift.started()), (2, 2), "{way:?}");

        USABLE.store(1, Ordering::Relaxed);
        until("one works", || shift.working() == 1);
        // Those that are there leave with their next message, and those that come are handed on.
        streams.iter_mut().for_each(|stream| expect_echo(stream, b"on"));
        streams.extend(clients(&running, 24));
        until("all are with the first", || open(&running) == [48, 0, 0]);

        USABLE.store(3, Ordering::Relaxed);
        until("a third works", || (shift.working(), shift.started()) == (3, 3));
        // The kernel spreads by chance, and a shared socket to whoever comes first.
        until(&format!("each gets some of those that come {way:?}"), || {
            let more = clients(&running, 24);
            let all = open(&running).iter().all(|open| *open > 0);
            drop(more);
            all || way.1 == Spread::Shared
        });
        streams.iter_mut().for_each(|stream| expect_echo(stream, b"still here"));

        let counters = end(running);
        let moved = sum(&counters, |one| &one.moved_out);
        assert_eq!(sum(&counters, |one| &one.moved_in), moved, "{way:?}");
        assert_eq!(sum(&counters, |one| &one.refused), 0, "{way:?}");
        let came = sum(&counters, |one| &one.accepted);
        assert_eq!(sum(&counters, |one| &one.closed), came + moved, "{way:?}");
    }
}

#[test]
fn who_rests_keeps_those_that_nobody_else_has_room_for() {
    static USABLE: AtomicUsize = AtomicUsize::new(2);
    for way in ways().filter(|(_, spread)| *spread != Spread::Shared) {
        USABLE.store(2, Ordering::Relaxed);
        let running = server(way, 2, 16, || USABLE.load(Ordering::Relaxed));
        USABLE.store(1, Ordering::Relaxed);
        until("one works", || running.shift().working() == 1);
        let mut first = clients(&running, 16);
        // Few places are left to those that come to the first by themselves.
        let seen = open(&running);
        assert!(seen[0] >= 13 && seen.iter().sum::<u64>() == 16, "{way:?} {seen:?}");
        first.iter_mut().for_each(|stream| expect_echo(stream, b"on"));
        end(running);
    }
}

#[test]
fn nobody_is_refused_while_one_that_rests_has_a_place() {
    static USABLE: AtomicUsize = AtomicUsize::new(2);
    for way in ways() {
        USABLE.store(2, Ordering::Relaxed);
        let running = server(way, 2, 4, || USABLE.load(Ordering::Relaxed));
        USABLE.store(1, Ordering::Relaxed);
        until("one works", || running.shift().working() == 1);
        let mut all = clients(&running, 8);
        assert_eq!(open(&running), [4, 4, 0], "{way:?}");
        assert_eq!(sum(running.counters(), |one| &one.refused), 0, "{way:?}");
        // Nobody has one any more.
        expect_refusal(&running, way);
        assert_eq!(sum(running.counters(), |one| &one.refused), 1, "{way:?}");
        all.iter_mut().for_each(|stream| expect_echo(stream, b"on"));
        let counters = end(running);
        let came = sum(&counters, |one| &one.accepted);
        let moved = sum(&counters, |one| &one.moved_in);
        assert_eq!(sum(&counters, |one| &one.moved_out), moved, "{way:?}");
        assert_eq!(sum(&counters, |one| &one.closed), came + moved, "{way:?}");
    }
}

#[test]
fn those_that_are_started_later_bring_no_more_places_where_all_share_them() {
    static USABLE: AtomicUsize = AtomicUsize::new(1);
    for way in ways() {
        USABLE.store(1, Ordering::Relaxed);
        let (driver, spread) = way;
        let row = Topology { driver, spread, ..Model::Reactor.row(1, 0) };
        let running = start_where(row.following(3).sharing(6), || USABLE.load(Ordering::Relaxed));
        let mut all = clients(&running, 3);
        USABLE.store(3, Ordering::Relaxed);
        until("three work", || running.shift().working() == 3);
        all.extend(clients(&running, 3));
        assert!(open(&running)[2] <= 2, "{way:?}: its share of the six");
        expect_refusal(&running, way);
        all.iter_mut().for_each(|stream| expect_echo(stream, b"on"));
        end(running);
    }
}

#[test]
fn a_stop_while_they_change_loses_nobody() {
    static USABLE: AtomicUsize = AtomicUsize::new(1);
    for way in ways() {
        USABLE.store(2, Ordering::Relaxed);
        let running = server(way, 2, 100, || USABLE.load(Ordering::Relaxed));
        let mut streams = clients(&running, 24);
        USABLE.store(1, Ordering::Relaxed);
        until("one works", || running.shift().working() == 1);
        streams.extend((0..24).map(|_| connect(&running)));
        streams.iter_mut().for_each(|stream| stream.write_all(b"last").unwrap());
        running.stop().set();
        // Whoever asked before the stop is answered.
        for stream in &mut streams {
            let mut back = [0; 4];
            stream.read_exact(&mut back).unwrap_or_else(|error| panic!("{way:?}: {error}"));
            assert_eq!(&back, b"last", "{way:?}");
        }
        running.join().unwrap();
    }
}
