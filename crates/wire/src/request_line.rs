//! The first line of a request: method, target and version (RFC 9112, section 3).

use crate::lines::{Halt, Lines};
use crate::request::{Fault, Limits, Reject, Version};
use crate::response::is_token_byte;
use crate::status::Status;

/// Longest method. Of those that are registered (IANA, Hypertext Transfer Protocol Method Registry) the longest is
/// UPDATEREDIRECTREF.
const METHOD_BYTES: usize = 32;

const METHOD_TOO_LONG: Reject =
    Reject { status: Status::NOT_IMPLEMENTED, reason: "the method is longer than any that is known" };

const TARGET_TOO_LONG: Reject = Reject { status: Status::URI_TOO_LONG, reason: "the target is too long" };

/// The parts of a request line.
pub(crate) struct RequestLine<'b> {
    pub(crate) method: &'b str,
    pub(crate) target: &'b str,
    pub(crate) version: Version,
}

impl<'b> RequestLine<'b> {
    /// Reads a request line.
    pub(crate) fn read(lines: &mut Lines<'b>, limits: &Limits) -> Result<Self, Fault> {
        const MALFORMED: &str = "the request line is malformed";
        let line = lines.rest();
        let method = within(METHOD_BYTES, lines.word(is_token_byte), line, METHOD_TOO_LONG)?;
        // Before what follows is waited for.
        if method == 0 {
            return Err(Reject::bad(MALFORMED).into());
        }
        lines.literal(b" ", MALFORMED)?;
        let rest = lines.rest();
        // A byte outside of ASCII belongs to no target; but clients send it, and it does no harm.
        let target = within(limits.target_bytes, lines.visible(), rest, TARGET_TOO_LONG)?;
        if target == 0 {
            return Err(Reject::bad(MALFORMED).into());
        }
        lines.literal(b" ", MALFORMED)?;
        let text = str::from_utf8(&line[..method + 1 + target]).map_err(|_| Reject::bad(MALFORMED))?;
        Ok(RequestLine { method: &text[..method], target: &text[method + 1..], version: version(lines)? })
    }
}

/// The length of a part of the line that may have at most so many bytes. One that has more is refused as soon as that can be
/// seen, whether or not its end has come: the answer must not depend on how the line is cut into packets.
#[inline]
fn within(most: usize, part: Result<&[u8], Halt>, rest: &[u8], too_long: Reject) -> Result<usize, Fault> {
    match part {
        Ok(part) if part.len() <= most => Ok(part.len()),
        Err(halt) if rest.len() <= most => Err(halt.into()),
        _ => Err(too_long.into()),
    }
}

/// Reads the version and the end of the line. A later minor version is read as 1.1, the highest that is spoken here (RFC
/// 9110, 2.5); another major version is refused (15.6.6).
fn version(lines: &mut Lines<'_>) -> Result<Version, Fault> {
    const MALFORMED: &str = "the version is malformed";
    // What nearly every request says is one comparison.
    if lines.skip(b"HTTP/1.1\r\n") {
        return Ok(Version::Http11);
    }
    lines.literal(b"HTTP/", MALFORMED)?;
    let major = lines.digit(MALFORMED)?;
    lines.literal(b".", MALFORMED)?;
    let minor = lines.digit(MALFORMED)?;
    lines.line_end()?;
    match (major, minor) {
        (1, 0) => Ok(Version::Http10),
        (1, _) => Ok(Version::Http11),
        _ => {
            Err(Reject { status: Status::VERSION_NOT_SUPPORTED, reason: "only HTTP/1 is spoken here" }.into())
        }
    }
}
