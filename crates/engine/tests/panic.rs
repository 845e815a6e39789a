//! A thread that panics ends the server, rather than leaving a part of it deaf.

mod common;

use std::io::{Read, Write};

use common::{PANIC, connect, start_with, until};
use engine::{Model, Topology, host};

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
