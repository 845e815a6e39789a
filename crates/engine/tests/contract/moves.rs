//! A socket goes from one driver to another: whatever comes meanwhile is received, once and in order.

use std::io::{Read, Write};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use engine::{Driver, Error, Io, More, Stream};

use crate::common::*;

/// Moves a stream to another driver; what had come in before is put behind `got`.
fn moved<D: Driver>(mut stream: Stream<D>, from: &Io<D>, to: &Io<D>, got: &mut Vec<u8>) -> Stream<D> {
    loop {
        stream = match run(from, stream.into_fd()) {
            Ok(fd) => return Stream::new(to, fd).unwrap(),
            Err(stream) => stream,
        };
        let (buf, result) = receive(from, &stream, None);
        assert!(result.unwrap() > 0, "it stayed for nothing");
        got.extend_from_slice(buf.unwrap().bytes());
    }
}

/// Gives the driver a moment to finish what it has begun.
fn take_a_breath<D: Driver>(io: &Io<D>) {
    io.driver().park(after(Duration::from_millis(10))).unwrap();
}

pub(crate) fn a_socket_moves_between_drivers_and_loses_nothing<D: Driver>() {
    // Each with one place: a socket that has left leaves it.
    let (Some(a), Some(b)) = (driver::<D>(1), driver::<D>(1)) else { return };
    let (mut stream, mut peer) = pair(&a);
    let sent = noise(300_000);
    let expected = sent.clone();
    let writer = thread::spawn(move || {
        for piece in sent.chunks(1000) {
            peer.write_all(piece).unwrap();
            thread::sleep(Duration::from_micros(200));
        }
        peer
    });
    let (mut got, mut moves) = (Vec::new(), 0);
    let mut drivers = [&a, &b];
    while got.len() < expected.len() {
        // A receive under way, as with a connection that waits; it is given up, and may have got something.
        let (from, to) = (drivers[0], drivers[1]);
        {
            let mut waiting = pin!(stream.recv(None, soon(), || true));
            if let Poll::Ready((Some(buf), Ok(_))) =
                waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                got.extend_from_slice(buf.bytes());
            }
        }
        stream = moved(stream, from, to, &mut got);
        moves += 1;
        drivers.reverse();
        let (buf, result) = run(drivers[0], stream.recv(None, after(Duration::from_millis(1)), || false));
        match result {
            Ok(_) => got.extend_from_slice(buf.unwrap().bytes()),
            Err(error) => assert_eq!(error, Error::TimedOut),
        }
    }
    assert!(got == expected, "{} bytes of {}", got.len(), expected.len());
    assert!(moves > 10, "{moves} moves");
    let mut peer = writer.join().unwrap();
    let (_, result) = run(drivers[0], stream.send(filled(b"done"), More::No, soon()));
    assert_eq!(result, Ok(4));
    let mut back = [0; 4];
    peer.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"done");
    drop(stream);
    // Some drivers close it only when the kernel has let go of it.
    (0..2).for_each(|_| take_a_breath(drivers[0]));
    assert_eq!(peer.read(&mut back).unwrap(), 0, "the last driver closes it");
}

pub(crate) fn a_socket_that_cannot_move_stays<D: Driver>() {
    let Some(io) = driver::<D>(1) else { return };
    let (stream, mut peer) = pair(&io);
    let Err(stream) = run(&io, stream.into_fd()) else { panic!("it went") };
    peer.write_all(b"here").unwrap();
    assert_eq!(receive(&io, &stream, None).1, Ok(4));
}
