//! The lines of a message's head, told apart in one pass over its bytes (RFC 9112, sections 2 to 5).

use crate::response::is_token_byte;

/// Why a head cannot be read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The rest of it has not come yet.
    Incomplete,
    /// It breaks a rule.
    Malformed(&'static str),
}

/// Which bytes end a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnd {
    /// CRLF alone. A proxy in front may not take LF for a line's end, and then two would disagree on where a message ends
    /// (RFC 9112, 2.2 lets us refuse it).
    Strict,
    /// LF as well.
    Lenient,
}

/// The name and the value of a field.
pub(crate) type Field<'b> = (&'b [u8], &'b [u8]);

/// What is still to be read of a head. What is wrong is found as soon as the input shows it.
pub(crate) struct Lines<'b> {
    rest: &'b [u8],
    end: LineEnd,
}

impl<'b> Lines<'b> {
    pub(crate) fn new(input: &'b [u8], end: LineEnd) -> Self {
        Lines { rest: input, end }
    }

    /// What is still to be read.
    #[inline]
    pub(crate) fn rest(&self) -> &'b [u8] {
        self.rest
    }

    /// Passes over the empty lines that some clients send behind a body (RFC 9112, 2.2).
    #[inline]
    pub(crate) fn skip_empty(&mut self) -> Result<(), Halt> {
        while let [b'\r' | b'\n', ..] = self.rest {
            self.line_end()?;
        }
        Ok(())
    }

    /// The bytes up to the first that does not belong to them.
    #[inline]
    pub(crate) fn word(&mut self, belongs: impl Fn(u8) -> bool) -> Result<&'b [u8], Halt> {
        let length = self.rest.iter().position(|byte| !belongs(*byte)).ok_or(Halt::Incomplete)?;
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(word)
    }

    /// The bytes up to the first white space or control character.
    #[inline]
    pub(crate) fn visible(&mut self) -> Result<&'b [u8], Halt> {
        let length = printable_length::<b'!'>(self.rest);
        if length == self.rest.len() {
            return Err(Halt::Incomplete);
        }
        let (visible, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(visible)
    }

    /// Passes over these bytes, if they come now.
    #[inline]
    pub(crate) fn skip(&mut self, bytes: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(bytes);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Passes over these bytes, which must come now.
    #[inline]
    pub(crate) fn literal(&mut self, bytes: &[u8], otherwise: &'static str) -> Result<(), Halt> {
        if self.skip(bytes) {
            return Ok(());
        }
        Err(if bytes.starts_with(self.rest) { Halt::Incomplete } else { Halt::Malformed(otherwise) })
    }

    /// The value of a digit, which must come now.
    pub(crate) fn digit(&mut self, otherwise: &'static str) -> Result<u8, Halt> {
        match self.rest {
            [digit @ b'0'..=b'9', rest @ ..] => {
                self.rest = rest;
                Ok(digit - b'0')
            }
            [] => Err(Halt::Incomplete),
            _ => Err(Halt::Malformed(otherwise)),
        }
    }

    /// Passes over the end of a line.
    #[inline]
    pub(crate) fn line_end(&mut self) -> Result<(), Halt> {
        match self.rest {
            [b'\r', b'\n', rest @ ..] => self.rest = rest,
            [b'\n', rest @ ..] if self.end == LineEnd::Lenient => self.rest = rest,
            [] | [b'\r'] => return Err(Halt::Incomplete),
            [b'\n', ..] => return Err(Halt::Malformed("a line ends with LF alone")),
            _ => return Err(Halt::Malformed("a line does not end with CRLF")),
        }
        Ok(())
    }

    /// The name and the value of the next field; `None` at the end of the head (RFC 9112, section 5).
    #[inline]
    pub(crate) fn field(&mut self) -> Result<Option<Field<'b>>, Halt> {
        if let [b'\r' | b'\n', ..] = self.rest {
            return self.line_end().map(|()| None);
        }
        let name = self.word(is_token_byte)?;
        if name.is_empty() {
            return Err(Halt::Malformed("the name of a field is malformed"));
        }
        self.literal(b":", "the name of a field is malformed")?;
        let (value, rest) = self.rest.split_at(value_length(self.rest));
        self.rest = rest;
        if let [byte, ..] = rest
            && !matches!(byte, b'\r' | b'\n')
        {
            return Err(Halt::Malformed("the value of a field is malformed"));
        }
        self.line_end()?;
        Ok(Some((name, value.trim_ascii())))
    }
}

/// The fields in lines that were read before.
pub(crate) fn fields(lines: &[u8]) -> impl Iterator<Item = (&str, &[u8])> {
    each(lines).filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        // A name is of ASCII.
        Some((str::from_utf8(&line[..colon]).ok()?, line[colon + 1..].trim_ascii()))
    })
}

/// The values of the fields of this name, in any case, in lines that were read before.
pub(crate) fn values<'b>(lines: &'b [u8], name: &str) -> impl Iterator<Item = &'b [u8]> {
    each(lines).filter_map(move |line| value(line, name))
}

/// The values of the first fields of these names, in any case, in lines that were read before: in one pass over them.
pub(crate) fn first_values<'b, const N: usize>(lines: &'b [u8], names: [&str; N]) -> [Option<&'b [u8]>; N] {
    let mut values = [None; N];
    for line in each(lines) {
        for (first, name) in values.iter_mut().zip(names) {
            *first = first.or_else(|| value(line, name));
        }
    }
    values
}

/// The value of the field in a line, if it is of this name.
fn value<'b>(line: &'b [u8], name: &str) -> Option<&'b [u8]> {
    let (other, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    other.eq_ignore_ascii_case(name.as_bytes()).then(|| value.trim_ascii())
}

/// The lines, each with what ends it.
fn each(mut lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (line, rest) = lines.split_at_checked(memchr::memchr(b'\n', lines)? + 1)?;
        lines = rest;
        Some(line)
    })
}

/// Bytes up to the first that cannot be in a field's value: a control character, tabs excepted (RFC 9110, 5.5).
fn value_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    loop {
        length += printable_length::<b' '>(&bytes[length..]);
        match bytes.get(length) {
            Some(b'\t') => length += 1,
            _ => return length,
        }
    }
}

/// Bytes up to the first that comes before `LEAST` in ASCII, or is DEL; eight at a time.
#[inline]
fn printable_length<const LEAST: u8>(bytes: &[u8]) -> usize {
    let (eights, rest) = bytes.as_chunks::<8>();
    for (at, eight) in eights.iter().enumerate() {
        let others = others::<LEAST>(u64::from_le_bytes(*eight));
        if others != 0 {
            return at * 8 + others.trailing_zeros() as usize / 8;
        }
    }
    let is_other = |byte: &u8| *byte < LEAST || *byte == DEL;
    eights.len() * 8 + rest.iter().position(is_other).unwrap_or(rest.len())
}

const DEL: u8 = 0x7f;

/// The highest bit of each of eight bytes that comes before `LEAST` in ASCII, or is DEL. Above the first of them a byte may
/// be marked that is neither. (S. E. Anderson, Bit Twiddling Hacks: "Determine if a word has a byte less than n".)
#[inline]
fn others<const LEAST: u8>(bytes: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    let below = bytes.wrapping_sub(ONES * LEAST as u64) & !bytes;
    let flipped = bytes ^ (ONES * DEL as u64);
    let is_del = flipped.wrapping_sub(ONES) & !flipped;
    (below | is_del) & (ONES * 0x80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_at_the_first_control_character_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            for length in 0..20 {
                for filling in [b' ', b'~', b'\t', 0x80, 0xff] {
                    let mut bytes = vec![filling; length];
                    bytes.push(byte);
                    bytes.extend([b'x'; 9]);
                    let is_end = byte.is_ascii_control() && byte != b'\t';
                    let expected = if is_end { length } else { bytes.len() };
                    assert_eq!(value_length(&bytes), expected, "{}", bytes.escape_ascii());
                }
            }
        }
    }

    #[test]
    fn lines_may_end_with_lf_where_that_is_allowed() {
        let text = b"\nA: b\nC:\td \r\n\n rest";
        let mut lines = Lines::new(text, LineEnd::Lenient);
        lines.skip_empty().unwrap();
        assert_eq!(lines.field(), Ok(Some((&b"A"[..], &b"b"[..]))));
        assert_eq!(lines.field(), Ok(Some((&b"C"[..], &b"d"[..]))));
        assert_eq!((lines.field(), lines.rest()), (Ok(None), &b" rest"[..]));
        let mut strict = Lines::new(text, LineEnd::Strict);
        assert_eq!(strict.skip_empty(), Err(Halt::Malformed("a line ends with LF alone")));
    }

    #[test]
    fn what_was_read_is_found_again() {
        let text = b"Host: a\r\nX-Empty:\r\nX-Colons: b: c \xe9\r\n";
        let found: Vec<_> = fields(text).collect();
        assert_eq!(found, [("Host", &b"a"[..]), ("X-Empty", b""), ("X-Colons", b"b: c \xe9")]);
        let value = |name| values(text, name).collect::<Vec<_>>();
        assert_eq!((value("HOST"), value("x-empty")), (vec![&b"a"[..]], vec![&b""[..]]));
        assert_eq!((value("X-Colons"), value("X")), (vec![&b"b: c \xe9"[..]], vec![]));
        let twice = [&text[..], b"host: b\r\n"].concat();
        let found = first_values(&twice, ["x-colons", "HOST", "X"]);
        assert_eq!(found, [Some(&b"b: c \xe9"[..]), Some(b"a"), None]);
    }
}
