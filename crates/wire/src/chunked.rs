//! Chunked bodies (RFC 9112, 7.1), decoded as they come, without a buffer.

use crate::request::MOST_FIELDS;
use crate::response::is_token_byte;

/// Most bytes of the extensions of one chunk; nobody uses them, and attackers send megabytes (CVE-2023-39326).
const EXTENSION: u32 = 256;
/// Most bytes of all the extensions of one body.
const EXTENSIONS: u32 = 16 * 1024;
/// Most bytes of the trailer section. It has no more lines than a head.
const TRAILERS: u32 = 16 * 1024;

/// A body that is not chunked as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkError(pub &'static str);

/// What one look at the input came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that are done with; the rest must be shown again, with more behind it.
    pub consumed: usize,
    /// The part of the consumed input that is content, if any.
    pub data: std::ops::Range<usize>,
    /// The body is complete, trailers included.
    pub done: bool,
}

/// Decodes one body.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    extensions: u32,
    /// Lines of the trailer section.
    trailers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the digits of a chunk's size.
    Size {
        size: u64,
        digits: u8,
    },
    /// In the white space before a chunk's extensions, this long so far.
    Space {
        size: u64,
        length: u32,
    },
    /// In a chunk's extensions, this long so far.
    Extension {
        size: u64,
        length: u32,
    },
    /// Before the LF that ends a chunk's first line.
    SizeLf {
        size: u64,
    },
    /// In a chunk's content.
    Data {
        left: u64,
    },
    /// Before the CR behind a chunk's content.
    DataCr,
    /// Before the LF behind a chunk's content.
    DataLf,
    /// At the start of a line of the trailer section, which is this long so far.
    TrailerStart {
        length: u32,
    },
    /// In the name of a trailer.
    TrailerName {
        length: u32,
    },
    /// In the value of a trailer.
    TrailerValue {
        length: u32,
    },
    /// Before the LF that ends a line of the trailer section.
    TrailerLf {
        length: u32,
    },
    /// Before the LF of the empty line that ends the body.
    LastLf,
    Done,
}

impl Default for ChunkedDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ChunkedDecoder {
    /// At the start of a body.
    pub fn new() -> Self {
        ChunkedDecoder { state: State::Size { size: 0, digits: 0 }, extensions: 0, trailers: 0 }
    }

    /// Reads on: over framing up to the next content, which is then given as one range, or to the end of the
    /// input or of the body.
    ///
    /// # Errors
    /// The grammar is broken, or a bound is passed; the connection must end, since nobody can say any more
    /// where the next message begins.
    pub fn decode(&mut self, input: &[u8]) -> Result<Step, ChunkError> {
        let mut at = 0;
        while at < input.len() && self.state != State::Done {
            if let State::Data { left } = self.state {
                let n = (input.len() - at).min(usize::try_from(left).unwrap_or(usize::MAX));
                let left = left - n as u64;
                self.state = if left == 0 { State::DataCr } else { State::Data { left } };
                return Ok(Step { consumed: at + n, data: at..at + n, done: false });
            }
            self.state = self.next(input[at])?;
            at += 1;
        }
        Ok(Step { consumed: at, data: at..at, done: self.state == State::Done })
    }

    /// The state behind one byte of framing.
    fn next(&mut self, byte: u8) -> Result<State, ChunkError> {
        use State::*;
        let bad = |reason| Err(ChunkError(reason));
        Ok(match (self.state, byte) {
            (Size { size, digits }, digit) if digit.is_ascii_hexdigit() => {
                if digits == 16 {
                    return bad("the size of a chunk does not fit in 64 bits");
                }
                let digit = (digit as char).to_digit(16).unwrap_or(0);
                Size { size: size << 4 | u64::from(digit), digits: digits + 1 }
            }
            (Size { digits: 0, .. }, _) => return bad("a chunk begins without a size"),
            (Size { size, .. }, b'\r') => SizeLf { size },
            (Size { size, .. }, b';') => Extension { size, length: 0 },
            // White space may stand before the semicolon, though none should send it (7.1.1; RFC 9110, 5.6.3); it says
            // nothing where no extension follows.
            (Size { size, .. }, b' ' | b'\t') => Space { size, length: self.longer(0)? },
            (Space { size, length }, b' ' | b'\t') => Space { size, length: self.longer(length)? },
            (Space { size, length }, b';') => Extension { size, length },
            (Size { .. } | Space { .. }, _) => return bad("the size of a chunk is malformed"),
            (Extension { size, .. }, b'\r') => SizeLf { size },
            (Extension { size, length }, byte) if is_text(byte) => {
                Extension { size, length: self.longer(length)? }
            }
            (SizeLf { size: 0 }, b'\n') => TrailerStart { length: 0 },
            (SizeLf { size }, b'\n') => Data { left: size },
            (DataCr, b'\r') => DataLf,
            (DataLf, b'\n') => Size { size: 0, digits: 0 },
            (TrailerStart { .. }, b'\r') => LastLf,
            (TrailerValue { length }, b'\r') => TrailerLf { length },
            (TrailerStart { length } | TrailerName { length } | TrailerValue { length }, _) => {
                self.trailer(byte, length)?
            }
            (TrailerLf { length }, b'\n') => TrailerStart { length },
            (LastLf, b'\n') => Done,
            (SizeLf { .. } | DataLf | TrailerLf { .. } | LastLf, _) => return bad("a CR without its LF"),
            (DataCr, _) => return bad("a chunk is longer than its size says"),
            _ => return bad("a control byte in the framing of a chunk"),
        })
    }

    /// The state behind one byte of a line of the trailer section. They are field lines, as those of a head are: another
    /// parser may take anything else for the next request.
    fn trailer(&mut self, byte: u8, length: u32) -> Result<State, ChunkError> {
        use State::*;
        if length == TRAILERS {
            return Err(ChunkError("the trailers are too long"));
        }
        let length = length + 1;
        match (self.state, byte) {
            (TrailerStart { .. }, byte) if is_token_byte(byte) => {
                self.trailers += 1;
                if self.trailers > MOST_FIELDS {
                    return Err(ChunkError("there are too many trailers"));
                }
                Ok(TrailerName { length })
            }
            (TrailerName { .. }, b':') => Ok(TrailerValue { length }),
            (TrailerName { .. }, byte) if is_token_byte(byte) => Ok(TrailerName { length }),
            (TrailerValue { .. }, byte) if is_text(byte) => Ok(TrailerValue { length }),
            (TrailerValue { .. }, _) => Err(ChunkError("a control byte in a trailer")),
            _ => Err(ChunkError("the name of a trailer is malformed")),
        }
    }

    /// The length of a chunk's extensions with one more byte.
    fn longer(&mut self, length: u32) -> Result<u32, ChunkError> {
        self.extensions += 1;
        if length == EXTENSION || self.extensions > EXTENSIONS {
            return Err(ChunkError("the extensions of a chunk are too long"));
        }
        Ok(length + 1)
    }
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}
