//! The rules of a request's head, one table each: what is accepted, and what is refused with which status.

use proptest::prelude::*;
use wire::{Framing, Limits, Method, Version, parse_request};

/// Status of the refusal, or `None` if the head is accepted or incomplete.
fn refusal(request: &[u8]) -> Option<u16> {
    parse_request(request, &Limits::default()).err().map(|reject| reject.status.code())
}

#[test]
fn heads_that_break_a_rule_are_refused() {
    for (request, status) in [
        // The request line (RFC 9112, section 3).
        ("GET\r\n\r\n", 400),
        ("GET /\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET / x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("G<T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ("GET / HTTP/11\r\nHost: a\r\n\r\n", 400),
        ("GET / http/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 501),
        ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET http:// HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET http://:80/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET http://u@h/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET http://a:xyz/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET http://a\\b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET http://[::1?q HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET /a?b#c HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET http://a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET http://a?b#c HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        // Lines and fields (RFC 9112, 2.2 and section 5).
        ("GET / HTTP/1.1\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n", 400),
        ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n X: folded\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\tfolded\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400),
        ("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        // No later than the input shows it.
        (" ", 400),
        ("GET  ", 400),
        ("\u{16}\u{3}\u{1}", 400),
        ("GET / HTTP/1.1\r\n ", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: \u{1}", 400),
        // Host (RFC 9112, 3.2).
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: user@a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: :80\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: [a]\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: %zz\r\n\r\n", 400),
        // Framing (RFC 9112, 6.1 to 6.3): the ways to smuggle a request past a proxy.
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding:\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ,\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", 400),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
            400,
        ),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: , chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip,\t, chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n", 400),
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nExpect: something\r\n\r\n", 417),
        ("POST / HTTP/1.1\r\nHost: a\r\nExpect: something\r\nExpect: 100-continue\r\n\r\n", 417),
        ("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nExpect: something\r\n\r\n", 417),
    ] {
        assert_eq!(refusal(request.as_bytes()), Some(status), "{request:?}");
    }
}

#[test]
fn bounds_are_found_as_soon_as_the_input_shows_them() {
    let limits = Limits { head_bytes: 200, target_bytes: 50, fields: 3 };
    let refusal =
        |request: &str| parse_request(request.as_bytes(), &limits).err().map(|reject| reject.status.code());
    let target = "/".repeat(51);
    assert_eq!(refusal(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")), Some(414));
    assert_eq!(refusal(&format!("GET /{}", "x".repeat(120))), Some(414));
    assert_eq!(refusal(&format!("GET /{}", "x".repeat(50))), Some(414));
    assert_eq!(refusal(&format!("GET /{}", "x".repeat(49))), None);
    assert_eq!(refusal(&"A".repeat(33)), Some(501));
    assert_eq!(refusal(&format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "A".repeat(33))), Some(501));
    assert_eq!(refusal(&format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "A".repeat(32))), None);
    // What is wrong behind a bound is not seen any more.
    assert_eq!(refusal(&format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n bad", "x".repeat(200))), Some(431));
    assert_eq!(refusal(&format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(200))), Some(431));
    assert_eq!(refusal(&format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(200))), Some(431));
    assert_eq!(refusal("GET / HTTP/1.1\r\nHost: a\r\nB: b\r\nC: c\r\nD: d\r\n\r\n"), Some(431));
    assert_eq!(refusal("GET / HTTP/1.1\r\nHost: a\r\nB: b\r\nC: c\r\n\r\n"), None);
}

#[test]
fn what_the_standard_tolerates_is_accepted() {
    for request in [
        "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nhOsT:a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: \t a \t \r\n\r\n",
        "GET / HTTP/1.1\r\nHost:\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX:\r\nY: é\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        // A later minor version is read as 1.1 (RFC 9110, 2.5).
        "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
        "GET http://[::1]:80/ HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ChUnKeD\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 007\r\n\r\n",
    ] {
        let (_, length) = parse_request(request.as_bytes(), &Limits::default()).unwrap().unwrap();
        assert_eq!(length, request.len(), "{request:?}");
    }
}

#[test]
fn a_head_is_read_as_it_was_meant() {
    let request = b"POST http://host:1/a/b?c=d HTTP/1.1\r\nHost: host:1\r\nX-One: 1\r\nx-one: 2\r\nContent-Length: 7\r\n\
                    Connection: Upgrade, CLOSE\r\nExpect: 100-Continue\r\n\r\n";
    let (head, _) = parse_request(request, &Limits::default()).unwrap().unwrap();
    assert_eq!(
        (head.method, head.version, head.framing),
        (Method::Post, Version::Http11, Framing::Length(7))
    );
    assert_eq!((head.path(), head.query()), ("/a/b", Some("c=d")));
    assert_eq!((head.field("x-ONE"), head.field("none")), (Some(&b"1"[..]), None));
    assert_eq!((head.keep_alive, head.expects_continue, head.fields().count()), (false, true, 6));
}

#[test]
fn paths_and_queries() {
    for (target, path, query) in [
        ("/", "/", None),
        ("/a?", "/a", Some("")),
        ("/a?b?c", "/a", Some("b?c")),
        ("http://a", "/", None),
        ("HTTP://a?q", "/", Some("q")),
        ("https://a:1/x?q", "/x", Some("q")),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let (head, _) = parse_request(request.as_bytes(), &Limits::default()).unwrap().unwrap();
        assert_eq!((head.path(), head.query()), (path, query), "{target}");
    }
}

#[test]
fn persistence_follows_version_and_connection() {
    for (version, connection, expected) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: keep-alive\r\nConnection: Close\r\n", false),
        ("1.0", "", false),
        ("1.0", "Connection: x, Keep-Alive\r\n", true),
        ("1.0", "Connection: close, keep-alive\r\n", false),
    ] {
        let request = format!("GET / HTTP/{version}\r\nHost: a\r\n{connection}\r\n");
        let (head, _) = parse_request(request.as_bytes(), &Limits::default()).unwrap().unwrap();
        assert_eq!(head.keep_alive, expected, "{request:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = refusal(&bytes);
    }

    #[test]
    fn what_is_said_of_a_part_is_said_of_the_whole(
        start in prop::sample::select(vec!["", "GET ", "GET / HTTP/1.", "GET / HTTP/1.1\r\nHost: a\r\n", "\r\n"]),
        pieces in proptest::collection::vec(
            prop::sample::select(vec![
                "A", "GET", " ", "/", "/?q", "HTTP/1.1", "HTTP/1.9", "\r\n", "\r", "\n", "Host: a\r\n", "Host:", "X: y\r\n",
                "\t", ":", "\u{e9}", "\0", "AAAAAAAAAAAAAAAAAAAAAAAA",
            ]),
            0..30,
        ),
        cut: prop::sample::Index,
    ) {
        let limits = Limits { head_bytes: 100, target_bytes: 20, fields: 3 };
        let text = [start, &pieces.concat()].concat();
        let whole = parse_request(text.as_bytes(), &limits);
        let end = cut.index(text.len() + 1);
        match parse_request(&text.as_bytes()[..end], &limits) {
            Err(reject) => prop_assert_eq!(whole.err(), Some(reject), "{:?} at {}", text, end),
            Ok(Some((_, length))) => {
                prop_assert_eq!(whole.map(|head| head.map(|(_, length)| length)), Ok(Some(length)));
            }
            Ok(None) => {}
        }
    }

    #[test]
    fn a_part_of_a_good_head_is_waited_for_and_never_refused(
        target in "/[a-z0-9/%]{0,20}",
        fields in proptest::collection::vec(("[A-Za-z-]{1,12}", "[ -~]{0,20}"), 0..8),
    ) {
        let mut request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n");
        for (name, value) in &fields {
            // The names that mean something to the framing have tables of their own.
            request.push_str(&format!("X-{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        for end in 0..request.len() {
            let parsed = parse_request(&request.as_bytes()[..end], &Limits::default()).map(|head| head.is_some());
            prop_assert_eq!(parsed, Ok(false), "{:?}", &request[..end]);
        }
        let (head, length) = parse_request(request.as_bytes(), &Limits::default()).unwrap().unwrap();
        prop_assert_eq!(length, request.len());
        prop_assert_eq!(head.target, target);
        prop_assert_eq!(head.fields().count(), fields.len() + 1);
        for ((name, value), (seen_name, seen_value)) in fields.iter().zip(head.fields().skip(1)) {
            prop_assert_eq!(format!("X-{name}"), seen_name);
            prop_assert_eq!(value.trim_matches([' ', '\t']).as_bytes(), seen_value);
        }
    }

    #[test]
    fn a_decoded_path_never_leads_out(path in "/[ -~]{0,40}") {
        let mut out = Vec::new();
        if wire::decode_path(&path, &mut out).is_ok() {
            prop_assert!(!out.starts_with(b"/"));
            let mut segments = out.split(|byte| *byte == b'/');
            prop_assert!(segments.all(|segment| segment != b".." && segment != b"."));
            prop_assert!(!out.iter().any(|byte| *byte < b' ' || *byte == b'\\' || *byte == 0x7f));
        }
    }
}
