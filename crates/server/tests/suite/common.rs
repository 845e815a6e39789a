//! A connection on the in-memory driver: scripted client, virtual clock, nothing left to chance.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use engine::driver::memory::{Memory, Script};
use engine::{Connections, Driver, Executor, Io, Service, Socket, Stop, Stream};
use server::app::Site;
use server::{Body, Handler, Http, Limits, Request, Response, Status, Totals};

/// What a client saw of one connection.
pub(crate) struct Seen {
    /// Everything it was sent, without the `Date` lines.
    pub(crate) text: String,
    /// The same as bytes, and with them.
    pub(crate) bytes: Vec<u8>,
    /// How long the connection lasted.
    pub(crate) lasted: Duration,
    /// What was counted.
    pub(crate) totals: Totals,
    /// Operations that the connection started.
    pub(crate) operations: u64,
    /// Whether the client was told that nothing more would come, before the end.
    pub(crate) shut_down: bool,
    /// Whether the connection was to end with a reset.
    pub(crate) reset: bool,
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
    converse_within(handler, Limits::default(), stop, script, prepare)
}

/// Runs one connection to its end, with bounds of one's own too.
pub(crate) fn converse_within(
    handler: impl Handler,
    limits: Limits,
    stop: Stop,
    script: Script,
    prepare: impl FnOnce(&mut Memory),
) -> Seen {
    let io = Io::new(Memory::open(engine::Limits { sockets: 4 }).unwrap());
    let socket = io.driver().peer(script);
    prepare(&mut io.driver());
    let http = Arc::new(Http::new(handler, limits, 1));
    run(&io, &http, &[socket], stop);
    let driver = io.driver();
    assert!(!driver.is_open(socket), "the connection has ended but its socket has not");
    assert_eq!(
        http.totals().bytes_sent,
        driver.sent(socket).len() as u64,
        "what was sent is counted, and no more"
    );
    Seen {
        text: without_dates(driver.sent(socket)),
        bytes: driver.sent(socket).to_vec(),
        lasted: driver.elapsed(),
        totals: http.totals(),
        operations: driver.operations(),
        shut_down: driver.is_shut_down(socket),
        reset: driver.is_reset(socket),
    }
}

/// What several clients saw, and what was counted.
pub(crate) struct Several {
    pub(crate) texts: Vec<String>,
    pub(crate) totals: Totals,
    /// How long it took until the last connection had ended.
    pub(crate) lasted: Duration,
}

/// Runs several connections from one address at the same time.
pub(crate) fn several(limits: Limits, scripts: Vec<Script>) -> Several {
    let io = Io::new(Memory::open(engine::Limits { sockets: scripts.len() + 1 }).unwrap());
    let sockets: Vec<Socket> = scripts.into_iter().map(|script| io.driver().peer(script)).collect();
    let http = Arc::new(Http::new(handler, limits, 1));
    run(&io, &http, &sockets, Stop::default());
    let texts = sockets.iter().map(|socket| without_dates(io.driver().sent(*socket))).collect();
    let lasted = io.driver().elapsed();
    Several { texts, totals: http.totals(), lasted }
}

/// Runs connections until all have ended.
pub(crate) fn run<H: Handler>(io: &Io<Memory>, http: &Arc<Http<H>>, sockets: &[Socket], stop: Stop) {
    let local = http.on_reactor::<Memory>(0, io);
    let executor = Executor::new(sockets.len(), io.driver().unpark());
    let peer = SocketAddr::from(([127, 0, 0, 1], 1234));
    for socket in sockets {
        assert!(executor.spawn(local.serve(Stream::on(io, *socket), peer, stop.clone())).is_ok());
    }
    executor.run(io, &engine::meter::Meter::default(), || {}, executor.at_most(0)).unwrap();
}

/// What a site answers to a request: `GET /path`, and behind it lines of fields if there are any.
pub(crate) fn get(site: &Arc<Site>, request: &str) -> String {
    let (head, body) = get_bytes(site, request);
    head + &String::from_utf8_lossy(&body)
}

/// The head of what a site answers, and its body, which need not be text.
pub(crate) fn get_bytes(site: &Arc<Site>, request: &str) -> (String, Vec<u8>) {
    let site = site.clone();
    let handler = move |request: &Request<'_>, response: &mut Response| site.handle(request, response);
    let (line, fields) = request.split_once('\n').unwrap_or((request, ""));
    let fields: String = fields.lines().map(|line| format!("{line}\r\n")).collect();
    let request = format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let mut seen = converse_with(handler, Stop::default(), Script::sends([request]).then_ends(), |_| ());
    let head = seen.bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    let body = seen.bytes.split_off(head);
    (without_dates(&seen.bytes), body)
}

/// The status of an answer, the value of one of its fields, and its body.
pub(crate) fn status(answer: &str) -> u16 {
    answer["HTTP/1.1 ".len()..][..3].parse().unwrap()
}

pub(crate) fn field<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = answer.split_once("\r\n\r\n").map_or(answer, |(head, _)| head);
    let mut values = head.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let value = values.next();
    assert_eq!(values.next(), None, "{name} is there twice: {head}");
    value
}

pub(crate) fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

/// Sets when a file was changed last.
pub(crate) fn touch(root: &Path, name: &str, seconds: u64) {
    let file = fs::File::options().write(true).open(root.join(name)).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

/// What was put in a coding.
pub(crate) fn decoded(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    match coding {
        "zstd" => decoded = zstd::decode_all(bytes).unwrap(),
        "br" => brotli::BrotliDecompress(&mut &bytes[..], &mut decoded).unwrap(),
        "gzip" => {
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(bytes), &mut decoded).unwrap();
        }
        other => panic!("{other}"),
    }
    decoded
}

/// Waits until something holds, however slow the host is; if it never does, says what.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Leaves out the lines that depend on the clock.
pub(crate) fn without_dates(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.split_inclusive('\n').filter(|line| !line.starts_with("Date: ")).collect()
}
