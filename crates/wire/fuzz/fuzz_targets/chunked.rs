//! Chunked bodies: the first byte says how large the packets are. However the input is cut up, the content and the end are
//! the same, and nothing stands still.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{ChunkError, ChunkedDecoder};

/// The content, and how much was consumed; `None` if the end has not come.
fn decode(input: &[u8], packet: usize) -> Result<Option<(Vec<u8>, usize)>, ChunkError> {
    let (mut decoder, mut content, mut consumed, mut shown) = (ChunkedDecoder::new(), Vec::new(), 0, 0);
    loop {
        let step = decoder.decode(&input[consumed..shown])?;
        content.extend_from_slice(&input[consumed..shown][step.data.clone()]);
        consumed += step.consumed;
        if step.done {
            return Ok(Some((content, consumed)));
        }
        if step.consumed == 0 || consumed == shown {
            if shown == input.len() {
                return Ok(None);
            }
            shown = (shown + packet).min(input.len());
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((packet, input)) = data.split_first() else { return };
    let whole = decode(input, input.len().max(1));
    assert_eq!(whole, decode(input, usize::from(*packet).max(1)));
    if let Ok(Some((content, consumed))) = whole {
        assert!(content.len() < consumed && input[..consumed].ends_with(b"\n"));
    }
});
