//! Range fields: the first eight bytes are the length of the file. The parts lie within it, are not empty, do not overlap,
//! and are few.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Ranges, resolve_ranges};

fuzz_target!(|data: &[u8]| {
    let Some((length, value)) = data.split_first_chunk() else { return };
    let length = u64::from_le_bytes(*length);
    let Ranges::Parts(parts) = resolve_ranges(value, length) else { return };
    assert!((1..=16).contains(&parts.len()));
    for (at, part) in parts.iter().enumerate() {
        assert!(part.start < part.end && part.end <= length);
        assert!(parts[..at].iter().all(|other| part.end <= other.start || other.end <= part.start));
    }
    assert!(parts.iter().map(|part| part.end - part.start).sum::<u64>() <= length);
});
