//! Dates of HTTP: what is read is written in the one form that is allowed, and that is read as the same moment, if it is one
//! that is written at all.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{HttpDate, parse_date};

fuzz_target!(|data: &[u8]| {
    let Some(moment) = parse_date(data) else { return };
    let date = HttpDate::from(moment);
    assert!(date.as_bytes().is_ascii() && date.as_bytes().ends_with(b" GMT"));
    let written = moment.max(std::time::UNIX_EPOCH);
    assert_eq!(parse_date(date.as_bytes()), Some(written));
});
