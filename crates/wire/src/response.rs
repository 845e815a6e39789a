//! Writing the head of a response.

use crate::date::DateField;
use crate::status::Status;

/// Where bytes are put; it has been given enough room.
pub trait Sink {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A field name or value that would break the message (RFC 9110, 5.1 and 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadField;

/// Puts the status line.
pub fn put_status_line(sink: &mut impl Sink, status: Status) {
    match status.line() {
        Some(line) => sink.put(line),
        None => {
            sink.put(b"HTTP/1.1 ");
            put_decimal(sink, status.code().into());
            // The space stays also where the reason is empty (RFC 9112, 4).
            sink.put(b" \r\n");
        }
    }
}

/// Puts a field line.
///
/// # Errors
/// The name is not a token, or the value holds a control byte: nothing is put. Text from outside must not be
/// able to end a line and begin a field of its own.
pub fn put_field(sink: &mut impl Sink, name: &str, value: &[u8]) -> Result<(), BadField> {
    if !is_token(name) || value.iter().any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f) {
        return Err(BadField);
    }
    sink.put(name.as_bytes());
    sink.put(b": ");
    sink.put(value);
    sink.put(b"\r\n");
    Ok(())
}

/// Most digits of a number.
const MOST_DIGITS: usize = u64::MAX.ilog10() as usize + 1;

/// Puts the `Content-Length` field line.
pub fn put_content_length(sink: &mut impl Sink, length: u64) {
    const NAME: &[u8] = b"Content-Length: ";
    // Put together from its end, so that it is put once.
    let mut line = [0; NAME.len() + MOST_DIGITS + 2];
    let end = line.len() - 2;
    line[end..].copy_from_slice(b"\r\n");
    let digits = write_digits(&mut line[..end], length);
    let start = digits - NAME.len();
    line[start..digits].copy_from_slice(NAME);
    sink.put(&line[start..]);
}

/// Puts the `Date` field line.
pub fn put_date(sink: &mut impl Sink, date: &DateField) {
    sink.put(date.line());
}

/// Whether this is a token, as the names of fields and of charsets are (RFC 9110, 5.6.2).
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

/// A byte of a token.
pub(crate) fn is_token_byte(byte: u8) -> bool {
    const TABLE: [bool; 256] = byte_table(b"!#$%&'*+-.^_`|~");
    TABLE[usize::from(byte)]
}

/// Which bytes are letters, digits, or one of `others`.
pub(crate) const fn byte_table(others: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
}

/// Puts a number; `write!` takes several times as long.
pub fn put_decimal(sink: &mut impl Sink, number: u64) {
    let mut line = [0; MOST_DIGITS];
    let start = write_digits(&mut line, number);
    sink.put(&line[start..]);
}

/// Writes the digits of a number at the end of a line that has room for them, and says where they begin.
#[inline]
fn write_digits(line: &mut [u8], mut number: u64) -> usize {
    let mut start = line.len();
    for digit in line.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        start -= 1;
        if number == 0 {
            break;
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut sink = Vec::new();
        write(&mut sink);
        String::from_utf8(sink).unwrap()
    }

    #[test]
    fn status_lines() {
        assert_eq!(put(|sink| put_status_line(sink, Status::NOT_FOUND)), "HTTP/1.1 404 Not Found\r\n");
        let strange = Status::from_code(299).unwrap();
        assert_eq!(put(|sink| put_status_line(sink, strange)), "HTTP/1.1 299 \r\n");
        assert_eq!((Status::from_code(99), Status::from_code(1000)), (None, None));
    }

    #[test]
    fn lengths() {
        for length in [0, 9, 10, 1024, u64::MAX] {
            assert_eq!(put(|sink| put_content_length(sink, length)), format!("Content-Length: {length}\r\n"));
        }
    }

    #[test]
    fn a_field_cannot_begin_another() {
        let mut sink = Vec::new();
        for (name, value) in [
            ("A", "x\r\nB: y"),
            ("A", "x\n"),
            ("A", "\0"),
            ("A", "\x7f"),
            ("A b", "x"),
            ("", "x"),
            ("A:", "x"),
        ] {
            assert_eq!(put_field(&mut sink, name, value.as_bytes()), Err(BadField), "{name:?} {value:?}");
        }
        assert!(sink.is_empty());
        put_field(&mut sink, "X-Note", b"a\tb \xc3\xa9").unwrap();
        assert_eq!(sink, b"X-Note: a\tb \xc3\xa9\r\n");
    }
}
