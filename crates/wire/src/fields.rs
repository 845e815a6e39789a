//! What the fields of a message say about the message itself: its framing, its host, and its connection.

use crate::request::Asks;

/// Everything about framing and persistence that one pass over the fields of a message finds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Survey<'b> {
    pub(crate) host: Option<&'b [u8]>,
    pub(crate) hosts: u32,
    pub(crate) length: Option<u64>,
    /// A Content-Length that is no number, or more than one.
    pub(crate) bad_length: bool,
    pub(crate) coding: Option<Coding>,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) expect: Option<Expect>,
    pub(crate) asks: Asks,
}

/// What Transfer-Encoding says (RFC 9112, 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// `chunked`, and nothing else.
    Chunked,
    /// A coding that is not implemented here, with `chunked` last.
    Unknown,
    /// Not with `chunked` last, or with it twice: nobody can say where the message ends.
    NotFinal,
    /// A line without any, or with a comma too many. To pass over that would be within the rules for lists, but another parser
    /// may take the last line for all of them, or not know the value.
    Empty,
}

/// What Expect says (RFC 9110, 10.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    Continue,
    Unknown,
}

impl<'b> Survey<'b> {
    /// Takes one more field into account.
    #[inline]
    pub(crate) fn note(&mut self, name: &[u8], value: &'b [u8]) {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        // The length of the name tells most fields apart without a comparison.
        match name.len() {
            4 if is("host") => {
                self.hosts += 1;
                self.host = Some(value);
            }
            5 if is("range") => self.asks.range = true,
            6 if is("expect") => {
                let known =
                    value.eq_ignore_ascii_case(b"100-continue") && self.expect != Some(Expect::Unknown);
                self.expect = Some(if known { Expect::Continue } else { Expect::Unknown });
            }
            8 if is("if-match") => self.asks.conditional = true,
            10 if is("connection") => self.connection(value),
            13 if is("if-none-match") => self.asks.conditional = true,
            14 if is("content-length") => self.content_length(value),
            15 if is("accept-encoding") => self.asks.coding = true,
            17 if is("if-modified-since") => self.asks.conditional = true,
            17 if is("transfer-encoding") => self.transfer_encoding(value),
            19 if is("if-unmodified-since") => self.asks.conditional = true,
            _ => {}
        }
    }

    fn connection(&mut self, value: &[u8]) {
        for option in list(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn content_length(&mut self, value: &[u8]) {
        let length = decimal(value);
        // Also a repetition of the same number is refused: no client needs it, and it is a known way to make
        // two parsers disagree.
        self.bad_length |= length.is_none() || self.length.is_some();
        self.length = length;
    }

    fn transfer_encoding(&mut self, value: &[u8]) {
        if value.split(|byte| *byte == b',').any(|member| member.trim_ascii().is_empty()) {
            self.coding = Some(Coding::Empty);
        }
        for coding in list(value) {
            self.coding = Some(match (self.coding, coding.eq_ignore_ascii_case(b"chunked")) {
                (Some(Coding::Empty), _) => Coding::Empty,
                (None, true) => Coding::Chunked,
                (None, false) => Coding::NotFinal,
                // Something behind `chunked`, or `chunked` again.
                (Some(Coding::Chunked | Coding::Unknown), _) => return self.coding = Some(Coding::NotFinal),
                (Some(Coding::NotFinal), true) => Coding::Unknown,
                (Some(Coding::NotFinal), false) => Coding::NotFinal,
            });
        }
    }
}

/// The members of a comma-separated list (RFC 9110, 5.6.1), without white space and empty ones.
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// A number of digits only: no sign, no space, no overflow.
pub(crate) fn decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}
