//! How connections end: when, with which last words, and so that the client can read them.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use engine::driver::memory::{Arrival, Script};
use engine::{FileRange, Stop};
use server::{Body, FileVersion, Handler, Limits, Request, Response};

use crate::common::{converse, converse_with, converse_within, handler};

const GET: &str = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";

/// Takes bodies; a path that is a number is answered with as many bytes.
pub(crate) struct Taking;

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

#[test]
fn of_a_file_that_its_client_does_not_take_to_the_end_only_what_was_sent_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "x".repeat(100_000)).unwrap();
    let file: Arc<OwnedFd> = Arc::new(std::fs::File::open(dir.path().join("file")).unwrap().into());
    for version in [None, Some(FileVersion::of(&rustix::fs::fstat(&file).unwrap()))] {
        for (takes, sent) in [(Some(50_000), 50_000), (None, 100_080)] {
            let file = file.clone();
            let handler = move |_: &Request<'_>, response: &mut Response| {
                let range = FileRange { file: file.clone(), offset: 0, length: 100_000 };
                response.body(Body::File(range, version));
            };
            let script = Script { takes, ..Script::sends([GET]).then_ends() };
            let seen = converse_with(handler, Stop::default(), script, |_| ());
            let cut = u64::from(takes.is_some());
            assert_eq!((seen.totals.bytes_sent, seen.totals.send_timeouts), (sent, cut), "{version:?}");
        }
    }
}

#[test]
fn what_comes_is_counted_also_where_nobody_wants_it() {
    let head = |body: &str| format!("POST /hello HTTP/1.1\r\nHost: a\r\n{body}\r\n\r\n");
    for packets in [
        [head("Content-Length: 5"), "hello".into()],
        [head("Transfer-Encoding: chunked"), "5\r\nhello\r\n0\r\n\r\n".into()],
        // Behind the last answer.
        [head("Content-Length: 65537"), "hello".into()],
        ["BAD\r\n\r\n".into(), GET.into()],
    ] {
        let bytes = packets.concat().len() as u64;
        let seen = converse(Script::sends(packets.clone()).then_ends(), |_| ());
        assert_eq!(seen.totals.bytes_received, bytes, "{packets:?}");
    }
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

#[test]
fn where_the_server_chose_the_end_what_has_come_meanwhile_is_read_on() {
    let stop = Stop::default();
    stop.set();
    let last = Limits { requests_per_connection: 1, ..Limits::default() };
    for (limits, stop) in [(last, Stop::default()), (Limits::default(), stop)] {
        let converse = |script| converse_within(handler, limits, stop.clone(), script, |_| ());
        let seen = converse(Script::sends([GET, GET]).then_ends());
        assert_eq!(seen.text, HELLO.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
        assert!(seen.shut_down, "the end is told, and what comes is read on");
        assert_eq!(seen.totals.bytes_received, 2 * GET.len() as u64);
        // Where nothing has come there is nothing to wait for.
        let seen = converse(Script::sends([GET]));
        assert_eq!((seen.shut_down, seen.lasted), (false, Duration::ZERO));
    }
    // Who asks for the end is not looked at again: one receive, and one send.
    let asked = GET.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let seen = converse(Script::sends([asked.as_str(), GET]), |_| ());
    assert_eq!((seen.shut_down, seen.operations), (false, 2));
}
