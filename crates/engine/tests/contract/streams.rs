//! Bytes in and out of one connection: nothing lost, nothing late, nothing mixed up.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use engine::{BUF_BYTES, Buf, Deadline, Driver, Error, FileRange, More};
use rustix::io::Errno;

use crate::common::*;

pub(crate) fn bytes_come_and_go<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    let (stream, mut peer) = pair(&io);
    for round in 0..100 {
        let text = format!("message {round}");
        peer.write_all(text.as_bytes()).unwrap();
        let (buf, result) = receive(&io, &stream, None);
        assert_eq!((buf.as_ref().map(Buf::bytes), result), (Some(text.as_bytes()), Ok(text.len())));
        let (rest, result) = run(&io, stream.send(buf.unwrap(), More::No, soon()));
        assert_eq!((rest.len(), result), (0, Ok(text.len())));
        let mut back = vec![0; text.len()];
        peer.read_exact(&mut back).unwrap();
        assert_eq!(back, text.as_bytes());
        io.driver().give_buf(rest);
    }
}

pub(crate) fn bytes_are_put_behind_what_is_there<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    let (stream, mut peer) = pair(&io);
    peer.write_all(b"hello ").unwrap();
    let (buf, _) = receive(&io, &stream, None);
    peer.write_all(b"world").unwrap();
    let (buf, result) = receive(&io, &stream, buf);
    assert_eq!((buf.unwrap().bytes(), result), (&b"hello world"[..], Ok(5)));
    // Little room takes a part, and the rest comes with the next receive.
    peer.write_all(b"abcdef").unwrap();
    let mut full = filled(&noise(BUF_BYTES - 2));
    let (buf, result) = receive(&io, &stream, Some(full));
    full = buf.unwrap();
    assert_eq!((full.room(), result), (0, Ok(2)));
    let (buf, result) = receive(&io, &stream, None);
    assert_eq!((buf.unwrap().bytes(), result), (&b"cdef"[..], Ok(4)));
}

pub(crate) fn a_flood_arrives_whole<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    let (stream, mut peer) = pair(&io);
    let sent = noise(3 << 20);
    let expected = sent.clone();
    let writer = thread::spawn(move || {
        peer.write_all(&sent).unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        peer
    });
    let mut got = Vec::new();
    loop {
        // Slower than the peer at times, so that bytes line up.
        if got.len() % 7 == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let (buf, result) = receive(&io, &stream, None);
        if result.unwrap() == 0 {
            break;
        }
        let buf = buf.unwrap();
        got.extend_from_slice(buf.bytes());
        io.driver().give_buf(buf);
    }
    drop(writer.join().unwrap());
    assert!(got == expected, "{} bytes of {}", got.len(), expected.len());
}

pub(crate) fn the_end_of_the_stream_stays<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    let (stream, mut peer) = pair(&io);
    peer.write_all(b"last").unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    let (buf, result) = receive(&io, &stream, None);
    assert_eq!(result, Ok(4));
    let (buf, result) = receive(&io, &stream, buf);
    assert_eq!((buf.unwrap().bytes(), result), (&b"last"[..], Ok(0)));
    let (buf, result) = receive(&io, &stream, None);
    assert!(buf.is_none_or(|buf| buf.is_empty()) && result == Ok(0));
}

pub(crate) fn a_receive_times_out_and_loses_nothing<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    let (stream, mut peer) = pair(&io);
    for wait in [50, 20, 120] {
        let (start, wait) = (Instant::now(), Duration::from_millis(wait));
        let (_, result) = run(&io, stream.recv(None, Deadline::at(start + wait), || false));
        assert_eq!(result, Err(Error::TimedOut));
        assert!(start.elapsed() >= wait, "{:?} instead of {wait:?}", start.elapsed());
        let (buf, result) = run(&io, stream.recv(Some(filled(b"kept ")), after(wait), || false));
        assert_eq!((buf.unwrap().bytes(), result), (&b"kept "[..], Err(Error::TimedOut)));
        peer.write_all(b"late").unwrap();
        let (buf, result) = receive(&io, &stream, None);
        assert_eq!((buf.unwrap().bytes(), result), (&b"late"[..], Ok(4)));
    }
}

pub(crate) fn a_send_times_out_and_gives_the_rest_back<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    let (stream, mut peer) = pair(&io);
    let sent = stuff(&io, &stream);
    // It still works: the peer reads all of it, and what is sent after it.
    let reader = thread::spawn(move || {
        let mut got = vec![0; sent + 3];
        peer.read_exact(&mut got).unwrap();
        got
    });
    let (_, result) = run(&io, stream.send(filled(b"end"), More::No, soon()));
    assert_eq!(result, Ok(3));
    let got = reader.join().unwrap();
    let block = noise(BUF_BYTES);
    assert_eq!(&got[..BUF_BYTES.min(sent)], &block[..BUF_BYTES.min(sent)]);
    assert_eq!(&got[sent..], b"end");
}

pub(crate) fn a_reset_is_a_departure<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    let (stream, peer) = pair(&io);
    let socket = socket2::SockRef::from(&peer);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    drop(peer);
    let (_, result) = receive(&io, &stream, None);
    assert!(result.is_err_and(Error::is_departure), "{result:?}");
    let (_, result) = run(&io, stream.send(filled(b"x"), More::No, soon()));
    assert!(result.is_err_and(Error::is_departure), "{result:?}");
}

pub(crate) fn a_file_is_sent_from_its_offset<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    let (stream, mut peer) = pair(&io);
    let content = noise(3 << 20);
    let (file, expected) = (file(&content), content[1000..].to_vec());
    let reader = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        let mut got = Vec::new();
        peer.read_to_end(&mut got).unwrap();
        got
    });
    let mut range = FileRange { file, offset: 1000, length: expected.len() as u64 };
    while range.length > 0 {
        let n = run(&io, stream.send_file(range.clone(), soon())).unwrap();
        assert!(n > 0);
        range.offset += n;
        range.length -= n;
    }
    drop(stream);
    // The socket is closed when the kernel has let go of it, for which a driver may need another look.
    io.driver().park(after(Duration::from_millis(20))).unwrap();
    assert!(reader.join().unwrap() == expected);
}

pub(crate) fn a_file_that_ends_early_says_so<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    let (stream, _peer) = pair(&io);
    let range = FileRange { file: file(b"short"), offset: 5, length: 10 };
    assert_eq!(run(&io, stream.send_file(range, soon())), Ok(0));
}

pub(crate) fn a_file_times_out_when_nobody_reads<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    let (stream, _peer) = pair(&io);
    let range = FileRange { file: file(&noise(16 << 20)), offset: 0, length: 16 << 20 };
    let (start, wait) = (Instant::now(), Duration::from_millis(100));
    let mut sent = 0;
    let error = loop {
        match run(&io, stream.send_file(FileRange { offset: sent, ..range.clone() }, after(wait))) {
            Ok(n) => sent += n,
            Err(error) => break error,
        }
        assert!(sent < 16 << 20 && start.elapsed() < PATIENCE);
    };
    assert_eq!(error, Error::TimedOut);
    let took = start.elapsed();
    // Every part but the last was sent at once; a machine that is busy may take longer, though not by seconds.
    assert!(took >= wait && took < Duration::from_secs(5), "{took:?}");
}

pub(crate) fn half_a_shutdown_leaves_the_other_half<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    let (stream, mut peer) = pair(&io);
    run(&io, stream.shutdown()).unwrap();
    assert_eq!(peer.read(&mut [0; 8]).unwrap(), 0);
    peer.write_all(b"still here").unwrap();
    let (buf, _) = receive(&io, &stream, None);
    assert_eq!(buf.unwrap().bytes(), b"still here");
    let (_, result) = run(&io, stream.send(filled(b"x"), More::No, soon()));
    assert_eq!(result, Err(Error::Os(Errno::PIPE)));
}

pub(crate) fn a_cancelled_receive_ends_and_loses_nothing<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    let (stream, mut peer) = pair(&io);
    let stop = Cell::new(false);
    let mut waiting = Box::pin(stream.recv(None, soon(), || stop.get()));
    begin(&io, waiting.as_mut());
    stop.set(true);
    let (_, result) = run(&io, waiting);
    assert_eq!(result, Err(Error::Canceled));
    peer.write_all(b"later").unwrap();
    assert_eq!(receive(&io, &stream, None).1, Ok(5));
    // Bytes that are there already are not kept from whoever asks only once.
    peer.write_all(b"now").unwrap();
    thread::sleep(Duration::from_millis(20));
    io.driver().park(after(Duration::from_millis(20))).unwrap();
    assert_eq!(run(&io, stream.recv(None, soon(), || true)).1, Ok(3));
}

pub(crate) fn a_dropped_receive_loses_nothing<D: Driver>() {
    let Some(io) = driver::<D>(4) else { return };
    let (stream, mut peer) = pair(&io);
    for round in 0..50 {
        {
            let mut waiting = pin!(stream.recv(None, soon(), || false));
            assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            if round % 2 == 0 {
                io.driver().park(after(Duration::from_millis(1))).unwrap();
            }
            peer.write_all(b"a").unwrap();
        }
        let (buf, result) = receive(&io, &stream, None);
        assert_eq!((buf.unwrap().bytes(), result), (&b"a"[..], Ok(1)));
    }
}
