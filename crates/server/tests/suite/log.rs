//! What the access log says of answers: that they are complete only where all of them was sent.

use std::sync::Arc;

use engine::driver::memory::{Memory, Script};
use engine::{Driver, Io, Stop};
use rustix::io::Errno;
use serde_json::Value;
use server::log::{AccessLog, Destination, Format};
use server::{Http, Limits};

use crate::common::{handler, run};

const REQUESTS: &str = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n\
                        HEAD /big HTTP/1.1\r\nHost: a\r\n\r\n\
                        GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n\
                        GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";

/// What was sent in a conversation, and the log's lines about it: status, bytes, and whether that was all.
fn logged(script: Script, prepare: impl FnOnce(&mut Memory)) -> (Vec<u8>, Vec<(u64, u64, bool)>) {
    let (sent, lines) = logged_whole(script, prepare);
    let outcome = |line: &Value| {
        let number = |name: &str| line[name].as_u64().unwrap();
        (number("status"), number("bytes"), line["complete"].as_bool().unwrap())
    };
    (sent, lines.iter().map(outcome).collect())
}

/// What was sent in a conversation, and the log's lines about it.
fn logged_whole(script: Script, prepare: impl FnOnce(&mut Memory)) -> (Vec<u8>, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let log = AccessLog::start(Destination::File(path.clone()), Format::Json, 1).unwrap();
    let io = Io::new(Memory::open(engine::Limits { sockets: 4 }).unwrap());
    let socket = io.driver().peer(script);
    prepare(&mut io.driver());
    let http = Arc::new(Http::new(handler, Limits::default(), 1).with_log(Some(log)));
    run(&io, &http, &[socket], Stop::default());
    http.finish();
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let sent = io.driver().sent(socket).to_vec();
    (sent, lines.collect())
}

#[test]
fn answers_are_complete_where_all_of_them_was_sent() {
    let all = || Script::sends([REQUESTS]).then_ends();
    let whole = [(200, 6, true), (200, 0, true), (204, 0, true), (200, 6, true)];
    let (sent, lines) = logged(all(), |_| ());
    assert_eq!(lines, whole);
    // All of them go out together, and the client takes the first, and a part of the second.
    let first = sent.windows(6).position(|bytes| bytes == b"hello\n").unwrap() + 6;
    for (takes, complete, of_next) in
        [(first - 1, 0, 5), (first, 1, 0), (first + 10, 1, 0), (sent.len() - 1, 3, 5)]
    {
        let (_, lines) = logged(Script { takes: Some(takes), ..all() }, |_| ());
        let expected = whole.iter().enumerate().map(|(at, (status, bytes, _))| {
            let bytes = if at < complete {
                *bytes
            } else if at == complete {
                of_next
            } else {
                0
            };
            (*status, bytes, at < complete)
        });
        let expected: Vec<_> = expected.collect();
        assert_eq!(lines, expected, "{takes} of {} bytes are taken", sent.len());
    }
    // The first operation receives, and the second sends.
    let (sent, lines) = logged(all(), |driver| driver.fail(1, Errno::PIPE));
    assert_eq!((sent.len(), lines.len()), (0, 4));
    assert!(lines.iter().all(|(_, bytes, complete)| (*bytes, *complete) == (0, false)), "{lines:?}");
}

#[test]
fn an_answer_of_several_sends_is_complete_with_the_last() {
    let script =
        || Script::sends(["GET /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /big HTTP/1.1\r\nHost: a\r\n\r\n"]);
    let (sent, lines) = logged(script().then_ends(), |_| ());
    assert_eq!(lines, [(200, 6, true), (200, 100_000, true)]);
    for missing in [1, 300, 50_000, 100_000, 100_010] {
        let takes = Some(sent.len() - missing);
        let (_, lines) = logged(Script { takes, ..script().then_ends() }, |_| ());
        assert_eq!(lines, [(200, 6, true), (200, 100_000u64.saturating_sub(missing as u64), false)]);
    }
}

#[test]
fn a_request_that_gets_no_answer_has_a_line_too() {
    let get = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
    let chunked = "POST /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel";
    let (sent, lines) = logged(Script::sends([chunked]).then_ends(), |_| ());
    assert_eq!((sent.len(), lines), (0, vec![(499, 0, false)]));
    // The client is gone when it is to be told of the answer before.
    let (_, lines) = logged(Script::sends([[get, chunked].concat()]), |driver| driver.fail(1, Errno::PIPE));
    assert_eq!(lines, [(200, 0, false), (499, 0, false)]);
}

#[test]
fn what_cannot_be_read_has_a_line_with_what_came() {
    for (request, status, [method, target, version]) in [
        ("GET /x HTTP/1.1\r\nHost : a\r\n\r\n", 400, ["GET", "/x", "HTTP/1.1"]),
        ("GET /x HTTP/3.0\r\nHost: a\r\n\r\n", 505, ["GET", "/x", "HTTP/3.0"]),
        ("GET /x HT", 408, ["GET", "/x", "HT"]),
        ("\u{16}\u{3}\u{1}", 400, ["-", "\u{16}\u{3}\u{1}", "-"]),
    ] {
        let (_, lines) = logged_whole(Script::sends([request]), |_| ());
        assert_eq!((lines.len(), lines[0]["status"].as_u64()), (1, Some(status)), "{request:?}: {lines:?}");
        let seen = ["method", "target", "version"].map(|name| lines[0][name].as_str().unwrap());
        assert_eq!(seen, [method, target, version], "{request:?}");
    }
}
