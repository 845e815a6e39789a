//! Paths: whatever is decoded stays below the root, and decoding it once is enough.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::decode_path;

fuzz_target!(|path: &str| {
    let mut name = b"before".to_vec();
    if decode_path(path, &mut name).is_err() {
        return;
    }
    let name = name.strip_prefix(b"before").expect("what stood there stays");
    assert!(!name.starts_with(b"/"));
    assert!(!name.iter().any(|byte| matches!(byte, 0..=0x1f | 0x7f | b'\\')));
    let directory = name.strip_suffix(b"/").unwrap_or(name);
    assert!(
        name.is_empty()
            || directory.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."))
    );
});
