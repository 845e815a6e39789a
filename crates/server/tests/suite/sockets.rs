//! Connections on real sockets, on every model: that the client can read what it was answered, whatever it sends and when.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::driver::memory::Script;
use engine::{FileRange, Model, Running, Settings, Stop};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use server::{Body, Handler, Http, Limits, Request, Response};

use crate::common::{converse_within, handler, without_dates};
use crate::endings::Taking;
use crate::splits::{Choosy, conversation, narrow};

const GET: &str = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves on each model in turn, on real sockets.
fn on_every_model<H: Handler>(handler: impl Fn() -> H, limits: Limits, test: impl Fn(&str, SocketAddr)) {
    Model::ALL
        .iter()
        .for_each(|model| on_model(model, handler(), limits, |address| test(&model.to_string(), address)));
}

/// Serves on a model, on real sockets.
fn on_model<H: Handler>(model: &Model, handler: H, limits: Limits, test: impl Fn(SocketAddr)) {
    let server = start(model, handler, limits);
    test(server.1.address());
    stop(server);
}

fn start<H: Handler>(model: &Model, handler: H, limits: Limits) -> (Arc<Http<H>>, Running) {
    let topology = model.row(2, 16);
    let http = Arc::new(Http::on(handler, limits, &topology).unwrap());
    let settings = Settings { memory: None, ..Settings::new(topology, ([127, 0, 0, 1], 0).into()) };
    (http.clone(), engine::start(&settings, http).unwrap())
}

fn stop<H: Handler>((http, running): (Arc<Http<H>>, Running)) {
    running.stop().set();
    running.join().unwrap();
    http.finish();
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

/// What a client reads that sends a conversation in these packets and then its end. It may go on sending behind the last
/// answer, and be reset for it.
fn answers(address: SocketAddr, packets: &[&[u8]]) -> String {
    let mut stream = connect(address);
    stream.set_nodelay(true).unwrap();
    for packet in packets {
        let _ = stream.write_all(packet);
        // So that each is received by itself; the answers are the same if not.
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers);
    without_dates(&answers).replace("HTTP/1.1 100 Continue\r\n\r\n", "")
}

#[test]
fn every_model_answers_a_conversation_the_same_in_any_packets() {
    let limits = Limits { discard_time: PATIENCE, head_time: PATIENCE, body_time: PATIENCE, ..narrow() };
    let mut runner = TestRunner::deterministic();
    let sample: Vec<Vec<u8>> =
        (0..16).map(|_| conversation().new_tree(&mut runner).unwrap().current()).collect();
    let expected: Vec<String> = sample
        .iter()
        .map(|bytes| {
            let script = Script::sends([bytes.clone()]).then_ends();
            let seen = converse_within(Choosy, limits, Stop::default(), script, |_| ());
            seen.text.replace("HTTP/1.1 100 Continue\r\n\r\n", "")
        })
        .collect();
    assert!(expected.iter().map(|text| text.matches("HTTP/1.1 ").count()).sum::<usize>() > 16);
    on_every_model(
        || Choosy,
        limits,
        |model, address| {
            for (at, (bytes, expected)) in sample.iter().zip(&expected).enumerate() {
                for size in [bytes.len(), 1 + bytes.len() / 2, 31 + 7 * at] {
                    let packets: Vec<&[u8]> = bytes.chunks(size).collect();
                    let answers = answers(address, &packets);
                    assert_eq!(&answers, expected, "{model}, packets of {size}: {}", bytes.escape_ascii());
                }
            }
        },
    );
}

#[test]
fn who_sends_on_while_a_large_last_answer_comes_gets_all_of_it() {
    // More than the kernel holds for a client that does not read.
    const LARGE: u64 = 16 * 1024 * 1024;
    let limits = Limits { requests_per_connection: 1, ..patient() };
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![b'x'; LARGE as usize]).unwrap();
    let file: Arc<OwnedFd> = Arc::new(file.into());
    let handler = || {
        let (file, bytes) = (file.clone(), Arc::<[u8]>::from(vec![b'x'; LARGE as usize]));
        move |request: &Request<'_>, response: &mut Response| {
            let body = match request.head.path() {
                "/file" => Body::File(FileRange { file: file.clone(), offset: 0, length: LARGE }, None),
                _ => Body::Shared(bytes.clone()),
            };
            response.body(body);
        }
    };
    on_every_model(handler, limits, |model, address| {
        for (path, fields, more) in
            [("/memory", "", GET), ("/file", "", GET), ("/file", "Connection: close\r\n", "\r\n")]
        {
            let mut stream = connect(address);
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes()).unwrap();
            let mut answer = vec![0; 512];
            stream.read_exact(&mut answer).unwrap();
            let body_at = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
            stream.write_all(more.as_bytes()).unwrap();
            let received = stream.read_to_end(&mut answer);
            received.unwrap_or_else(|error| panic!("{model}, {path}: {error} after {} bytes", answer.len()));
            assert_eq!((answer.len() - body_at) as u64, LARGE, "{model}, {path}");
        }
    });
}

/// Answers nobody while somebody else holds it, and takes bodies.
struct Held(Arc<Mutex<()>>);

impl Handler for Held {
    fn handle(&self, _: &Request<'_>, _: &mut Response) {
        drop(self.0.lock());
    }

    fn wants_body(&self, _: &Request<'_>) -> bool {
        true
    }
}

#[test]
fn a_request_that_is_with_a_worker_for_too_long_is_answered_meanwhile() {
    // Long enough for a request to come in on any host.
    let limits = Limits { request_time: Some(Duration::from_secs(2)), ..patient() };
    for model in Model::ALL.iter().filter(|model| model.row(2, 16).pools() > 0) {
        let gate = Arc::new(Mutex::new(()));
        on_model(model, Held(gate.clone()), limits, |address| {
            let held = gate.lock();
            let requests = [GET, "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"];
            let streams = requests.map(|request| {
                let mut stream = connect(address);
                stream.write_all(request.as_bytes()).unwrap();
                stream
            });
            for mut stream in streams {
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap_or_else(|error| panic!("{model}: {error}"));
                assert!(answer.starts_with("HTTP/1.1 503 "), "{model}: {answer}");
                assert!(answer.contains("\r\nConnection: close\r\n"), "{model}: {answer}");
            }
            drop(held);
        });
    }
}

#[test]
fn the_date_is_that_of_the_clock() {
    // All at once, as each is looked at again after the same time.
    let servers: Vec<_> =
        Model::ALL.iter().map(|model| (model, start(model, handler, Limits::default()))).collect();
    let mut streams: Vec<_> = servers.iter().map(|(_, (_, running))| connect(running.address())).collect();
    // The line is kept for a second, and must not be kept for longer.
    for pause in [0, 1100, 1100, 1100] {
        std::thread::sleep(Duration::from_millis(pause));
        for ((model, _), stream) in servers.iter().zip(&mut streams) {
            let (before, date, after) = date_of_answer(stream);
            assert!((before..=after).contains(&date), "{model}: {date:?} is not in {before:?}..{after:?}");
        }
    }
    servers.into_iter().for_each(|(_, server)| stop(server));
}

/// The date of an answer, and the times before it, in whole seconds, and after it.
fn date_of_answer(stream: &mut TcpStream) -> (SystemTime, SystemTime, SystemTime) {
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    stream.write_all(GET.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"hello\n") {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).unwrap(), 1);
        answer.push(byte[0]);
    }
    let answer = String::from_utf8(answer).unwrap();
    let date = answer.split("\r\nDate: ").nth(1).unwrap().split("\r\n").next().unwrap();
    let before = UNIX_EPOCH + Duration::from_secs(before.as_secs());
    (before, wire::parse_date(date.as_bytes()).unwrap(), SystemTime::now())
}
