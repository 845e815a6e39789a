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
    let lines = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let number = |name: &str| line[name].as_u64().unwrap();
        (number("status"), number("bytes"), line["complete"].as_bool().unwrap())
    });
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
    for (takes, complete) in [(first - 1, 0), (first, 1), (first + 10, 1), (sent.len() - 1, 3)] {
        let (_, lines) = logged(Script { takes: Some(takes), ..all() }, |_| ());
        let expected: Vec<_> =
            whole.iter().enumerate().map(|(at, line)| (line.0, line.1, at < complete)).collect();
        assert_eq!(lines, expected, "{takes} of {} bytes are taken", sent.len());
    }
    // The first operation receives, and the second sends.
    let (sent, lines) = logged(all(), |driver| driver.fail(1, Errno::PIPE));
    assert_eq!((sent.len(), lines.len()), (0, 4));
    assert!(lines.iter().all(|(_, _, complete)| !complete), "{lines:?}");
}

#[test]
fn an_answer_of_several_sends_is_complete_with_the_last() {
    let script =
        || Script::sends(["GET /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /big HTTP/1.1\r\nHost: a\r\n\r\n"]);
    let (sent, lines) = logged(script().then_ends(), |_| ());
    assert_eq!(lines, [(200, 6, true), (200, 100_000, true)]);
    let (_, lines) = logged(Script { takes: Some(sent.len() - 1), ..script().then_ends() }, |_| ());
    assert_eq!(lines, [(200, 6, true), (200, 100_000, false)]);
}
