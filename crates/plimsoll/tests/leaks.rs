//! Fifty starts and stops in one process leave nothing behind: no descriptor, no thread, no memory.
//! Alone in its file, since what it counts is the process's.

use std::io::{Read, Write};
use std::net::TcpStream;

use plimsoll::{Body, Model, Request, Response, Server, Topology};

/// Descriptors, threads, and resident memory in KiB.
fn held() -> (usize, usize, u64) {
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    (count("fd"), count("task"), pages * rustix::param::page_size() as u64 / 1024)
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
    let resident: Vec<u64> = (0..50)
        .map(|turn| {
            cycle(models[turn % models.len()]);
            held().2
        })
        .collect();
    let after = held();
    assert_eq!((after.0, after.1), (before.0, before.1), "descriptors and threads");
    // The allocator keeps some of what it was given back, now more and now less; the least of many looks shows what
    // is really held. A slot table leaked with each cycle would be 5 MiB by the second half.
    let least = |part: &[u64]| part.iter().copied().min().unwrap();
    let (early, late) = (least(&resident[..25]), least(&resident[25..]));
    assert!(late < early + 1024, "resident: {early} KiB, then {late} KiB: {resident:?}");
}
