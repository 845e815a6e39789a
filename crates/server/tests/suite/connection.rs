//! The connection on the in-memory driver: whatever the packets, the writes, the faults and the delays.

use std::time::Duration;

use crate::common::{big, converse, converse_with, handler};
use engine::Stop;
use engine::driver::memory::{Arrival, Script};
use proptest::prelude::*;
use rustix::io::Errno;
use server::{Request, Response, Status};

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";
const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 14\r\n\r\n404 Not Found\n";

/// Three requests in one stream, and what they are answered with.
fn conversation() -> (String, String) {
    let requests = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n\
                    HEAD /hello HTTP/1.1\r\nHost: a\r\nX-Long: some more bytes\r\n\r\n\
                    POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345\
                    GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let headless = HELLO.trim_end_matches("hello\n");
    let last = HELLO.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    (requests.into(), format!("{HELLO}{headless}{NOT_FOUND}{last}"))
}

#[test]
fn a_conversation_split_at_any_byte_is_the_same() {
    let (requests, answers) = conversation();
    for lazy in [false, true] {
        for at in 0..=requests.len() {
            let chunks = [&requests[..at], &requests[at..]].map(String::from);
            let chunks = chunks.into_iter().filter(|chunk| !chunk.is_empty());
            let seen = converse(Script::sends(chunks), |driver| driver.set_lazy(lazy));
            assert_eq!(seen.text, answers, "split at {at}, lazy {lazy}");
            assert_eq!(seen.totals.requests, 4);
        }
        let bytes = requests.bytes().map(|byte| vec![byte]);
        let seen = converse(Script::sends(bytes), |driver| driver.set_lazy(lazy));
        assert_eq!(seen.text, answers, "byte by byte, lazy {lazy}");
    }
}

#[test]
fn a_pipelined_batch_is_one_send() {
    let requests = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n".repeat(16);
    let seen = converse(Script::sends([requests]).then_ends(), |_| ());
    assert_eq!(seen.text, HELLO.repeat(16));
    // One receive, one send, and the receive that finds the end.
    assert_eq!(seen.operations, 3);
}

#[test]
fn short_writes_lose_nothing() {
    let requests = "GET /big HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
    let expected = format!("{head}{}{HELLO}", String::from_utf8(big()).unwrap());
    for most_per_send in [1, 2, 7, 1000, 16_384, 0] {
        for lazy in [false, true] {
            let script = Script { most_per_send, ..Script::sends([requests]).then_ends() };
            let seen = converse(script, |driver| driver.set_lazy(lazy));
            assert!(seen.text == expected, "at most {most_per_send} bytes per send, lazy {lazy}");
        }
    }
}

#[test]
fn a_failure_at_any_operation_ends_the_connection_and_nothing_else() {
    let (requests, answers) = conversation();
    let script = || Script { most_per_send: 50, ..Script::sends([&requests[..100], &requests[100..]]) };
    let whole = converse(script(), |_| ());
    assert_eq!(whole.text, answers);
    for errno in [Errno::CONNRESET, Errno::PIPE, Errno::NOMEM, Errno::IO] {
        for k in 0..whole.operations {
            let seen = converse(script(), |driver| driver.fail(k, errno));
            assert!(answers.starts_with(&seen.text), "{errno:?} at {k}: {:?} was sent", seen.text);
            assert!(seen.text.len() < answers.len(), "{errno:?} at {k} was not noticed");
            let ends = (seen.totals.departures, seen.totals.faults);
            let departure = matches!(errno, Errno::CONNRESET | Errno::PIPE);
            assert_eq!(ends, if departure { (1, 0) } else { (0, 1) }, "{errno:?} at {k}");
        }
    }
}

#[test]
fn a_head_that_does_not_come_in_time_is_answered_with_408() {
    let script =
        Script::sends(["GET /hello HT"]).at(Duration::from_secs(9), Arrival::Bytes(b"TP/1.1\r\n".into()));
    let seen = converse(script, |_| ());
    assert!(seen.text.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{}", seen.text);
    assert_eq!(seen.totals.head_timeouts, 1);
    assert!(seen.shut_down);
    // The head's time, and the time for the client to read the answer.
    assert_eq!(seen.lasted, Duration::from_secs(15));
}

#[test]
fn the_time_for_a_head_runs_from_its_first_byte_on_a_kept_alive_connection() {
    let script = Script::sends(["GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"])
        .at(Duration::from_secs(50), Arrival::Bytes(b"GET /hel".into()))
        .at(Duration::from_secs(59), Arrival::Bytes(b"lo HTTP/1.1\r\nHost: a\r\n\r\n".into()));
    let seen = converse(script, |_| ());
    assert_eq!(seen.text, HELLO.repeat(2));
    assert_eq!((seen.totals.idle_timeouts, seen.lasted), (1, Duration::from_secs(59 + 60)));
}

#[test]
fn a_connection_that_says_nothing_is_closed_without_a_word() {
    let seen = converse(Script::default(), |_| ());
    assert_eq!(
        (seen.text.as_str(), seen.totals.idle_timeouts, seen.lasted),
        ("", 1, Duration::from_secs(10))
    );
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let script = Script { takes: Some(30_000), ..Script::sends(["GET /big HTTP/1.1\r\nHost: a\r\n\r\n"]) };
    let seen = converse(script, |_| ());
    assert_eq!(seen.totals.send_timeouts, 1);
    assert_eq!(seen.lasted, Duration::from_secs(30));
}

#[test]
fn what_is_no_request_is_refused_counted_and_closed_on() {
    let long_target = format!("GET /{} HTTP/1.1\r\n", "x".repeat(9000));
    let large_head = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n", "x".repeat(17_000));
    let many_fields = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(101));
    for (request, status) in [
        ("nonsense\r\n\r\n", "400 Bad Request"),
        ("GET / HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505 HTTP Version Not Supported"),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "501 Not Implemented"),
        ("GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n", "417 Expectation Failed"),
        (&long_target, "414 URI Too Long"),
        (&large_head, "431 Request Header Fields Too Large"),
        (&many_fields, "431 Request Header Fields Too Large"),
    ] {
        let seen = converse(Script::sends([request]).then_ends(), |_| ());
        assert!(seen.text.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request:.60}: {}", seen.text);
        assert!(seen.text.contains("\r\nConnection: close\r\n"), "{}", seen.text);
        assert_eq!((seen.totals.heads_refused, seen.totals.responses_2xx), (1, 0), "{request:.60}");
    }
}

#[test]
fn requests_before_a_bad_one_are_answered_and_nothing_behind_it_is() {
    let good = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
    let seen = converse(Script::sends([format!("{good}{good}bad\r\n\r\n{good}")]).then_ends(), |_| ());
    assert!(seen.text.starts_with(&format!("{HELLO}{HELLO}HTTP/1.1 400 ")), "{}", seen.text);
    assert_eq!(seen.text.matches("HTTP/1.1").count(), 3);
}

#[test]
fn bodies_that_nobody_wants_are_read_over_within_bounds() {
    let next = "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answered = |head: &str, body: &str| {
        let request = format!("POST /x HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n{body}{next}");
        let bytes: Vec<Vec<u8>> = request.as_bytes().chunks(1000).map(Vec::from).collect();
        converse(Script::sends(bytes).then_ends(), |_| ())
    };
    for (head, body) in [
        ("Content-Length: 5", "GET /".to_string()),
        ("Content-Length: 65536", "x".repeat(65_536)),
        ("Transfer-Encoding: chunked", "5\r\nGET /\r\n3;a=b\r\nxyz\r\n0\r\nT: r\r\n\r\n".into()),
    ] {
        let seen = answered(head, &body);
        assert!(
            seen.text.starts_with("HTTP/1.1 404 ") && seen.text.ends_with("hello\n"),
            "{head}: {}",
            seen.text
        );
    }
    for (head, body) in [
        ("Content-Length: 65537", "x".repeat(65_537)),
        ("Transfer-Encoding: chunked", format!("{:x}\r\n{}\r\n0\r\n\r\n", 70_000, "x".repeat(70_000))),
    ] {
        let seen = answered(head, &body);
        assert!(seen.text.contains("\r\nConnection: close\r\n"), "{head}: {}", seen.text);
        assert_eq!((seen.totals.bodies_not_discarded, seen.totals.requests), (1, 1), "{head}");
        assert!(!seen.text.contains("hello"), "{head}");
    }
}

#[test]
fn a_client_that_waits_for_100_gets_its_answer_and_the_end() {
    let request = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    let seen = converse(Script::sends([request]), |_| ());
    assert!(
        seen.text.starts_with("HTTP/1.1 404 ") && seen.text.contains("\r\nConnection: close\r\n"),
        "{}",
        seen.text
    );
    // Without a body there is nothing to wait for.
    let request = "GET /hello HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(converse(Script::sends([request.repeat(2)]).then_ends(), |_| ()).text, HELLO.repeat(2));
}

#[test]
fn http_1_0_closes_unless_it_is_asked_not_to() {
    let plain = converse(Script::sends(["GET /hello HTTP/1.0\r\n\r\n"]), |_| ());
    assert!(plain.text.contains("\r\nConnection: close\r\n"), "{}", plain.text);
    let asked = "GET /hello HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n".repeat(2);
    let kept = converse(Script::sends([asked]).then_ends(), |_| ());
    assert_eq!(kept.text.matches("\r\nConnection: keep-alive\r\n").count(), 2, "{}", kept.text);
}

/// Keeps the panic that a test asks for out of its output, and no other.
fn silence_wanted_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str() != Some("as the test wants it") {
            usual(panic);
        }
    }));
}

#[test]
fn a_handler_that_panics_is_a_500_for_that_request_alone() {
    silence_wanted_panics();
    let requests = "GET /panic HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
    let seen = converse(Script::sends([requests]).then_ends(), |_| ());
    assert!(seen.text.starts_with("HTTP/1.1 500 ") && seen.text.ends_with(HELLO), "{}", seen.text);
    assert_eq!((seen.totals.handler_panics, seen.totals.responses_5xx), (1, 1));
}

#[test]
fn a_status_without_content_is_sent_without() {
    let requests = "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
    let seen = converse(Script::sends([requests]).then_ends(), |_| ());
    assert_eq!(seen.text, format!("HTTP/1.1 204 No Content\r\n\r\n{HELLO}"));
}

#[test]
fn fields_that_fit_in_no_buffer_are_a_500() {
    let seen = converse(Script::sends(["GET /wide HTTP/1.1\r\nHost: a\r\n\r\n"]).then_ends(), |_| ());
    assert!(seen.text.starts_with("HTTP/1.1 500 "), "{}", seen.text);
    // Also where the answer would have had no body: the 500 has one, and the client must not take the next answer for it.
    for status in [Status::NO_CONTENT, Status::NOT_MODIFIED] {
        let wide = move |request: &Request<'_>, response: &mut Response| match request.head.path() {
            "/wide" => drop(response.status(status).field("X-Wide", &[b'w'; 17_000])),
            _ => handler(request, response),
        };
        let requests = "GET /wide HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
        let seen = converse_with(wide, Stop::default(), Script::sends([requests]).then_ends(), |_| ());
        let body = format!("\r\n\r\n500 Internal Server Error\n{HELLO}");
        assert!(seen.text.starts_with("HTTP/1.1 500 ") && seen.text.ends_with(&body), "{}", seen.text);
    }
}

#[test]
fn a_stop_lets_the_request_under_way_finish_and_says_so() {
    let stop = Stop::default();
    stop.set();
    let script = Script::sends(["GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"]);
    let seen = converse_with(handler, stop.clone(), script, |_| ());
    assert!(
        seen.text.contains("\r\nConnection: close\r\n") && seen.text.ends_with("hello\n"),
        "{}",
        seen.text
    );
    let idle = converse_with(handler, stop, Script::default(), |_| ());
    assert_eq!((idle.text.as_str(), idle.lasted), ("", Duration::ZERO));
}

#[test]
fn an_end_between_requests_is_no_fault_and_one_inside_is_counted() {
    let between = converse(Script::sends(["GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"]).then_ends(), |_| ());
    assert_eq!((between.totals.requests_cut_short, between.text.as_str()), (0, HELLO));
    let inside = converse(Script::sends(["GET /hello HTTP/1.1\r\nHo"]).then_ends(), |_| ());
    assert_eq!((inside.totals.requests_cut_short, inside.text.as_str()), (1, ""));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_packets_and_any_writes_give_the_same_answers(
        cuts in proptest::collection::vec(1usize..60, 0..20),
        most_per_send in 1usize..300,
        lazy: bool,
    ) {
        let (requests, answers) = conversation();
        let mut rest = requests.as_bytes();
        let mut chunks = Vec::new();
        for cut in cuts {
            let (chunk, behind) = rest.split_at(cut.min(rest.len()));
            chunks.push(chunk.to_vec());
            rest = behind;
        }
        chunks.push(rest.to_vec());
        chunks.retain(|chunk| !chunk.is_empty());
        let script = Script { most_per_send, ..Script::sends(chunks) };
        let seen = converse(script, |driver| driver.set_lazy(lazy));
        prop_assert_eq!(seen.text, answers);
    }

    #[test]
    fn any_bytes_are_answered_or_refused_and_never_hang(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let seen = converse(Script::sends([bytes]).then_ends(), |_| ());
        prop_assert!(seen.text.is_empty() || seen.text.starts_with("HTTP/1.1 "));
    }
}

#[test]
fn a_client_with_many_requests_lets_another_have_its_turn() {
    use std::sync::{Arc, Mutex};

    use engine::driver::memory::Memory;
    use engine::{Connections, Driver, Executor, Io, Limits, Service, Stream};

    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let io = Io::new(Memory::open(Limits { sockets: 4 }).unwrap());
    let greedy = io.driver().peer(Script::sends([request.repeat(5_000)]).then_ends());
    let modest = io.driver().peer(Script::sends([request]).then_ends());
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = order.clone();
    let handler = move |request: &server::Request<'_>, _: &mut server::Response| {
        seen.lock().unwrap().push(request.peer.port());
    };
    let http = Arc::new(server::Http::new(handler, server::Limits::default(), 1));
    let local = http.on_reactor::<Memory>(0, &io);
    let unpark = io.driver().unpark();
    let executor = Executor::new(2, unpark);
    for (port, socket) in [(1, greedy), (2, modest)] {
        let peer = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        assert!(executor.spawn(local.serve(Stream::on(&io, socket), peer, Stop::default())).is_ok());
    }
    executor.run(&io, &engine::meter::Meter::default(), || {}, executor.at_most(0)).unwrap();
    let order = order.lock().unwrap();
    assert_eq!(order.len(), 5_001);
    let waited = order.iter().position(|port| *port == 2).unwrap();
    assert!(waited <= 64, "the modest client waited for {waited} requests of the greedy one");
}
