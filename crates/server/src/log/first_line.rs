//! The first line of a request as the access log has it, also where it could not be read.

use wire::{RequestHead, Version};

/// What stands for a part that is not there.
const MISSING: &[u8] = b"-";

/// Most bytes of a method or a version that could not be read.
const WORD: usize = 32;

/// The parts of a request's first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FirstLine<'a> {
    pub(super) method: &'a [u8],
    pub(super) target: &'a [u8],
    pub(super) version: &'a [u8],
}

impl<'a> FirstLine<'a> {
    /// Of a head that was read.
    pub(super) fn of(head: &RequestHead<'a>) -> Self {
        let version: &[u8] = match head.version {
            Version::Http11 => b"HTTP/1.1",
            Version::Http10 => b"HTTP/1.0",
        };
        FirstLine { method: head.method_text.as_bytes(), target: head.target.as_bytes(), version }
    }

    /// Of what has come of one that could not: what stands before the first space and behind the last one, if that can be a
    /// method and a version, and what is between.
    pub(super) fn unread(input: &'a [u8]) -> Self {
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let start = input.iter().position(|byte| !is_end(byte)).unwrap_or(input.len());
        let line = input[start..].split(is_end).next().unwrap_or_default();
        let is_space = |byte: &u8| *byte == b' ';
        let is_method = |word: &[u8]| word.len() <= WORD && word.iter().all(u8::is_ascii_alphabetic);
        let (method, rest) = match line.iter().position(is_space) {
            Some(end) if is_method(&line[..end]) => (&line[..end], &line[end + 1..]),
            _ => (MISSING, line),
        };
        let (target, version) = match rest.iter().rposition(is_space) {
            Some(end) if method != MISSING && rest.len() - end <= WORD => (&rest[..end], &rest[end + 1..]),
            _ => (rest, MISSING),
        };
        let or_missing = |part: &'a [u8]| if part.is_empty() { MISSING } else { part };
        FirstLine { method: or_missing(method), target: or_missing(target), version: or_missing(version) }
    }
}
