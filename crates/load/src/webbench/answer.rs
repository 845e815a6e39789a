//! An answer as a blocking client reads it, up to the end of the connection: whether it is whole.

use wire::{AnswerFraming, ChunkedDecoder, parse_answer};

use crate::fault::Fault;

/// Longest head, in bytes.
const LONGEST_HEAD: usize = 64 * 1024;

/// What has come of an answer.
#[derive(Default)]
pub(super) struct Reading {
    /// What has come of a head that has not ended.
    head: Vec<u8>,
    /// Its status, once the head is there, and what is still to come.
    answer: Option<(u16, Rest)>,
}

/// What is still to come of an answer's content.
enum Rest {
    /// So many bytes.
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    /// All was there.
    None,
    /// Whatever comes: the end of the connection ends it too.
    UntilClose,
}

impl Reading {
    /// Takes what has come.
    ///
    /// # Errors
    /// It is no HTTP/1.
    pub(super) fn take(&mut self, piece: &[u8]) -> Result<(), Fault> {
        if let Some((_, rest)) = &mut self.answer {
            return rest.take(piece);
        }
        // Mostly a head comes in one piece.
        if self.head.is_empty() && self.take_head(piece)? {
            return Ok(());
        }
        self.head.extend_from_slice(piece);
        let head = std::mem::take(&mut self.head);
        if !self.take_head(&head)? {
            self.head = head;
        }
        if self.head.len() > LONGEST_HEAD { Err(Fault::Malformed) } else { Ok(()) }
    }

    /// Whether the head of the answer is whole, and then what follows it is taken.
    fn take_head(&mut self, mut input: &[u8]) -> Result<bool, Fault> {
        while let Some((head, length)) = parse_answer(input, false).map_err(|_| Fault::Malformed)? {
            input = &input[length..];
            // An interim answer (RFC 9110, 15.2) is followed by the final one.
            if head.code < 200 {
                continue;
            }
            let mut rest = match head.framing {
                AnswerFraming::None => Rest::None,
                AnswerFraming::Length(length) => Rest::Length(length),
                AnswerFraming::Chunked => Rest::Chunked(Box::new(ChunkedDecoder::new())),
                AnswerFraming::UntilClose => Rest::UntilClose,
            };
            rest.take(input)?;
            self.answer = Some((head.code, rest));
            return Ok(true);
        }
        Ok(false)
    }

    /// The status of the answer, where the connection has ended and all of it is there.
    ///
    /// # Errors
    /// Some of it is missing.
    pub(super) fn end(self) -> Result<u16, Fault> {
        match self.answer {
            Some((code, Rest::None | Rest::UntilClose | Rest::Length(0))) => Ok(code),
            Some(_) | None => Err(Fault::ShortResponse),
        }
    }
}

impl Rest {
    fn take(&mut self, mut piece: &[u8]) -> Result<(), Fault> {
        match self {
            Rest::Length(left) => *left = left.saturating_sub(piece.len() as u64),
            Rest::Chunked(decoder) => {
                while !piece.is_empty() {
                    let step = decoder.decode(piece).map_err(|_| Fault::Malformed)?;
                    piece = &piece[step.consumed..];
                    if step.done {
                        *self = Rest::None;
                        break;
                    }
                }
            }
            Rest::None | Rest::UntilClose => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made of an answer that comes in pieces of so many bytes.
    fn read(answer: &[u8], piece: usize) -> Result<u16, Fault> {
        let mut reading = Reading::default();
        answer.chunks(piece).try_for_each(|piece| reading.take(piece))?;
        reading.end()
    }

    #[test]
    fn an_answer_counts_only_where_all_of_it_has_come() {
        for (answer, expected) in [
            (&b"HTTP/1.0 404 Not Found\r\n\r\nuntil the end"[..], Ok(404)),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Ok(200)),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", Err(Fault::ShortResponse)),
            (b"HTTP/1.1 200 OK\r\nContent-Len", Err(Fault::ShortResponse)),
            (b"HTTP/1.1 204 No Content\r\n\r\n", Ok(204)),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", Ok(200)),
            (b"HTTP/1.1 100 Continue\r\n\r\n", Err(Fault::ShortResponse)),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", Ok(200)),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", Err(Fault::ShortResponse)),
            (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", Err(Fault::Malformed)),
        ] {
            for piece in [1, 7, 4096] {
                let shown = String::from_utf8_lossy(answer);
                assert_eq!(read(answer, piece), expected, "{shown:?} in pieces of {piece}");
            }
        }
        let endless = [&b"HTTP/1.1 200 OK\r\nX: "[..], &[b'x'; 100_000]].concat();
        assert_eq!(read(&endless, 4096), Err(Fault::Malformed));
    }
}
