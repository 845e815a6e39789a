//! The access log and the ids of requests, from outside.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;

use crate::common::{Client, MODELS, Server, plimsoll, site, until};

/// The lines of a log, as soon as there are so many.
fn lines(path: &Path, expected: usize) -> Vec<String> {
    let read = || fs::read_to_string(path).unwrap_or_default();
    until(format_args!("{expected} lines"), || read().lines().count() >= expected);
    let text = read();
    assert_eq!(text.lines().count(), expected, "{text}");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn every_request_has_its_line_on_every_model() {
    let site = site();
    for flags in MODELS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        let log = ["--access-log", path.to_str().unwrap()];
        let mut server = Server::start(site.path(), &[flags, &log[..]].concat());
        let mut client = server.connect();
        assert_eq!(client.get("/1k.html").status, 200);
        assert_eq!(client.get("/missing").status, 404);
        assert_eq!(
            client
                .send("HEAD /1k.html HTTP/1.0\r\nUser-Agent: t/1\r\nReferer: r\r\n\r\n")
                .head_of_answer()
                .status,
            200
        );
        assert_eq!(server.connect().send("no such thing\r\n\r\n").answer().status, 400);
        server.signal(Signal::TERM);
        server.wait();
        let mut lines = lines(&path, 4);
        lines.sort_by_key(|line| line.contains("\"no such thing\""));
        let behind_the_time: Vec<&str> = lines.iter().map(|line| line.split_once("] ").unwrap().1).collect();
        let expected = [
            "\"GET /1k.html HTTP/1.1\" 200 1024 \"-\" \"-\"",
            "\"GET /missing HTTP/1.1\" 404 14 \"-\" \"-\"",
            "\"HEAD /1k.html HTTP/1.0\" 200 0 \"r\" \"t/1\"",
        ];
        assert_eq!(behind_the_time[..3], expected, "{flags:?}");
        assert!(behind_the_time[3].starts_with("\"no such thing\" 400 "), "{flags:?}: {lines:?}");
        assert!(lines.iter().all(|line| line.starts_with("127.0.0.1 - - [")), "{flags:?}: {lines:?}");
    }
}

#[test]
fn a_log_that_was_moved_away_is_opened_anew_on_sighup() {
    let (site, dir) = (site(), tempfile::tempdir().unwrap());
    let path = dir.path().join("access.log");
    let server =
        Server::start(site.path(), &["--access-log", path.to_str().unwrap(), "--log-format", "json"]);
    let mut client = server.connect();
    client.get("/1k.html");
    let old = dir.path().join("access.log.1");
    assert_eq!(lines(&path, 1).len(), 1);
    fs::rename(&path, &old).unwrap();
    server.signal(Signal::HUP);
    until("it is opened anew", || path.exists());
    client.get("/missing");
    let line: serde_json::Value = serde_json::from_str(&lines(&path, 1)[0]).unwrap();
    assert_eq!((line["target"].as_str(), line["status"].as_u64()), (Some("/missing"), Some(404)));
    assert_eq!(lines(&old, 1).len(), 1);
    server.stop();
}

#[test]
fn sighup_ends_no_server_whether_it_has_a_log_file_or_not() {
    let site = site();
    for log in [&[][..], &["--access-log", "-"]] {
        let mut command = plimsoll();
        command.arg("serve").arg(site.path()).args(["--listen", "127.0.0.1:0"]).args(log);
        command.stdout(Stdio::null());
        let server = Server::spawn(command);
        let mut client = server.connect();
        for _ in 0..3 {
            server.signal(Signal::HUP);
            assert_eq!(client.get("/1k.html").status, 200, "{log:?}");
        }
        // Signals that wait are taken in the order of their numbers, so this one comes after.
        let said = server.stop();
        assert!(said.contains("SIGHUP: goes on as before"), "{log:?}: {said}");
    }
}

#[test]
fn a_full_disk_stops_nobody_and_the_lost_lines_are_counted() {
    let site = site();
    let server = Server::start(
        site.path(),
        &["--access-log", "/dev/full", "--admin", "127.0.0.1:0", "--sandbox", "off"],
    );
    let mut client = server.connect();
    for _ in 0..20 {
        assert_eq!(client.get("/1k.html").status, 200);
    }
    until("twenty lines are lost", || server.sample("plimsoll_log_lines_dropped_total ").ends_with(" 20"));
    server.stop();
}

#[test]
fn a_pipe_that_nobody_reads_stops_nobody_and_keeps_nobody_from_stopping() {
    let site = site();
    for model in ["reactor", "thread-pool"] {
        let mut command = plimsoll();
        command.arg("serve").arg(site.path()).args(["--listen", "127.0.0.1:0", "--access-log", "-"]);
        // The reading end is this process's own, and left alone.
        let server = Server::spawn({
            command.args(["--model", model]).stdout(Stdio::piped());
            command
        });
        let mut client = server.connect();
        // More than a pipe holds.
        for _ in 0..1_500 {
            let target = format!("/1k.html?{}", "x".repeat(100));
            assert_eq!(client.get(&target).status, 200);
        }
        let said = server.stop();
        assert!(said.contains("nobody takes the lines of the access log"), "{said}");
    }
}

#[test]
fn requests_have_ids_that_cannot_be_forged_into_something_else() {
    let site = site();
    for model in ["reactor", "reuseport-pool", "thread-pool", "proactor"] {
        let server = Server::start(site.path(), &["--model", model, "--request-id"]);
        let mut client = server.connect();
        let id = |client: &mut Client, fields: &str| {
            let request = format!("GET /1k.html HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            client.send(request).answer().field("X-Request-Id").unwrap().to_owned()
        };
        let (one, two) = (id(&mut client, ""), id(&mut client, ""));
        assert!(one != two && one.len() == 16 && two.len() == 16, "{one} {two}");
        assert_eq!(id(&mut client, "X-Request-Id: my-id_1.2\r\n"), "my-id_1.2");
        for bad in ["a b", "", "<x>", &"x".repeat(65)] {
            assert_eq!(id(&mut client, &format!("X-Request-Id: {bad}\r\n")).len(), 16, "{bad:?}");
        }
        server.stop();
    }
}
