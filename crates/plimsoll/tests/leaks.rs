//! Fifty starts and stops in one process leave nothing behind: no descriptor, no thread, no memory.
//! Alone in its file, since what it counts is the process's.

use std::alloc::System;
use std::io::{Read, Write};
use std::net::TcpStream;

use cap::Cap;
use plimsoll::{Body, Model, Request, Response, Server, Topology};

/// Counts the bytes that are allocated. What the kernel calls resident would not do: the allocator keeps, of what it was
/// given back, now more and now less.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Descriptors, threads, and allocated bytes.
fn held() -> (usize, usize, usize) {
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    (count("fd"), count("task"), ALLOCATOR.allocated())
}

fn cycle(model: Model) {
    let hello = |_: &Request<'_>, response: &mut Response| {
        response.body(Body::Static(b"hello"));
    };
    let server = Server::new(hello).model(model).listen(([127, 0, 0, 1], 0));
    let topology = Topology { connections: 100, ..server.present_topology() };
    let serving = server.topology(topology).start().unwrap();
    let mut clients: Vec<_> = (0..8).map(|_| TcpStream::connect(serving.address()).unwrap()).collect();
    for client in &mut clients {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut byte = [0; 12];
        client.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"HTTP/1.1 200");
    }
    // Some connections are still open when it stops.
    clients.truncate(4);
    serving.stop().unwrap();
}

#[test]
fn fifty_starts_and_stops_leave_nothing_behind() {
    let models = [
        Model::Auto,
        Model::ReactorPool,
        Model::MultiReactor,
        Model::ProactorPool,
        Model::ThreadPool,
        Model::ThreadPerConnection,
    ];
    // What is made once and kept: the allocator's arenas, the table of threads.
    for model in models {
        (0..5).for_each(|_| cycle(model));
    }
    let before = held();
    (0..50).for_each(|turn| cycle(models[turn % models.len()]));
    let after = held();
    assert_eq!((after.0, after.1), (before.0, before.1), "descriptors and threads");
    // A buffer leaked with each cycle would be 800 KiB.
    assert!(after.2 < before.2 + 4096, "{} bytes, then {}", before.2, after.2);
}
