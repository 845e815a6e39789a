//! Whether a request's conditions hold for what it asks for (RFC 9110, section 13).

use std::time::{Duration, SystemTime};

use crate::parse_date::parse_date;
use crate::request::{Method, RequestHead};

/// What tells one state of a representation from another (RFC 9110, 8.8).
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// Its entity tag as it is sent: `"..."` or `W/"..."`.
    pub etag: &'a [u8],
    /// When it was changed last.
    pub modified: Option<SystemTime>,
}

/// What a request's conditions come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is to be answered as if it had none.
    Proceed,
    /// The client has it already: 304.
    NotModified,
    /// They do not hold: 412.
    Failed,
}

/// Judges the conditions of a request, in the order of precedence of RFC 9110, 13.2.2, for a representation that exists
/// and would be answered with 200.
pub fn judge_conditions(head: &RequestHead<'_>, validators: &Validators<'_>) -> Verdict {
    let safe = matches!(head.method, Method::Get | Method::Head);
    if head.field("If-Match").is_some() {
        if !any_tag(head, "If-Match", |tag| strong_match(tag, validators.etag)) {
            return Verdict::Failed;
        }
    } else if let Some(since) = date(head, "If-Unmodified-Since")
        && validators.modified.is_some_and(|modified| whole_seconds(modified) > since)
    {
        return Verdict::Failed;
    }
    if head.field("If-None-Match").is_some() {
        if any_tag(head, "If-None-Match", |tag| weak_match(tag, validators.etag)) {
            return if safe { Verdict::NotModified } else { Verdict::Failed };
        }
    } else if safe
        && let Some(since) = date(head, "If-Modified-Since")
        && validators.modified.is_some_and(|modified| whole_seconds(modified) <= since)
    {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

/// Whether a Range field counts: there is no If-Range, or it names exactly the present state (RFC 9110, 13.1.5). A date
/// does so only if the file was left alone for a second before `now`: it could have changed twice within one.
pub fn range_applies(head: &RequestHead<'_>, validators: &Validators<'_>, now: SystemTime) -> bool {
    let Some(value) = head.field("If-Range") else { return true };
    if value.ends_with(b"\"") {
        return strong_match(value, validators.etag);
    }
    let (Some(asked), Some(modified)) = (parse_date(value), validators.modified) else { return false };
    let settled = now.duration_since(modified).is_ok_and(|age| age >= Duration::from_secs(1));
    settled && whole_seconds(modified) == asked
}

/// Whether `*` or one of the tags in all fields of a name is as it should be.
fn any_tag(head: &RequestHead<'_>, name: &'static str, is_it: impl Fn(&[u8]) -> bool) -> bool {
    head.values(name).any(|value| value == b"*" || tags(value).any(&is_it))
}

/// The date of a field that has one; a malformed one is as good as none (RFC 9110, 13.1.3 and 13.1.4).
fn date(head: &RequestHead<'_>, name: &'static str) -> Option<SystemTime> {
    let mut values = head.values(name);
    let value = values.next()?;
    if values.next().is_some() { None } else { parse_date(value) }
}

/// RFC 9110, 8.8.3.2: equal, and neither is weak.
fn strong_match(one: &[u8], other: &[u8]) -> bool {
    one == other && one.starts_with(b"\"")
}

/// RFC 9110, 8.8.3.2: equal but for being weak.
fn weak_match(one: &[u8], other: &[u8]) -> bool {
    fn opaque(tag: &[u8]) -> &[u8] {
        tag.strip_prefix(b"W/").unwrap_or(tag)
    }
    opaque(one) == opaque(other)
}

/// The entity tags of a list, up to the first member that is none. Commas inside of quotes belong to a tag.
fn tags(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = value;
    std::iter::from_fn(move || {
        let start = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b','))?;
        rest = &rest[start..];
        let quote = if rest.starts_with(b"W/") { 2 } else { 0 };
        if rest.get(quote) != Some(&b'"') {
            rest = &[];
            return None;
        }
        let length = quote + 2 + memchr::memchr(b'"', &rest[quote + 1..])?;
        let (tag, behind) = rest.split_at(length);
        rest = behind;
        Some(tag)
    })
}

/// Dates of HTTP have no parts of a second.
fn whole_seconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Limits, parse_request};

    const TAG: &[u8] = b"\"a,b\"";

    fn changed() -> SystemTime {
        // Sun, 06 Nov 1994 08:49:37 GMT, and a bit.
        SystemTime::UNIX_EPOCH + Duration::from_millis(784_111_777_500)
    }

    fn with_head<R>(method: &str, fields: &str, act: impl FnOnce(&RequestHead<'_>) -> R) -> R {
        let text = format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let (head, _) = parse_request(text.as_bytes(), &Limits::default()).unwrap().unwrap();
        act(&head)
    }

    fn judge(method: &str, fields: &str) -> Verdict {
        let validators = Validators { etag: TAG, modified: Some(changed()) };
        with_head(method, fields, |head| judge_conditions(head, &validators))
    }

    #[test]
    fn each_condition_and_their_precedence() {
        use Verdict::*;
        const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
        const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (fields, expected) in [
            ("If-Match: \"a,b\"\r\n".to_owned(), Proceed),
            ("If-Match: *\r\n".into(), Proceed),
            ("If-Match: \"x\", \"a,b\"\r\n".into(), Proceed),
            ("If-Match: \"x\"\r\nIf-Match: \"a,b\"\r\n".into(), Proceed),
            ("If-Match: W/\"a,b\"\r\n".into(), Failed),
            ("If-Match: \"a\"\r\n".into(), Failed),
            ("If-Match: a,b\r\n".into(), Failed),
            ("If-None-Match: \"a,b\"\r\n".into(), NotModified),
            ("If-None-Match: W/\"a,b\"\r\n".into(), NotModified),
            ("If-None-Match: \"x\" ,W/\"a,b\"\r\n".into(), NotModified),
            ("If-None-Match: *\r\n".into(), NotModified),
            ("If-None-Match: \"b\"\r\n".into(), Proceed),
            ("If-None-Match: \"a,b\r\n".into(), Proceed),
            (format!("If-Modified-Since: {THEN}\r\n"), NotModified),
            (format!("If-Modified-Since: {BEFORE}\r\n"), Proceed),
            ("If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n".into(), NotModified),
            ("If-Modified-Since: Sun Nov  6 08:49:37 1994\r\n".into(), NotModified),
            ("If-Modified-Since: yesterday\r\n".into(), Proceed),
            (format!("If-Modified-Since: {THEN}\r\nIf-Modified-Since: {THEN}\r\n"), Proceed),
            (format!("If-Unmodified-Since: {THEN}\r\n"), Proceed),
            (format!("If-Unmodified-Since: {BEFORE}\r\n"), Failed),
            ("If-Unmodified-Since: Thu, 01 Jan 1960 00:00:00 GMT\r\n".into(), Failed),
            // A tag outweighs a date, and a match is asked for first.
            (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {THEN}\r\n"), Proceed),
            (format!("If-Match: \"a,b\"\r\nIf-Unmodified-Since: {BEFORE}\r\n"), Proceed),
            ("If-Match: \"x\"\r\nIf-None-Match: \"a,b\"\r\n".into(), Failed),
            ("If-Match: \"a,b\"\r\nIf-None-Match: \"a,b\"\r\n".into(), NotModified),
        ] {
            assert_eq!(judge("GET", &fields), expected, "{fields}");
            assert_eq!(judge("HEAD", &fields), expected, "{fields}");
        }
        assert_eq!(judge("PUT", "If-None-Match: *\r\n"), Failed);
        assert_eq!(judge("PUT", &format!("If-Modified-Since: {THEN}\r\n")), Proceed);
    }

    #[test]
    fn a_range_counts_only_for_the_very_same_state() {
        let now = changed() + Duration::from_secs(5);
        for (value, now, expected) in [
            ("\"a,b\"", now, true),
            ("W/\"a,b\"", now, false),
            ("\"x\"", now, false),
            ("Sun, 06 Nov 1994 08:49:37 GMT", now, true),
            ("Sun, 06 Nov 1994 08:49:38 GMT", now, false),
            ("Sun, 06 Nov 1994 08:49:37 GMT", changed() + Duration::from_millis(500), false),
            ("nonsense", now, false),
        ] {
            let validators = Validators { etag: TAG, modified: Some(changed()) };
            let applies = with_head("GET", &format!("If-Range: {value}\r\n"), |head| {
                range_applies(head, &validators, now)
            });
            assert_eq!(applies, expected, "{value}");
        }
        let weak = Validators { etag: b"W/\"a\"", modified: None };
        assert!(!with_head("GET", "If-Range: W/\"a\"\r\n", |head| range_applies(head, &weak, now)));
        assert!(with_head("GET", "", |head| range_applies(head, &weak, now)));
    }
}
