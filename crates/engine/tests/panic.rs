//! A reactor that panics ends the server, rather than leaving a part of it deaf; a thread that owns one connection loses that.

mod common;

use std::io::{self, Read, Write};

use common::{PANIC, connect, end, start_topology, start_with, sum, until};
use engine::{Model, Running, Topology, host};

#[test]
fn the_server_ends_and_says_why() {
    let topology = Topology { reactors: 2, ..Model::MultiReactor.row(2, 100) };
    let running = start_with(topology, host::usable, Some(host::memory_in_use));
    let mut client = connect(&running);
    client.write_all(PANIC).unwrap();
    let stop = running.stop();
    until("it ends without one of its reactors", || stop.is_set());
    // Nobody waits for good.
    assert!(matches!(client.read(&mut [0; 8]), Ok(0) | Err(_)));
    assert!(running.join().unwrap_err().to_string().contains("panicked"));
}

#[test]
fn a_thread_that_owns_one_connection_loses_no_more_than_that() {
    for model in [Model::ThreadPool, Model::ThreadPerConnection] {
        // One thread, or one place for a thread: whatever a panic costs, the next client would notice.
        let running = start_topology(Topology { workers: 1, ..model.row(2, 100) });
        // A thread counts its connection as closed just before it gives its place back, and who comes in between is refused.
        for _ in 0..3 {
            until("it panics", || matches!(said(&running, PANIC), Ok(nothing) if nothing.is_empty()));
        }
        until("the next is served", || matches!(said(&running, b"calm\n"), Ok(back) if back == b"calm\n"));
        let counters = end(running);
        assert_eq!(
            (sum(&counters, |one| &one.accepted), sum(&counters, |one| &one.closed)),
            (4, 4),
            "{model}"
        );
    }
}

/// What a client of its own is told to a line, up to the end of the connection or of a line.
fn said(running: &Running, line: &[u8]) -> io::Result<Vec<u8>> {
    let mut client = connect(running);
    client.write_all(line)?;
    let mut said = vec![0; 16];
    let n = client.read(&mut said)?;
    said.truncate(n);
    Ok(said)
}
