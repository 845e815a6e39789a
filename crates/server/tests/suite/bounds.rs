//! The bounds of a connection in time and number, each with its answer and its count.

use std::time::Duration;

use engine::Stop;
use engine::driver::memory::{Arrival, Script};
use server::{Body, Handler, Limits, RATE_GRACE, Request, Response};

use crate::common::{Seen, converse_within, handler, several};

fn with(limits: Limits, script: Script) -> Seen {
    converse_within(handler, limits, Stop::default(), script, |_| ())
}

/// Takes bodies, and says how long they were.
struct Taking;

impl Handler for Taking {
    fn handle(&self, request: &Request<'_>, response: &mut Response) {
        response.body(Body::Owned(format!("{} bytes\n", request.body.len()).into()));
    }

    fn wants_body(&self, _: &Request<'_>) -> bool {
        true
    }
}

/// A client that sends a body of 100,000 bytes, so many of them each second.
fn uploading(each: usize) -> Script {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    let mut script = Script::sends([head]);
    for second in 1..=100_000 / each {
        script = script.at(Duration::from_secs(second as u64), Arrival::Bytes(vec![b'x'; each]));
    }
    script
}

#[test]
fn a_body_that_comes_below_the_least_rate_is_refused_with_408() {
    let patient = Limits { body_time: Duration::from_secs(1000), ..Limits::default() };
    let converse =
        |limits, each| converse_within(Taking, limits, Stop::default(), uploading(each).then_ends(), |_| ());
    let slow = converse(patient, 100);
    assert!(
        slow.text.starts_with("HTTP/1.1 408 ") && slow.text.contains("Connection: close"),
        "{}",
        slow.text
    );
    assert_eq!(slow.totals.bodies_refused, 1);
    // 10 s of grace; the 1,200 bytes until then are worth 2.4 s; then the client has 5 s to read the answer.
    assert_eq!(slow.lasted, Duration::from_millis(17_400));
    assert!(converse(patient, 1000).text.ends_with("100000 bytes\n"));
    // Without such a limit it may take as long as the whole body may.
    assert!(converse(Limits { least_rate: 0, ..patient }, 100).text.ends_with("100000 bytes\n"));
}

#[test]
fn a_client_that_takes_its_response_too_slowly_is_cut_off_with_a_reset() {
    // The peer takes a part, and then nothing.
    let script = Script { takes: Some(10_000), ..Script::sends(["GET /big HTTP/1.1\r\nHost: a\r\n\r\n"]) };
    let seen = with(Limits { least_rate: 16_000, ..Limits::default() }, script);
    assert!(seen.reset, "a slow reader must not be left with a connection that waits for it");
    assert_eq!(seen.totals.send_timeouts, 1);
    // Its first buffer is worth a second.
    assert_eq!(seen.lasted.as_secs(), RATE_GRACE.as_secs() + 1);
    let script = Script { takes: Some(10_000), ..Script::sends(["GET /big HTTP/1.1\r\nHost: a\r\n\r\n"]) };
    assert_eq!(with(Limits { least_rate: 0, ..Limits::default() }, script).lasted, Duration::from_secs(30));
    let fast = with(Limits::default(), Script::sends(["GET /big HTTP/1.1\r\nHost: a\r\n\r\n"]).then_ends());
    assert!(!fast.reset && fast.totals.send_timeouts == 0);
}

#[test]
fn the_last_request_of_a_connection_is_said_to_be_the_last() {
    let limits = Limits { requests_per_connection: 3, ..Limits::default() };
    let seen = with(limits, Script::sends(["GET /hello HTTP/1.1\r\nHost: a\r\n\r\n".repeat(5)]).then_ends());
    assert_eq!(seen.text.matches("HTTP/1.1 200 OK").count(), 3);
    assert_eq!(seen.text.matches("Connection: close").count(), 1);
    assert!(seen.text.ends_with("Connection: close\r\n\r\nhello\n"), "{}", seen.text);
    assert_eq!(seen.totals.requests, 3);
}

#[test]
fn a_request_that_takes_too_long_as_a_whole_ends() {
    let limits = Limits { request_time: Some(Duration::from_millis(20)), ..Limits::default() };
    let slow = |request: &Request<'_>, response: &mut Response| {
        std::thread::sleep(Duration::from_millis(if request.head.path() == "/slow" { 60 } else { 0 }));
        response.body(Body::Static(b"done\n"));
    };
    let requests = "GET /quick HTTP/1.1\r\nHost: a\r\n\r\nGET /slow HTTP/1.1\r\nHost: a\r\n\r\n";
    let seen = converse_within(slow, limits, Stop::default(), Script::sends([requests]).then_ends(), |_| ());
    assert!(seen.text.contains("done\n") && seen.text.contains("HTTP/1.1 503 "), "{}", seen.text);
    assert!(seen.text.contains("Retry-After: ") && seen.text.contains("Connection: close\r\n"));
    assert_eq!(seen.totals.request_timeouts, 1);
    // What has been begun can only be cut.
    let script = Script { takes: Some(10_000), ..Script::sends(["GET /big HTTP/1.1\r\nHost: a\r\n\r\n"]) };
    let limits = Limits { request_time: Some(Duration::from_secs(2)), ..Limits::default() };
    let cut = with(limits, script);
    assert!(cut.reset && cut.lasted == Duration::from_secs(2), "{:?}", cut.lasted);
    assert_eq!(cut.totals.request_timeouts, 1);
    // A head that is still coming is answered as slow heads are.
    let trickle = Script::sends(["GET / HTTP/1.1\r\n"]).at(Duration::from_secs(9), Arrival::End);
    assert!(with(limits, trickle).text.starts_with("HTTP/1.1 408 "));
}

#[test]
fn an_address_may_have_so_many_connections() {
    let limits = Limits { connections_per_address: 2, ..Limits::default() };
    let hello = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
    // They stay for a second, all at the same time.
    let staying = || Script::sends([hello]).at(Duration::from_secs(1), Arrival::End);
    let seen = several(limits, vec![staying(), staying(), staying()]);
    let answers: Vec<bool> = seen.texts.iter().map(|text| text.starts_with("HTTP/1.1 200 ")).collect();
    assert_eq!(answers, [true, true, false], "{:?}", seen.texts);
    assert!(seen.texts[2].starts_with("HTTP/1.1 503 ") && seen.texts[2].contains("Retry-After: 1"));
    assert_eq!(seen.totals.address_refused, 1);
    // Who is refused and stays does not keep a place for that, whether silent or not.
    let silent = Script::sends([hello]);
    let mut chatty = Script::default();
    for millis in 0..5_000 {
        chatty = chatty.at(Duration::from_millis(millis), Arrival::Bytes(hello.into()));
    }
    for refused in [silent, chatty] {
        let ending = || Script::sends([hello]).at(Duration::from_millis(1), Arrival::End);
        let seen = several(limits, vec![ending(), ending(), refused]);
        assert_eq!(seen.totals.address_refused, 1);
        assert!(seen.lasted <= Duration::from_millis(10), "{:?}", seen.lasted);
    }
}
