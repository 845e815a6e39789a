//! What a client is sent of a representation: the whole, parts of it, or that it has it already.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::time::SystemTime;

use wire::{
    Coding, Method, Ranges, RequestHead, Status, Verdict, judge_conditions, range_applies, resolve_ranges,
};

use super::representation::Representation;
use crate::handler::{Body, Response};

/// Answers a GET or HEAD with a representation, as its conditions and its ranges ask (RFC 9110, 13.2.2). Where that is an
/// error, its body is still to come.
pub(super) fn present(head: &RequestHead<'_>, representation: &Representation, response: &mut Response) {
    if head.asks.conditional {
        match judge_conditions(head, &representation.validators()) {
            Verdict::Proceed => {}
            Verdict::NotModified => {
                response.status(Status::NOT_MODIFIED).field_lines(representation.fields_without_content());
                return;
            }
            Verdict::Failed => {
                response
                    .status(Status::PRECONDITION_FAILED)
                    .field_lines(representation.fields_of_every_answer());
                return;
            }
        }
    }
    match ranges(head, representation) {
        Ranges::Whole => {
            response.field_lines(representation.fields()).body(representation.content.whole());
        }
        Ranges::Unsatisfiable => {
            let range = format!("bytes */{}", representation.content.len());
            response
                .status(Status::RANGE_NOT_SATISFIABLE)
                .field("Content-Range", range.as_bytes())
                .field_lines(representation.fields_of_every_answer());
        }
        Ranges::Parts(parts) => match &parts[..] {
            [part] => put_part(representation, part.clone(), response),
            parts => put_parts(representation, parts, response),
        },
    }
}

/// The ranges that a request asks for, if it may have any (RFC 9110, 14.2: only GET has).
fn ranges(head: &RequestHead<'_>, representation: &Representation) -> Ranges {
    if !head.asks.range || head.method != Method::Get {
        return Ranges::Whole;
    }
    let mut values = head.values("Range");
    let (Some(value), None) = (values.next(), values.next()) else { return Ranges::Whole };
    if !range_applies(head, &representation.validators(), SystemTime::now()) {
        return Ranges::Whole;
    }
    resolve_ranges(value, representation.content.len())
}

/// RFC 9110, 14.4
fn content_range(part: &Range<u64>, length: u64) -> String {
    format!("bytes {}-{}/{length}", part.start, part.end - 1)
}

fn put_part(representation: &Representation, part: Range<u64>, response: &mut Response) {
    let range = content_range(&part, representation.content.len());
    response
        .status(Status::PARTIAL_CONTENT)
        .field_lines(representation.fields())
        .field("Content-Range", range.as_bytes())
        .body(representation.content.part(part));
}

/// Several parts as one body (RFC 9110, 14.6). The whole is sent where that is less; and where it has a coding, since a
/// client would take the coding for that of the body with its parts, not of what the parts are cut from.
fn put_parts(representation: &Representation, parts: &[Range<u64>], response: &mut Response) {
    let (content, length) = (&representation.content, representation.content.len());
    let media = representation.content_type();
    let boundary = boundary(parts);
    let mut bodies = Vec::with_capacity(parts.len() * 2 + 1);
    for part in parts {
        let range = content_range(part, length);
        let head = format!("\r\n--{boundary}\r\nContent-Type: {media}\r\nContent-Range: {range}\r\n\r\n");
        bodies.push(Body::Owned(head.into()));
        bodies.push(content.part(part.clone()));
    }
    bodies.push(Body::Owned(format!("\r\n--{boundary}--\r\n").into()));
    let body = Body::Sequence(bodies);
    if body.len() >= length || representation.coding() != Coding::Identity {
        response.field_lines(representation.fields()).body(content.whole());
        return;
    }
    response
        .status(Status::PARTIAL_CONTENT)
        .field_lines(representation.fields_without_content())
        .field("Content-Type", format!("multipart/byteranges; boundary={boundary}").as_bytes())
        .body(body);
}

/// A line that no content has in it but by the rarest of chances: 128 bits that nobody can know before.
fn boundary(parts: &[Range<u64>]) -> String {
    let bits = || RandomState::new().hash_one(parts);
    format!("{:016x}{:016x}", bits(), bits())
}
