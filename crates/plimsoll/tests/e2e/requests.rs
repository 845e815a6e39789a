//! What is asked and what is answered, byte for byte, on every model.

use std::fs;
use std::net::Shutdown;
use std::time::Duration;

use crate::common::{MODELS, Server, large, on_every_model};

#[test]
fn pages_have_the_right_fields() {
    on_every_model(|server| {
        let mut client = server.connect();
        for (path, kind, length) in [
            ("/1k.html", "text/html; charset=utf-8", 1024),
            ("/sub/", "text/html; charset=utf-8", 12),
            ("/style.css", "text/css; charset=utf-8", 28),
            ("/app.js", "text/javascript; charset=utf-8", 22),
            ("/dot.svg", "image/svg+xml", 96),
            ("/empty", "application/octet-stream", 0),
        ] {
            let answer = client.get(path);
            assert_eq!((answer.status, answer.body.len()), (200, length), "{path}");
            assert_eq!(answer.field("Content-Type"), Some(kind), "{path}");
            assert!(answer.field("Date").unwrap().ends_with(" GMT"));
            assert!(answer.field("Last-Modified").unwrap().ends_with(" GMT"));
            let head = client.send(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n")).head_of_answer();
            let without_date = |head: &str| {
                head.lines().filter(|line| !line.starts_with("Date")).map(String::from).collect::<Vec<_>>()
            };
            assert_eq!(without_date(&head.head), without_date(&answer.head), "{path}");
        }
    });
}

#[test]
fn errors_have_their_status_and_keep_the_connection_where_they_can() {
    on_every_model(|server| {
        let mut client = server.connect();
        assert_eq!(client.get("/missing").status, 404);
        assert_eq!(client.get("/sub").field("Location"), Some("/sub/"));
        let allow = Some("GET, HEAD, OPTIONS");
        for (method, expected) in
            [("POST", (405, allow)), ("DELETE", (405, allow)), ("TRACE", (405, allow)), ("BREW", (501, None))]
        {
            let answer = client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n")).answer();
            assert_eq!((answer.status, answer.field("Allow")), expected);
        }
        assert_eq!(client.get("/1k.html").status, 200);
        assert_eq!(client.send("no such thing\r\n\r\n").answer().status, 400);
        assert_eq!(client.rest(), b"");
        let mut client = server.connect();
        assert_eq!(
            client.send(format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9000))).answer().status,
            414
        );
        let mut client = server.connect();
        let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(20_000));
        assert_eq!(client.send(large).answer().status, 431);
    });
}

#[test]
fn nothing_outside_of_the_root_is_served() {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(outer.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.join("absolute")).unwrap();
    for flags in MODELS {
        let server = Server::start(&root, flags);
        let mut client = server.connect();
        for path in [
            "/../secret",
            "/%2e%2e/secret",
            "/..%2fsecret",
            "/link",
            "/absolute",
            "//../secret",
            "/./../secret",
        ] {
            let answer = client.get(path);
            assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
            assert!(!answer.text().contains("secret"), "{path}");
        }
        server.stop();
    }
}

#[test]
fn a_large_file_arrives_whole() {
    let expected = large();
    on_every_model(|server| {
        let mut client = server.connect();
        for _ in 0..2 {
            assert!(client.get("/large.bin").body == expected);
        }
        assert_eq!(client.get("/1k.html").body.len(), 1024);
    });
}

#[test]
fn names_are_decoded_once() {
    on_every_model(|server| {
        let mut client = server.connect();
        assert_eq!(client.get("/files/gr%C3%B6%C3%9Fe%20100%25.txt").text(), "named");
        assert_eq!(client.get("/files/gr%25C3%25B6").status, 404);
    });
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    on_every_model(|server| {
        let mut client = server.connect();
        let paths = ["/1k.html", "/missing", "/sub/", "/large.bin", "/empty"];
        let all: String =
            (0..20).map(|at| format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", paths[at % 5])).collect();
        client.send(all);
        for at in 0..20 {
            let answer = client.answer();
            let expected = [(200, 1024), (404, 14), (200, 12), (200, 20 << 20), (200, 0)][at % 5];
            assert_eq!((answer.status, answer.body.len()), expected, "answer {at}");
        }
    });
}

#[test]
fn http_1_0_and_close_end_the_connection() {
    on_every_model(|server| {
        let mut client = server.connect();
        let text = String::from_utf8(client.send("GET /1k.html HTTP/1.0\r\n\r\n").rest()).unwrap();
        assert!(text.contains("Connection: close\r\n") && text.ends_with('k'), "{text:.200}");
        let mut client = server.connect();
        client.send("GET /1k.html HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(client.answer().field("Connection"), Some("keep-alive"));
        client.send("GET /1k.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(client.answer().field("Connection"), Some("close"));
        assert_eq!(client.rest(), b"");
    });
}

#[test]
fn a_client_that_has_said_its_last_word_still_gets_its_answer() {
    on_every_model(|server| {
        let mut client = server.connect();
        client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        client.0.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.answer().body.len(), 20 << 20);
        assert_eq!(client.rest(), b"");
    });
}

#[test]
fn clients_that_leave_at_any_point_do_no_harm() {
    on_every_model(|server| {
        for sent in ["", "G", "GET / HTTP/1.1\r\nHo", "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n"] {
            for _ in 0..20 {
                let mut client = server.connect();
                client.send(sent);
                // With a zero linger time the end is a reset.
                let linger = Some(std::time::Duration::ZERO);
                rustix::net::sockopt::set_socket_linger(&client.0, linger).unwrap();
            }
        }
        assert_eq!(server.connect().get("/1k.html").status, 200);
    });
}

#[test]
fn however_requests_are_cut_into_packets_the_answers_are_the_same() {
    let conversation = "GET /1k.html HTTP/1.1\r\nHost: a\r\n\r\n\
                        POST /1k.html HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                        5;x=y\r\nhello\r\n0\r\nTrailer: x\r\n\r\n\
                        HEAD /text.txt HTTP/1.1\r\nHost: a\r\n\r\n\
                        PUT /1k.html HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nGET / HTTP/\
                        GET /text.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=3-20\r\nConnection: close\r\n\r\n";
    on_every_model(|server| {
        let answers = |cuts: &[usize]| {
            let mut client = server.connect();
            client.0.set_nodelay(true).unwrap();
            let mut start = 0;
            for cut in cuts.iter().chain([&conversation.len()]) {
                client.send(&conversation[start..*cut]);
                start = *cut;
                std::thread::sleep(Duration::from_millis(2));
            }
            let text = String::from_utf8(client.rest()).unwrap();
            text.split_inclusive('\n').filter(|line| !line.starts_with("Date: ")).collect::<String>()
        };
        let whole = answers(&[]);
        assert_eq!(whole.matches("HTTP/1.1 ").count(), 5, "{whole}");
        for step in [1, 7, 16, 40, 97] {
            // Every byte by itself takes its time, so only a part of the conversation is cut that finely.
            let cuts: Vec<usize> = (1..conversation.len()).step_by(step).take(60).collect();
            assert_eq!(answers(&cuts), whole, "cut every {step} bytes");
        }
    });
}
