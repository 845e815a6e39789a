//! A connection on the in-memory driver: scripted client, virtual clock, nothing left to chance.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::driver::memory::{Memory, Script};
use engine::{Connections, Driver, Executor, Io, Service, Stop, Stream};
use server::{Body, Handler, Http, Limits, Request, Response, Status, Totals};

/// What a client saw of one connection.
pub(crate) struct Seen {
    /// Everything it was sent, without the `Date` lines.
    pub(crate) text: String,
    /// How long the connection lasted.
    pub(crate) lasted: Duration,
    /// What was counted.
    pub(crate) totals: Totals,
    /// Operations that the connection started.
    pub(crate) operations: u64,
    /// Whether the client was told that nothing more would come, before the end.
    pub(crate) shut_down: bool,
}

/// Answers with what the path says.
pub(crate) fn handler(request: &Request<'_>, response: &mut Response) {
    match request.head.path() {
        "/hello" => response.field("Content-Type", b"text/plain").body(Body::Static(b"hello\n")),
        "/big" => response.body(Body::Owned(big())),
        "/wide" => response.field("X-Wide", &[b'w'; 17_000]),
        "/nothing" => response.status(Status::NO_CONTENT).body(Body::Static(b"not to be sent")),
        "/panic" => panic!("as the test wants it"),
        _ => response.plain(Status::NOT_FOUND),
    };
}

/// A body larger than several buffers.
pub(crate) fn big() -> Vec<u8> {
    (0..100_000u32).map(|at| b'a' + (at % 23) as u8).collect()
}

/// Runs one connection to its end.
pub(crate) fn converse(script: Script, prepare: impl FnOnce(&mut Memory)) -> Seen {
    converse_with(handler, Stop::default(), script, prepare)
}

/// Runs one connection to its end, with a handler and a stop switch of one's own.
pub(crate) fn converse_with(
    handler: impl Handler,
    stop: Stop,
    script: Script,
    prepare: impl FnOnce(&mut Memory),
) -> Seen {
    let io = Io::new(Memory::open(engine::Limits { sockets: 4 }).unwrap());
    let socket = io.driver().peer(script);
    prepare(&mut io.driver());
    let http = Arc::new(Http::new(handler, Limits::default(), 1));
    let local = http.on_reactor::<Memory>(0, &io);
    let unpark = io.driver().unpark();
    let executor = Executor::new(1, unpark);
    let peer = SocketAddr::from(([127, 0, 0, 1], 1234));
    assert!(executor.spawn(local.serve(Stream::on(&io, socket), peer, stop)).is_ok());
    executor.run(&io, &engine::meter::Meter::default(), || {}, executor.at_most(0)).unwrap();
    let driver = io.driver();
    assert!(!driver.is_open(socket), "the connection has ended but its socket has not");
    Seen {
        text: without_dates(driver.sent(socket)),
        lasted: driver.elapsed(),
        totals: http.totals(),
        operations: driver.operations(),
        shut_down: driver.is_shut_down(socket),
    }
}

/// Leaves out the lines that depend on the clock.
fn without_dates(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.split_inclusive('\n').filter(|line| !line.starts_with("Date: ")).collect()
}
