//! How connections end: with which last words, and on real sockets so that the client can read them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::driver::memory::{Arrival, Script};
use engine::{FileRange, Model, Settings, Stop};
use server::{Body, FileVersion, Handler, Http, Limits, Request, Response, Totals};

use crate::common::{converse, converse_with, converse_within, handler};

const GET: &str = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes bodies; a path that is a number is answered with as many bytes.
struct Taking;

impl Handler for Taking {
    fn handle(&self, request: &Request<'_>, response: &mut Response) {
        match request.head.path()[1..].parse() {
            Ok(bytes) => response.body(Body::Owned(vec![b'x'; bytes])),
            Err(_) => response.body(Body::Owned(format!("{} bytes\n", request.body.len()).into())),
        };
    }

    fn wants_body(&self, _: &Request<'_>) -> bool {
        true
    }
}

#[test]
fn chunks_that_make_no_sense_are_refused_though_nobody_wants_them() {
    let head = "GET /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in ["zz\r\n", "5\r\nhello\r\nx\r\n", "5\r\nhello world\r\n0\r\n\r\n"] {
        for packets in [vec![format!("{head}{body}{GET}")], vec![head.into(), format!("{body}{GET}")]] {
            let seen = converse(Script::sends(packets).then_ends(), |_| ());
            assert!(seen.text.starts_with("HTTP/1.1 400 "), "{body:?}: {}", seen.text);
            assert!(seen.text.contains("\r\nConnection: close\r\n"), "{body:?}: {}", seen.text);
            assert_eq!(seen.text.matches("HTTP/1.1").count(), 1, "{body:?}");
            assert_eq!((seen.totals.bodies_refused, seen.totals.requests, seen.shut_down), (1, 1, true));
        }
    }
    // One that does is dropped, and one that does not end in time is not waited for any longer.
    let seen = converse(Script::sends([format!("{head}0\r\n\r\n{GET}")]).then_ends(), |_| ());
    assert_eq!(seen.text, HELLO.repeat(2));
    let seen = converse(Script::sends([format!("{head}5\r\nhel")]), |_| ());
    assert_eq!(seen.text, HELLO.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
    assert_eq!((seen.totals.bodies_not_discarded, seen.shut_down), (1, true));
    // The time for the body, and the time for the client to read the answer.
    assert_eq!(seen.lasted, Duration::from_secs(10));
}

#[test]
fn the_answer_to_a_request_whose_body_is_too_long_to_drop_says_that_it_is_the_last() {
    let head = "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n";
    let seen = converse(Script::sends([head]), |_| ());
    assert_eq!(seen.text, HELLO.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
    assert_eq!((seen.totals.bodies_not_discarded, seen.shut_down), (1, true));
    assert_eq!(seen.lasted, Duration::from_secs(5));
    // One that is short enough and does not come: the answer is out, and can be read.
    let seen = converse(Script::sends([head.replace("65537", "5")]), |_| ());
    assert_eq!((seen.text.as_str(), seen.totals.bodies_not_discarded, seen.shut_down), (HELLO, 1, true));
}

#[test]
fn a_refused_head_request_is_answered_without_a_body() {
    for request in [
        "HEAD /hello HTTP/1.1\r\n\r\n".to_owned(),
        "\r\nHEAD /hello HTTP/2.0\r\nHost: a\r\n\r\n".into(),
        format!("HEAD /{} HTTP/1.1\r\n", "x".repeat(9000)),
        "HEAD /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".into(),
        "HEAD /hello HTTP/1.1\r\n".into(),
    ] {
        let seen = converse(Script::sends([request.clone()]), |_| ());
        assert!(
            seen.text.starts_with("HTTP/1.1 4") || seen.text.starts_with("HTTP/1.1 505 "),
            "{}",
            seen.text
        );
        let head = seen.text.strip_suffix("\r\n\r\n").unwrap_or_else(|| panic!("{request}: {}", seen.text));
        assert!(!head.contains("\r\n\r\n") && head.contains("Content-Length: "), "{request}: {head}");
    }
    let large = "HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n";
    let seen = converse_with(Taking, Stop::default(), Script::sends([large]), |_| ());
    assert!(seen.text.starts_with("HTTP/1.1 413 ") && seen.text.ends_with("\r\n\r\n"), "{}", seen.text);
}

#[test]
fn empty_lines_between_requests_are_nothing() {
    let blank = |seconds| (Duration::from_secs(seconds), Arrival::Bytes(b"\r\n".into()));
    // The connection is idle behind them as before: neither longer nor shorter.
    let mut script = Script::sends([GET]);
    script.arrivals.extend([blank(1), (Duration::from_secs(30), Arrival::Bytes(GET.into()))]);
    script.arrivals.extend([blank(31), blank(50), blank(80)]);
    let seen = converse(script, |_| ());
    assert_eq!(seen.text, HELLO.repeat(2));
    assert_eq!((seen.totals.head_timeouts, seen.totals.idle_timeouts), (0, 1));
    assert_eq!(seen.lasted, Duration::from_secs(90));
    // Nor do they hold up a stop.
    let stop = Stop::default();
    stop.set();
    let seen = converse_with(handler, stop, Script::sends(["\r\n"]), |_| ());
    assert_eq!((seen.text.as_str(), seen.lasted), ("", Duration::ZERO));
    // Any number of them is none.
    let seen = converse(Script::sends(["\r\n".repeat(20_000), GET.into()]).then_ends(), |_| ());
    assert_eq!(seen.text, HELLO);
}

#[test]
fn a_100_is_sent_whole_however_full_the_buffer_is() {
    for bytes in engine::BUF_BYTES - 200..engine::BUF_BYTES {
        let requests = format!(
            "GET /{bytes} HTTP/1.1\r\nHost: a\r\n\r\n\
             POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        );
        let script = Script::sends([requests])
            .at(Duration::from_secs(1), Arrival::Bytes(b"hello".into()))
            .at(Duration::from_secs(2), Arrival::End);
        let seen = converse_with(Taking, Stop::default(), script, |_| ());
        let answers = seen.text.split_once("\r\n\r\n").unwrap().1[bytes..].to_owned();
        assert_eq!(
            answers,
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n5 bytes\n"
        );
    }
}

#[test]
fn answers_before_a_file_that_has_changed_are_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "x".repeat(1000)).unwrap();
    let file: Arc<OwnedFd> = Arc::new(std::fs::File::open(dir.path().join("file")).unwrap().into());
    let before = FileVersion::of(&rustix::fs::fstat(&file).unwrap());
    std::fs::write(dir.path().join("file"), "y".repeat(1001)).unwrap();
    let changing = move |request: &Request<'_>, response: &mut Response| match request.head.path() {
        "/file" => {
            let range = FileRange { file: file.clone(), offset: 0, length: 100 };
            response.body(Body::File(range, Some(before)));
        }
        _ => handler(request, response),
    };
    let requests = format!("{GET}GET /file HTTP/1.1\r\nHost: a\r\n\r\n{GET}");
    let seen = converse_with(changing, Stop::default(), Script::sends([requests]).then_ends(), |_| ());
    let behind = seen.text.strip_prefix(HELLO).unwrap_or_else(|| panic!("{}", seen.text));
    assert!(behind.ends_with("Content-Length: 100\r\n\r\n"), "nothing of either state: {behind}");
    assert_eq!((seen.totals.files_changed, seen.shut_down), (1, true));
}

/// Serves on each model in turn, on real sockets, and returns what was counted.
fn on_every_model<H: Handler>(
    handler: impl Fn() -> H,
    limits: Limits,
    test: impl Fn(&str, SocketAddr),
) -> Vec<Totals> {
    let serve = |model: &Model| {
        let topology = model.row(2, 16);
        let http = Arc::new(Http::on(handler(), limits, &topology).unwrap());
        let settings = Settings { memory: None, ..Settings::new(topology, ([127, 0, 0, 1], 0).into()) };
        let running = engine::start(&settings, http.clone()).unwrap();
        test(&model.to_string(), running.address());
        running.stop().set();
        running.join().unwrap();
        http.finish();
        http.totals()
    };
    Model::ALL.iter().map(serve).collect()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends all of a request before it reads anything, and reads up to the end, which must be none by a reset.
fn send_and_read(what: &str, address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap_or_else(|error| panic!("{what}: {error}"));
    stream.shutdown(std::net::Shutdown::Write).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap_or_else(|error| panic!("{what}: {error}"));
    String::from_utf8(answer).unwrap()
}

/// However slow the host is, the client is to have the time to send what it has.
fn patient() -> Limits {
    Limits { discard_time: PATIENCE, ..Limits::default() }
}

#[test]
fn a_client_that_sends_a_large_body_unasked_can_read_its_answer() {
    let body = "x".repeat(3_000_000);
    let request = |fields: &str| format!("POST /hello HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}");
    on_every_model(
        || handler,
        patient(),
        |model, address| {
            for (fields, status) in [
                (format!("Content-Length: {}", body.len()), "200 OK"),
                ("Transfer-Encoding: chunked".into(), "400 Bad Request"),
                (format!("Expect: 100-continue\r\nContent-Length: {}", body.len()), "200 OK"),
                (format!("Content-Length: {}\r\nX: \u{1}", body.len()), "400 Bad Request"),
            ] {
                let answer = send_and_read(model, address, &request(&fields));
                assert!(
                    answer.starts_with(&format!("HTTP/1.1 {status}\r\n")),
                    "{model}, {fields}: {answer:.300}"
                );
                assert!(answer.contains("\r\nConnection: close\r\n"), "{model}, {fields}: {answer:.300}");
                assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{model}, {fields}");
            }
            let chunks = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0", body.len());
            let answer = send_and_read(model, address, &request(&chunks));
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{model}: {answer:.300}");
            assert!(answer.contains("\r\nConnection: close\r\n"), "{model}: {answer:.300}");
        },
    );
}

#[test]
fn a_client_whose_body_is_too_large_can_read_so() {
    let body = "x".repeat(3_000_000);
    on_every_model(
        || Taking,
        patient(),
        |model, address| {
            for fields in [
                format!("Content-Length: {}\r\n\r\n", body.len()),
                format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len()),
            ] {
                let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}{body}");
                let answer = send_and_read(model, address, &request);
                assert!(answer.starts_with("HTTP/1.1 413 "), "{model}: {answer:.300}");
            }
        },
    );
}

#[test]
fn clients_that_never_stop_sending_leave_others_their_turn() {
    let refused = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n";
    on_every_model(
        || Taking,
        patient(),
        |model, address| {
            for start in [refused, ""] {
                let ended = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    let mut stream = connect(address);
                    let (mut sending, ended) = (stream.try_clone().unwrap(), &ended);
                    scope.spawn(move || {
                        let _ = sending.write_all(start.as_bytes());
                        let blank = "\r\n".repeat(8192);
                        while !ended.load(Ordering::Relaxed) && sending.write_all(blank.as_bytes()).is_ok() {}
                    });
                    if !start.is_empty() {
                        // By then it is being read over.
                        stream.read_exact(&mut [0; 12]).unwrap();
                    }
                    for _ in 0..3 {
                        let answer = send_and_read(model, address, GET);
                        assert!(answer.starts_with("HTTP/1.1 200 "), "{model}: {answer}");
                    }
                    ended.store(true, Ordering::Relaxed);
                });
            }
        },
    );
}

#[test]
fn what_ends_at_its_last_request_is_counted() {
    let limits = Limits { requests_per_connection: 3, ..Limits::default() };
    let converse = |requests: usize| {
        let script = Script::sends([GET.repeat(requests)]).then_ends();
        converse_within(handler, limits, Stop::default(), script, |_| ()).totals
    };
    assert_eq!((converse(2).last_requests, converse(3).last_requests), (0, 1));
    assert_eq!((converse(5).last_requests, converse(5).requests), (1, 3));
}
