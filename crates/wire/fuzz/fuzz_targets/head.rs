//! The head of a request: the first byte says where the input is cut in two. What is accepted whole is never accepted in
//! part, never refused in part, and reads the same with anything behind it; what is refused in part is refused so whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Limits, parse_request};

fuzz_target!(|data: &[u8]| {
    let Some((cut, input)) = data.split_first() else { return };
    let limits = Limits { head_bytes: 4096, target_bytes: 1024, ..Limits::default() };
    let whole = parse_request(input, &limits);
    if let Err(reject) = parse_request(&input[..input.len() * usize::from(*cut) / 256], &limits) {
        assert_eq!(whole.err(), Some(reject), "the part is refused in another way");
        return;
    }
    let Ok(Some((head, length))) = whole else { return };
    assert!(length <= input.len() && input[..length].ends_with(b"\r\n\r\n"));
    assert!(head.path().starts_with('/') || head.target == "*");
    assert!(head.fields().all(|(name, value)| !name.is_empty() && !value.contains(&b'\n')));
    let hosts = head.values("host").count();
    assert!(hosts == 1 || (hosts == 0 && head.version == wire::Version::Http10));
    let both = head.field("transfer-encoding").is_some() && head.field("content-length").is_some();
    assert!(!both, "two ways to say how long the body is");
    let part = &input[..length * usize::from(*cut) / 256];
    assert!(matches!(parse_request(part, &limits), Ok(None)), "a part was not waited for");
    let longer = [&input[..length], b"GET / HTTP/1.1\r\n"].concat();
    let Ok(Some((again, same))) = parse_request(&longer, &limits) else { panic!("refused again") };
    assert_eq!(
        (same, again.target, again.framing, again.keep_alive),
        (length, head.target, head.framing, head.keep_alive)
    );
});
