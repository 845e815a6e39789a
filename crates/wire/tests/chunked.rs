//! Chunked bodies: the same content whatever the packets, and no mercy for what is not quite the grammar.

use proptest::prelude::*;
use wire::{ChunkError, ChunkedDecoder};

/// Decodes a body that comes in the given packets: its content, and how many bytes it took.
fn decode(packets: &[&[u8]]) -> Result<Option<(Vec<u8>, usize)>, ChunkError> {
    let mut decoder = ChunkedDecoder::new();
    let (mut content, mut taken) = (Vec::new(), 0);
    for packet in packets {
        let mut rest = *packet;
        loop {
            let step = decoder.decode(rest)?;
            content.extend_from_slice(&rest[step.data.clone()]);
            taken += step.consumed;
            rest = &rest[step.consumed..];
            if step.done {
                return Ok(Some((content, taken)));
            }
            if rest.is_empty() {
                break;
            }
        }
    }
    Ok(None)
}

#[test]
fn bodies_end_where_they_say() {
    for (body, content) in [
        ("0\r\n\r\n", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("00005\r\nhello\r\n1;a=b;c=\"d\"\r\n!\r\n0;x\r\nTrailer: t\r\nOther: u\r\n\r\n", "hello!"),
        // White space before an extension is to be read over (RFC 9112, 7.1.1; RFC 9110, 5.6.3).
        ("5 ;x=y\r\nhello\r\n1\t \t; a = b\r\n!\r\n0 ;\r\n\r\n", "hello!"),
        // A trailer may have no value, and any byte but controls in it.
        ("0\r\nA:\r\nb-C:\t d: e \u{e9} \r\n\r\n", ""),
        ("A\r\n0123456789\r\na\r\nabcdefghij\r\n0\r\n\r\n", "0123456789abcdefghij"),
    ] {
        let with_more = format!("{body}GET / HTTP/1.1\r\n");
        let expected = Some((content.as_bytes().to_vec(), body.len()));
        assert_eq!(decode(&[with_more.as_bytes()]), Ok(expected), "{body:?}");
        assert_eq!(decode(&[&body.as_bytes()[..body.len() - 1]]), Ok(None), "{body:?}");
    }
}

#[test]
fn what_is_not_the_grammar_is_refused() {
    let long_extension = format!("1;{}\r\n", "x".repeat(257));
    let many_extensions = format!("1;{}\r\nx\r\n", "x".repeat(250)).repeat(70);
    let long_space = format!("1{};x\r\n", " ".repeat(257));
    let many_spaces = format!("1{};x\r\nx\r\n", " ".repeat(249)).repeat(70);
    let long_trailer = format!("0\r\nT: {}", "x".repeat(17_000));
    let long_trailers = format!("0\r\n{}", format!("T: {}\r\n", "x".repeat(996)).repeat(17));
    let many_trailers = format!("0\r\n{}", "T: x\r\n".repeat(101));
    for body in [
        "\r\n",
        "x\r\n",
        "-1\r\n",
        "+1\r\n",
        "0x1\r\n",
        " 1\r\n",
        "1 \r\n",
        "1 \n",
        "1 1\r\n",
        "1 a;b\r\n",
        &long_space,
        &many_spaces,
        "1\n",
        "1\rx",
        "1\r\nab",
        "1\r\na\n",
        "1\r\na\rb",
        "10000000000000000\r\n",
        "1;\0\r\n",
        "1;a\nb",
        "0\r\n\n",
        "0\r\nT: \x01",
        &long_extension,
        &many_extensions,
        &long_trailer,
        &long_trailers,
        &many_trailers,
        // Lines that are no fields.
        "0\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n",
        "0\r\n folded",
        "0\r\nT: x\r\n\tfolded",
        "0\r\nContent-Length : 5\r\n\r\n",
        "0\r\nno colon\r\n\r\n",
        "0\r\nno-colon\r\n\r\n",
        "0\r\n: x\r\n\r\n",
        "0\r\nT: x\n",
    ] {
        assert!(decode(&[body.as_bytes()]).is_err(), "{body:.60?}");
    }
}

#[test]
fn as_many_trailers_are_read_over_as_a_head_may_have_fields() {
    let body = format!("0\r\n{}\r\n", format!("T: {}\r\n", "x".repeat(155)).repeat(100));
    assert_eq!(decode(&[body.as_bytes()]), Ok(Some((Vec::new(), body.len()))));
}

proptest! {
    #[test]
    fn any_content_in_any_chunks_and_packets_comes_through(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..50), 0..10),
        cuts in proptest::collection::vec(1usize..40, 0..30),
    ) {
        let mut body = Vec::new();
        for chunk in &chunks {
            body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            body.extend_from_slice(chunk);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\n\r\n");
        let mut rest = &body[..];
        let mut packets = Vec::new();
        for cut in cuts {
            let (packet, behind) = rest.split_at(cut.min(rest.len()));
            packets.push(packet);
            rest = behind;
        }
        packets.push(rest);
        prop_assert_eq!(decode(&packets), Ok(Some((chunks.concat(), body.len()))));
    }

    #[test]
    fn no_bytes_make_it_panic_or_stand_still(bytes in proptest::collection::vec(any::<u8>(), 1..200)) {
        let mut decoder = ChunkedDecoder::new();
        let mut rest = &bytes[..];
        while let Ok(step) = decoder.decode(rest) {
            prop_assert!(step.consumed > 0 || step.done || rest.is_empty());
            rest = &rest[step.consumed..];
            if step.done || rest.is_empty() {
                break;
            }
        }
    }
}
