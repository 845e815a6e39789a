//! Sockets coming and going, time, and other threads.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use engine::{Deadline, Driver, Error, Listener, More, Stream};
use rustix::io::Errno;

use crate::common::*;

pub(crate) fn connections_are_accepted_with_their_peer<D: Driver>() {
    let Some(io) = driver::<D>(8) else { return };
    let fd = engine::listen::listen((Ipv4Addr::LOCALHOST, 0).into(), 1, 16).unwrap().remove(0);
    let address = engine::listen::local_address(&fd).unwrap();
    let listener = Listener::new(&io, fd).unwrap();
    let start = Instant::now();
    let none = run(&io, listener.accept(Deadline::at(start + Duration::from_millis(30))));
    assert_eq!(none.err(), Some(Error::TimedOut));
    for _ in 0..3 {
        let mut peers: Vec<_> = (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut addresses: Vec<_> = peers.iter().map(|peer| peer.local_addr().unwrap()).collect();
        let mut seen = Vec::new();
        for _ in 0..4 {
            let (fd, peer) = run(&io, listener.accept(soon())).unwrap();
            seen.push(peer);
            let stream = Stream::new(&io, fd).unwrap();
            run(&io, stream.send(filled(b"welcome"), More::No, soon())).1.unwrap();
        }
        io.driver().park(after(Duration::from_millis(20))).unwrap();
        for peer in &mut peers {
            let mut text = String::new();
            peer.read_to_string(&mut text).unwrap();
            assert_eq!(text, "welcome");
        }
        addresses.sort_unstable();
        seen.sort_unstable();
        assert_eq!(seen, addresses);
    }
}

pub(crate) fn connecting_works_or_says_why<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let stream = run(&io, Stream::connect(&io, socket(), address, soon())).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    peer.write_all(b"hello").unwrap();
    assert_eq!(receive(&io, &stream, None).1, Ok(5));
    drop((listener, peer));
    let refused = run(&io, Stream::connect(&io, socket(), address, soon()));
    assert_eq!(refused.err(), Some(Error::Os(Errno::CONNREFUSED)));
}

pub(crate) fn the_table_of_sockets_is_bounded_and_used_again<D: Driver>() {
    let Some(io) = driver::<D>(2) else { return };
    let (first, _a) = pair(&io);
    let (_second, _b) = pair(&io);
    assert_eq!(Stream::new(&io, socket()).err(), Some(Error::Os(Errno::NOBUFS)));
    drop((first, _second));
    for round in 0..500 {
        let (stream, mut peer) = pair(&io);
        peer.write_all(b"x").unwrap();
        assert_eq!(receive(&io, &stream, None).1, Ok(1), "round {round}");
        // A time-out that is still in the heap must not hit the next user of the place.
        let (_, result) = run(&io, stream.recv(None, after(Duration::from_micros(1)), || false));
        assert_eq!(result, Err(Error::TimedOut));
        drop(stream);
        io.driver().park(Deadline::at(Instant::now())).unwrap();
        // The place is free again when the kernel has let go of the socket.
        while Stream::new(&io, socket()).is_err() {
            io.driver().park(after(Duration::from_millis(1))).unwrap();
        }
    }
}

pub(crate) fn an_end_of_the_driver_leaves_nothing_open<D: Driver>() {
    let Some(io) = driver::<D>(8) else { return };
    let (stream, mut peer) = pair(&io);
    let (idle, mut other) = pair(&io);
    peer.write_all(b"unread").unwrap();
    drop((stream, idle));
    io.close().unwrap();
    assert!(matches!(peer.read(&mut [0; 8]), Ok(0) | Err(_)));
    assert_eq!(other.read(&mut [0; 8]).unwrap(), 0);
}

pub(crate) fn a_socket_given_up_in_the_middle_is_closed<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    for round in 0..200 {
        let (stream, mut peer) = pair(&io);
        {
            let mut waiting = pin!(stream.recv(None, soon(), || false));
            assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            if round % 2 == 0 {
                io.driver().park(after(Duration::from_millis(1))).unwrap();
            }
        }
        drop(stream);
        peer.set_nonblocking(true).unwrap();
        let start = Instant::now();
        while !matches!(peer.read(&mut [0; 8]), Ok(0)) {
            assert!(start.elapsed() < PATIENCE, "round {round}: it stays open");
            io.driver().park(after(Duration::from_millis(1))).unwrap();
        }
    }
}

pub(crate) fn another_thread_wakes_the_driver<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    let unpark = io.driver().unpark();
    for _ in 0..100 {
        unpark.looked();
        let waker = unpark.clone();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_micros(200));
            waker.unpark();
        });
        let start = Instant::now();
        io.driver().park(soon()).unwrap();
        assert!(start.elapsed() < PATIENCE / 2);
        other.join().unwrap();
    }
}

pub(crate) fn many_sockets_at_once<D: Driver>() {
    let Some(io) = driver::<D>(600) else { return };
    let mut pairs: Vec<_> = (0..500).map(|_| pair(&io)).collect();
    for round in 0..3u8 {
        let mut waiting: Vec<_> =
            pairs.iter().map(|(stream, _)| Box::pin(stream.recv(None, soon(), || false))).collect();
        for future in &mut waiting {
            assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        // All at once: more than there are buffers in the kernel's ring.
        for (index, (_, peer)) in pairs.iter().enumerate() {
            (&*peer).write_all(&[index as u8, round]).unwrap();
        }
        for (index, future) in waiting.into_iter().enumerate() {
            let (buf, result) = run(&io, future);
            let buf = buf.unwrap();
            assert_eq!((buf.bytes(), result), (&[index as u8, round][..], Ok(2)), "{index}");
            io.driver().give_buf(buf);
        }
    }
    pairs.clear();
    io.close().unwrap();
}

pub(crate) fn a_shared_listener_gives_each_connection_once<D: Driver>() {
    let fd = engine::listen::listen((Ipv4Addr::LOCALHOST, 0).into(), 1, 512).unwrap().remove(0);
    let address = engine::listen::local_address(&fd).unwrap();
    let (count, stop) = (std::sync::atomic::AtomicUsize::new(0), std::sync::atomic::AtomicBool::new(false));
    use std::sync::atomic::Ordering::SeqCst;
    thread::scope(|scope| {
        for _ in 0..3 {
            let (fd, count, stop) = (fd.try_clone().unwrap(), &count, &stop);
            scope.spawn(move || {
                let Some(io) = driver::<D>(8) else { return };
                let listener = Listener::shared(&io, fd).unwrap();
                while !stop.load(SeqCst) {
                    match run(&io, listener.accept(after(Duration::from_millis(20)))) {
                        Ok(_) => _ = count.fetch_add(1, SeqCst),
                        Err(error) => assert_eq!(error, Error::TimedOut),
                    }
                }
            });
        }
        let peers: Vec<_> = (0..300).map(|_| TcpStream::connect(address).unwrap()).collect();
        let start = Instant::now();
        while count.load(SeqCst) < 300 && start.elapsed() < PATIENCE && driver::<D>(1).is_some() {
            thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, SeqCst);
        drop(peers);
    });
    assert!(count.load(SeqCst) == 300 || driver::<D>(1).is_none(), "{}", count.load(SeqCst));
}

pub(crate) fn a_sleep_lasts_as_long_as_it_should<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    for ms in [0, 1, 30] {
        let (start, time) = (Instant::now(), Duration::from_millis(ms));
        run(&io, io.sleep(Deadline::at(start + time)));
        assert!(start.elapsed() >= time);
    }
}

pub(crate) fn a_sleep_takes_no_place_of_a_socket<D: Driver>() {
    let Some(io) = driver::<D>(1) else { return };
    let (_stream, _peer) = pair(&io);
    for _ in 0..3 {
        let (start, time) = (Instant::now(), Duration::from_millis(10));
        run(&io, io.sleep(Deadline::at(start + time)));
        assert!(start.elapsed() >= time);
    }
    assert_eq!(Stream::new(&io, socket()).err(), Some(Error::Os(Errno::NOBUFS)));
}

pub(crate) fn a_socket_that_is_being_closed_takes_no_place<D: Driver>() {
    let Some(io) = driver::<D>(1) else { return };
    for _ in 0..20 {
        let (stream, _peer) = pair(&io);
        {
            let waiting = pin!(stream.recv(None, soon(), || false));
            begin(&io, waiting);
        }
        // The kernel may have its receive still, and nobody waits for the kernel before the next one comes.
        drop(stream);
    }
}

pub(crate) fn a_dropped_send_harms_nothing<D: Driver>() {
    let Some(io) = driver::<D>(8) else { return };
    for _ in 0..20 {
        let (stream, mut peer) = pair(&io);
        let sent = stuff(&io, &stream);
        {
            let mut waiting = pin!(stream.send(filled(b"given up"), More::No, soon()));
            begin(&io, waiting.as_mut());
        }
        // The buffer is with the kernel, maybe. Others are used meanwhile, and must not be mixed up with it.
        let (other, mut its_peer) = pair(&io);
        run(&io, other.send(filled(b"other"), More::No, soon())).1.unwrap();
        drop((stream, other));
        let mut got = Vec::new();
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let _ = peer.read_to_end(&mut got);
            });
            while !reader.is_finished() {
                io.driver().park(after(Duration::from_millis(5))).unwrap();
            }
        });
        assert!(got.len() >= sent && got.len() <= sent + 8, "{} of {sent}", got.len());
        let mut text = String::new();
        its_peer.read_to_string(&mut text).unwrap();
        assert_eq!(text, "other");
    }
}
