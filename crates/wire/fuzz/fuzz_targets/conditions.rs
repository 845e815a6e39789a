//! Conditional requests, If-Range and Accept-Encoding: the input is the fields. A client that has the file is never sent
//! it under If-None-Match, and one that has another is never told that it has it.
#![no_main]

use std::time::{Duration, SystemTime};

use libfuzzer_sys::fuzz_target;
use wire::{Codings, Limits, Validators, Verdict, accepts, judge_conditions, parse_request, range_applies};

fuzz_target!(|data: &[u8]| {
    let request = [b"GET / HTTP/1.1\r\nHost: a\r\n", data, b"\r\n\r\n"].concat();
    let Ok(Some((head, _))) = parse_request(&request, &Limits::default()) else { return };
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    let judge = |etag: &[u8]| judge_conditions(&head, &Validators { etag, modified: Some(modified) });
    let verdict = judge(b"\"tag\"");
    if !head.asks.conditional {
        assert_eq!(verdict, Verdict::Proceed);
    }
    let is = |value: &[u8]| head.values("if-none-match").any(|other| other == value);
    if verdict != Verdict::Failed && (is(b"*") || is(b"\"tag\"") || is(b"W/\"tag\"")) {
        assert_eq!(verdict, Verdict::NotModified);
    }
    if judge(b"W/\"tag\"") == Verdict::Proceed && head.field("if-match").is_some() {
        assert!(head.values("if-match").any(|value| value == b"*"), "a weak tag is no match for If-Match");
    }
    let _ =
        range_applies(&head, &Validators { etag: b"\"tag\"", modified: Some(modified) }, SystemTime::now());
    let codings: Vec<_> = Codings::of(&head).iter().collect();
    assert!(codings.len() <= 4 && (1..codings.len()).all(|at| !codings[..at].contains(&codings[at])));
    assert!(accepts(&head, "text/html") <= 1000);
});
