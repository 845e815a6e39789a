//! What an answer must be to count as one: its status, the length of its content, its hash.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

use crate::fault::Fault;
use crate::plan::Expect;

/// What is expected of every answer.
pub(crate) struct Expected {
    statuses: Vec<u16>,
    length: Option<u64>,
    sha256: Option<[u8; 32]>,
}

impl Expected {
    /// What a plan expects, which has been validated.
    pub(crate) fn new(expect: &Expect) -> Self {
        let sha256 = expect.sha256.as_deref().and_then(parse_sha256);
        Expected { statuses: expect.statuses.clone(), length: expect.length, sha256 }
    }

    /// What is wrong with an answer.
    pub(crate) fn wrong(&self, code: u16, body: Body, to_head: bool) -> Option<Fault> {
        if !self.statuses.is_empty() && !self.statuses.contains(&code) {
            return Some(Fault::BadStatus);
        }
        // The answer to HEAD has no content, and neither has "not modified" (RFC 9110, 6.4.1).
        let right = to_head
            || code == 304
            || self.length.is_none_or(|length| length == body.length)
                && self.sha256.is_none_or(|sha256| body.sha256() == Some(sha256));
        (!right).then_some(Fault::BadBody)
    }
}

/// The content of an answer as it comes.
pub(crate) struct Body {
    length: u64,
    /// In a box, since most loads have none and each connection has room for it.
    hash: Option<Box<Sha256>>,
}

impl Body {
    /// Nothing so far.
    pub(crate) fn of(expected: &Expected) -> Self {
        Body { length: 0, hash: expected.sha256.map(|_| Box::default()) }
    }

    /// The next bytes.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
    }

    fn sha256(self) -> Option<[u8; 32]> {
        Some((*self.hash?).finalize().into())
    }
}

/// The SHA-256 of some content, as sha256sum prints it.
///
/// # Errors
/// It cannot be read.
pub fn sha256_of(mut content: impl Read) -> io::Result<String> {
    let mut hash = Sha256::default();
    let mut bytes = vec![0; 1 << 16];
    loop {
        match content.read(&mut bytes)? {
            0 => break,
            count => hash.update(&bytes[..count]),
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Reads 64 hexadecimal digits, as sha256sum prints them.
pub(crate) fn parse_sha256(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(expect: &Expect, code: u16, content: &[u8]) -> Option<Fault> {
        let expected = Expected::new(expect);
        let mut body = Body::of(&expected);
        content.chunks(2).for_each(|bytes| body.take(bytes));
        expected.wrong(code, body, false)
    }

    #[test]
    fn status_length_and_hash_are_looked_at() {
        assert_eq!(wrong(&Expect::default(), 500, b"x"), None);
        let statuses = Expect { statuses: vec![200, 304], ..Expect::default() };
        assert_eq!([200, 304].map(|code| wrong(&statuses, code, b"")), [None, None]);
        assert_eq!(wrong(&statuses, 404, b""), Some(Fault::BadStatus));
        let length = Expect { length: Some(5), ..Expect::default() };
        assert_eq!(wrong(&length, 200, b"hello"), None);
        assert_eq!(wrong(&length, 200, b"hell"), Some(Fault::BadBody));
        // printf hello | sha256sum
        let sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        assert_eq!(sha256_of(&b"hello"[..]).unwrap(), sha256);
        let hash = Expect { sha256: Some(sha256.into()), ..Expect::default() };
        assert_eq!(wrong(&hash, 200, b"hello"), None);
        assert_eq!(wrong(&hash, 200, b"hellO"), Some(Fault::BadBody));
        assert_eq!(wrong(&hash, 304, b""), None);
    }

    #[test]
    fn a_hash_is_sixty_four_hexadecimal_digits() {
        assert!(parse_sha256(&"0f".repeat(32)).is_some());
        for bad in ["", "0f", &"0g".repeat(32), &"é".repeat(32)] {
            assert_eq!(parse_sha256(bad), None);
        }
    }
}
