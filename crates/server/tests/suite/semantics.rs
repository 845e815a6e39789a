//! Conditions, ranges and codings of a static site (RFC 9110, sections 12 to 14), through the connection.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use server::app::Site;

use crate::common::{body, decoded, field, get, get_bytes, status, touch, until};

/// What the page says; text that gets smaller.
fn page() -> String {
    "all work and no play makes a dull page, ".repeat(100)
}

/// A site whose files were changed a while ago.
fn site() -> (tempfile::TempDir, Arc<Site>) {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "page.html", page().as_bytes());
    write(dir.path(), "digits", b"0123456789");
    write(dir.path(), "picture.png", page().as_bytes());
    write(dir.path(), "tiny.txt", b"tiny");
    write(dir.path(), "noise.txt", &noise(5_000));
    write(dir.path(), "large.txt", page().repeat(60).as_bytes());
    write(dir.path(), "huge.txt", page().repeat(600).as_bytes());
    write(dir.path(), "empty", b"");
    let site = Arc::new(Site::open(dir.path()).unwrap());
    (dir, site)
}

fn write(root: &Path, name: &str, content: &[u8]) {
    fs::write(root.join(name), content).unwrap();
    touch(root, name, 784_111_777);
}

/// Bytes that do not get smaller.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn a_client_that_has_the_file_is_told_so() {
    let (_dir, site) = site();
    let first = get(&site, "GET /digits");
    let tag = field(&first, "ETag").unwrap();
    for fields in [
        format!("If-None-Match: {tag}"),
        format!("If-None-Match: W/{tag}"),
        format!("If-None-Match: \"x\", {tag}"),
        "If-None-Match: *".into(),
        "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT".into(),
        "If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT".into(),
        "If-Modified-Since: Sun Nov  6 08:49:37 1994".into(),
        format!("If-None-Match: {tag}\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT"),
    ] {
        for method in ["GET", "HEAD"] {
            let answer = get(&site, &format!("{method} /digits\n{fields}"));
            assert_eq!((status(&answer), body(&answer)), (304, ""), "{fields}: {answer}");
            assert_eq!(field(&answer, "ETag"), Some(tag));
            assert_eq!(field(&answer, "Content-Type"), None);
            assert_eq!(field(&answer, "Content-Length"), None);
        }
    }
    for fields in [
        "If-None-Match: \"x\"".into(),
        "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT".into(),
        "If-Modified-Since: yesterday".into(),
        format!("If-Match: {tag}"),
        "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT".into(),
    ] {
        assert_eq!(status(&get(&site, &format!("GET /digits\n{fields}"))), 200, "{fields}");
    }
    for fields in ["If-Match: \"x\"", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT"] {
        assert_eq!(status(&get(&site, &format!("GET /digits\n{fields}"))), 412, "{fields}");
    }
}

#[test]
fn parts_of_a_file() {
    let (_dir, site) = site();
    for (range, expected, said) in [
        ("bytes=0-3", "0123", "bytes 0-3/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=0-99", "0123456789", "bytes 0-9/10"),
        ("bytes=9-9", "9", "bytes 9-9/10"),
    ] {
        let answer = get(&site, &format!("GET /digits\nRange: {range}"));
        assert_eq!((status(&answer), body(&answer)), (206, expected), "{range}");
        assert_eq!(field(&answer, "Content-Range"), Some(said));
        assert_eq!(field(&answer, "Content-Length"), Some(expected.len().to_string().as_str()));
        assert!(field(&answer, "ETag").is_some() && field(&answer, "Content-Type").is_some());
    }
    for range in ["bytes=10-", "bytes=-0", "bytes=99999999999999999999-"] {
        let answer = get(&site, &format!("GET /digits\nRange: {range}"));
        assert_eq!((status(&answer), field(&answer, "Content-Range")), (416, Some("bytes */10")), "{range}");
    }
    for fields in
        ["Range: bytes=5-2", "Range: lines=1-2", "Range: bytes=0-5,3-8", "Range: bytes=0-0\nRange: bytes=1-1"]
    {
        assert_eq!(status(&get(&site, &format!("GET /digits\n{fields}"))), 200, "{fields}");
    }
    assert_eq!(status(&get(&site, "HEAD /digits\nRange: bytes=0-3")), 200);
    assert_eq!(status(&get(&site, "GET /empty\nRange: bytes=0-")), 416);
}

#[test]
fn a_part_is_only_sent_of_the_state_that_is_asked_for() {
    let (_dir, site) = site();
    let answer = get(&site, "GET /digits");
    let tag = field(&answer, "ETag").unwrap();
    for (value, expected) in [
        (tag, 206),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 206),
        ("\"x\"", 200),
        ("Sun, 06 Nov 1994 08:49:38 GMT", 200),
        ("Sun, 06 Nov 1994 08:49:36 GMT", 200),
    ] {
        let answer = get(&site, &format!("GET /digits\nRange: bytes=0-3\nIf-Range: {value}"));
        assert_eq!(status(&answer), expected, "{value}");
    }
    // What the client has is judged before what it wants of it.
    assert_eq!(status(&get(&site, &format!("GET /digits\nRange: bytes=0-3\nIf-None-Match: {tag}"))), 304);
    assert_eq!(status(&get(&site, "GET /digits\nRange: bytes=0-3\nIf-Match: \"x\"")), 412);
}

#[test]
fn several_parts_come_in_one_body() {
    let (dir, site) = site();
    let content = fs::read_to_string(dir.path().join("large.txt")).unwrap();
    let answer = get(&site, "GET /large.txt\nRange: bytes=0-9, 100-199, -5");
    assert_eq!(status(&answer), 206);
    let media = field(&answer, "Content-Type").unwrap();
    let boundary = media.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let length = content.len();
    let mut expected = String::new();
    for (start, end) in [(0, 10), (100, 200), (length - 5, length)] {
        expected += &format!(
            "\r\n--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes {start}-{}/{length}\r\n\r\n{}",
            end - 1,
            &content[start..end]
        );
    }
    expected += &format!("\r\n--{boundary}--\r\n");
    assert!(body(&answer) == expected, "{answer}");
    assert_eq!(field(&answer, "Content-Length"), Some(expected.len().to_string().as_str()));
    assert_eq!(field(&answer, "Content-Range"), None);
    // More in parts than as a whole.
    assert_eq!(status(&get(&site, "GET /digits\nRange: bytes=0-1,3-4")), 200);
    // CVE-2011-3192: hundreds of parts.
    let many: Vec<String> = (0..500).map(|at| format!("{at}-")).collect();
    let answer = get(&site, &format!("GET /large.txt\nRange: bytes={}", many.join(",")));
    assert_eq!((status(&answer), body(&answer).len()), (200, length));
}

#[test]
fn text_is_compressed_as_the_client_likes() {
    let (_dir, site) = site();
    let plain = get(&site, "GET /page.html");
    assert_eq!(field(&plain, "Vary"), Some("Accept-Encoding"));
    let mut tags = vec![field(&plain, "ETag").unwrap().to_owned()];
    for (accepts, coding) in [
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip, br", "br"),
        ("gzip", "gzip"),
        ("gzip;q=1, br;q=0.5", "gzip"),
    ] {
        let (head, bytes) = get_bytes(&site, &format!("GET /page.html\nAccept-Encoding: {accepts}"));
        assert_eq!(field(&head, "Content-Encoding"), Some(coding), "{accepts}");
        assert_eq!(field(&head, "Content-Length"), Some(bytes.len().to_string().as_str()));
        assert_eq!(field(&head, "Vary"), Some("Accept-Encoding"));
        assert!(bytes.len() < page().len() / 4);
        assert!(decoded(coding, &bytes) == page().as_bytes());
        let tag = field(&head, "ETag").unwrap().to_owned();
        // Parts are parts of what is sent, and only with its own tag.
        let range = format!("Range: bytes=10-19\nIf-Range: {tag}");
        let (head, part) = get_bytes(&site, &format!("GET /page.html\nAccept-Encoding: {accepts}\n{range}"));
        assert_eq!((status(&head), &part[..]), (206, &bytes[10..20]));
        assert_eq!(status(&get(&site, &format!("GET /page.html\n{range}"))), 200);
        let again = get(&site, &format!("GET /page.html\nAccept-Encoding: {accepts}\nIf-None-Match: {tag}"));
        assert_eq!((status(&again), field(&again, "Vary")), (304, Some("Accept-Encoding")));
        tags.push(tag);
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 4, "one tag for each coding: {tags:?}");
}

#[test]
fn what_is_small_compressed_already_or_too_large_is_left_alone() {
    let (_dir, site) = site();
    for path in ["/tiny.txt", "/picture.png", "/noise.txt", "/huge.txt", "/empty"] {
        let (head, _) = get_bytes(&site, &format!("GET {path}\nAccept-Encoding: gzip, br, zstd"));
        assert_eq!((status(&head), field(&head, "Content-Encoding")), (200, None), "{path}");
    }
    let (head, bytes) = get_bytes(&site, "GET /large.txt\nAccept-Encoding: gzip");
    assert_eq!(field(&head, "Content-Encoding"), Some("gzip"));
    assert!(decoded("gzip", &bytes) == page().repeat(60).as_bytes());
}

#[test]
fn a_client_that_takes_nothing_as_it_is_gets_it_compressed_or_is_refused() {
    let (_dir, site) = site();
    for path in ["/tiny.txt", "/picture.png", "/noise.txt", "/page.html", "/empty"] {
        let (head, bytes) = get_bytes(&site, &format!("GET {path}\nAccept-Encoding: gzip, identity;q=0"));
        assert_eq!((status(&head), field(&head, "Content-Encoding")), (200, Some("gzip")), "{path}");
        assert_eq!(field(&head, "Vary"), Some("Accept-Encoding"), "{path}");
        let (_, plain) = get_bytes(&site, &format!("GET {path}"));
        assert!(decoded("gzip", &bytes) == plain, "{path}");
    }
    for accepts in ["identity;q=0", "*;q=0", "deflate, identity;q=0"] {
        let answer = get(&site, &format!("GET /page.html\nAccept-Encoding: {accepts}"));
        assert_eq!((status(&answer), field(&answer, "Vary")), (406, Some("Accept-Encoding")), "{accepts}");
    }
    assert_eq!(status(&get(&site, "GET /huge.txt\nAccept-Encoding: gzip, identity;q=0")), 406);
}

#[test]
fn files_that_were_compressed_beforehand_are_sent_if_they_are_up_to_date() {
    let (dir, site) = site();
    write(dir.path(), "page.html.br", b"a brotli file");
    write(dir.path(), "huge.txt.gz", b"a gzip file");
    let (head, bytes) = get_bytes(&site, "GET /page.html\nAccept-Encoding: gzip, br, zstd");
    assert_eq!((field(&head, "Content-Encoding"), &bytes[..]), (Some("br"), &b"a brotli file"[..]));
    assert_eq!(field(&head, "Content-Type"), Some("text/html; charset=utf-8"));
    let (head, bytes) = get_bytes(&site, "GET /huge.txt\nAccept-Encoding: gzip, br, zstd");
    assert_eq!((field(&head, "Content-Encoding"), &bytes[..]), (Some("gzip"), &b"a gzip file"[..]));
    // Also of types of which nobody knows whether they get smaller, but not of those that are packed by themselves.
    for (name, coding) in [("build.data", Some("br")), ("paper.pdf", Some("br")), ("picture.png", None)] {
        write(dir.path(), name, b"as it is");
        write(dir.path(), &format!("{name}.br"), b"smaller");
        let (head, _) = get_bytes(&site, &format!("GET /{name}\nAccept-Encoding: br"));
        assert_eq!(
            (field(&head, "Content-Encoding"), field(&head, "Vary")),
            (coding, Some("Accept-Encoding"))
        );
        let (head, bytes) = get_bytes(&site, &format!("GET /{name}"));
        assert_eq!((field(&head, "Vary"), &bytes[..]), (Some("Accept-Encoding"), &b"as it is"[..]));
    }
    // By itself it is a file of its own type.
    let (head, _) = get_bytes(&site, "GET /huge.txt.gz\nAccept-Encoding: gzip");
    assert_eq!(
        (field(&head, "Content-Type"), field(&head, "Content-Encoding")),
        (Some("application/gzip"), None)
    );
    // An older one is out of date.
    touch(dir.path(), "page.html.br", 784_111_776);
    until("the old one is not sent any more", || {
        let (head, bytes) = get_bytes(&site, "GET /page.html\nAccept-Encoding: br");
        bytes != b"a brotli file"
            && decoded(field(&head, "Content-Encoding").unwrap(), &bytes) == page().as_bytes()
    });
}

/// Range fields, sensible and not.
fn range_field() -> impl Strategy<Value = String> {
    let number = || prop_oneof![0u64..20, 0u64..40_000, Just(u64::MAX)];
    let spec = prop_oneof![
        (number(), number()).prop_map(|(first, last)| format!("{first}-{last}")),
        number().prop_map(|first| format!("{first}-")),
        number().prop_map(|last| format!("-{last}")),
        Just("x".to_owned()),
    ];
    prop::collection::vec(spec, 1..20).prop_map(|specs| format!("bytes={}", specs.join(",")))
}

/// The parts of an answer with their places in the whole.
fn parts(head: &str, bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let start =
        |range: &str| range.strip_prefix("bytes ").unwrap().split('-').next().unwrap().parse().unwrap();
    if let Some(range) = field(head, "Content-Range") {
        return vec![(start(range), bytes.to_vec())];
    }
    let boundary = field(head, "Content-Type").unwrap().split_once("boundary=").unwrap().1;
    let delimiter = format!("\r\n--{boundary}");
    let mut rest = bytes;
    let mut parts: Vec<(u64, Vec<u8>)> = Vec::new();
    let find =
        |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|window| window == what).unwrap();
    loop {
        let at = find(rest, delimiter.as_bytes());
        if let Some((_, content)) = parts.last_mut() {
            *content = rest[..at].to_vec();
        }
        rest = &rest[at + delimiter.len()..];
        if rest == b"--\r\n" {
            return parts;
        }
        let end = find(rest, b"\r\n\r\n");
        let part_head = String::from_utf8(rest[..end].to_vec()).unwrap();
        parts.push((start(part_head.split("Content-Range: ").nth(1).unwrap()), Vec::new()));
        rest = &rest[end + 4..];
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_range_and_no_condition_yields_bytes_that_are_not_the_files(
        length in prop_oneof![0usize..50, 100usize..40_000],
        range in range_field(),
        coding in prop::sample::select(vec!["", "Accept-Encoding: gzip\n", "Accept-Encoding: br, zstd;q=0.5\n"]),
        condition in prop::sample::select(vec!["", "If-None-Match: \"x\"\n", "If-Range: \"x\"\n", "If-Match: *\n"]),
        text in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let content = if text { page().into_bytes().repeat(11)[..length].to_vec() } else { noise(length) };
        write(dir.path(), "file.txt", &content);
        let site = Arc::new(Site::open(dir.path()).unwrap());
        let request = format!("GET /file.txt\n{coding}");
        // What the client would have, whole: the parts are cut from that.
        let (whole_head, whole) = get_bytes(&site, &request);
        let plain = field(&whole_head, "Content-Encoding").map_or(whole.clone(), |coding| decoded(coding, &whole));
        prop_assert!(plain == content);
        let (head, bytes) = get_bytes(&site, &format!("{request}{condition}Range: {range}"));
        match status(&head) {
            200 => prop_assert!(bytes == whole),
            206 => {
                let parts = parts(&head, &bytes);
                prop_assert!(!parts.is_empty() && !condition.contains("If-Range"));
                for (start, part) in parts {
                    prop_assert!(!part.is_empty());
                    prop_assert!(whole[start as usize..].starts_with(&part), "{range}: {head}");
                }
            }
            status => prop_assert_eq!((status, bytes.is_empty()), (416, false)),
        }
        let announced = field(&head, "Content-Length").map(|length| length.parse::<usize>().unwrap());
        prop_assert_eq!(announced, Some(bytes.len()));
        // CVE-2011-3192: never more than the file and a little.
        prop_assert!(bytes.len() <= whole.len() + 1024);
    }
}
