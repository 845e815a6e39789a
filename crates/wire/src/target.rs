//! From the path of a request to the path of a file: decoded once, normalised, and safe to open beneath a root.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The path cannot name a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// A `%` without two hexadecimal digits behind it.
    BadEscape,
    /// A NUL or another control byte, a backslash, or an encoded slash: nobody writes these, and programs
    /// disagree on what they mean.
    ForbiddenByte,
    /// It does not begin with a slash.
    NotAbsolute,
    /// Its `..` segments climb above the root.
    AboveRoot,
}

/// Decodes a path of origin-form and appends it to `out` as a path relative to the root: no leading slash, no
/// empty, `.` or `..` segments (RFC 3986, 5.2.4). A slash at the end stays, and says that a directory is meant;
/// the root itself is empty.
///
/// # Errors
/// See [`PathError`]; `out` then holds no path.
pub fn decode_path(path: &str, out: &mut Vec<u8>) -> Result<(), PathError> {
    let path = path.strip_prefix('/').ok_or(PathError::NotAbsolute)?;
    check_escapes(path.as_bytes())?;
    let start = out.len();
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        let at = out.len();
        out.extend(percent_decode_str(segment));
        let decoded = &out[at..];
        if decoded.iter().any(|byte| *byte < b' ' || matches!(byte, 0x7f | b'/' | b'\\')) {
            return Err(PathError::ForbiddenByte);
        }
        match decoded {
            b"" | b"." => out.truncate(at),
            b".." => {
                out.truncate(at);
                remove_last_segment(out, start)?;
            }
            _ if !is_last => out.push(b'/'),
            _ => {}
        }
    }
    Ok(())
}

/// A path as it is decoded and normalised, for whoever compares how paths begin: so that `//a`, `/%61` and `/b/../a` are what
/// they name. One that cannot name a file stays as it is.
pub fn normal_path(path: &str) -> Cow<'_, str> {
    if !path.contains('%') && !path.contains("//") && !path.contains("/.") {
        return Cow::Borrowed(path);
    }
    let mut decoded = vec![b'/'];
    match decode_path(path, &mut decoded) {
        Ok(()) => Cow::Owned(String::from_utf8_lossy(&decoded).into_owned()),
        Err(_) => Cow::Borrowed(path),
    }
}

fn check_escapes(path: &[u8]) -> Result<(), PathError> {
    let mut rest = path;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        match &rest[at + 1..] {
            [a, b, behind @ ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => rest = behind,
            _ => return Err(PathError::BadEscape),
        }
    }
    Ok(())
}

/// Takes away `segment/` at the end of what stands behind `start`.
fn remove_last_segment(out: &mut Vec<u8>, start: usize) -> Result<(), PathError> {
    let above = out[start..].strip_suffix(b"/").ok_or(PathError::AboveRoot)?;
    let keep = above.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    out.truncate(start + keep);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_as_what_they_name() {
        for (written, named) in [
            ("/a/b", "/a/b"),
            ("//a//b", "/a/b"),
            ("/%61/./b", "/a/b"),
            ("/x/../a/", "/a/"),
            ("/%zz", "/%zz"),
            ("/../a", "/../a"),
        ] {
            assert_eq!(normal_path(written), named);
        }
    }

    fn decode(path: &str) -> Result<String, PathError> {
        let mut out = Vec::new();
        decode_path(path, &mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn paths_are_decoded_and_normalised() {
        for (path, expected) in [
            ("/", ""),
            ("/a.html", "a.html"),
            ("/a/b/", "a/b/"),
            ("//a///b", "a/b"),
            ("/a/./b/.", "a/b/"),
            ("/a/b/../c", "a/c"),
            ("/a/b/..", "a/"),
            ("/a/..", ""),
            ("/a/%2e%2E/b", "b"),
            ("/caf%C3%A9%20x", "café x"),
            ("/...", "..."),
            ("/a%25b", "a%b"),
            ("/%252e%252e", "%2e%2e"),
        ] {
            assert_eq!(decode(path).as_deref(), Ok(expected), "{path}");
        }
    }

    #[test]
    fn what_cannot_be_a_file_is_refused() {
        use PathError::*;
        for (path, expected) in [
            ("", NotAbsolute),
            ("a", NotAbsolute),
            ("*", NotAbsolute),
            ("/..", AboveRoot),
            ("/../etc/passwd", AboveRoot),
            ("/a/../../b", AboveRoot),
            ("/%2e%2e/b", AboveRoot),
            ("/a%2fb", ForbiddenByte),
            ("/a%5Cb", ForbiddenByte),
            ("/a\\b", ForbiddenByte),
            ("/a%00.html", ForbiddenByte),
            ("/a%0ab", ForbiddenByte),
            ("/a%7fb", ForbiddenByte),
            ("/a%", BadEscape),
            ("/a%2", BadEscape),
            ("/a%zz", BadEscape),
        ] {
            assert_eq!(decode(path), Err(expected), "{path}");
        }
    }
}
