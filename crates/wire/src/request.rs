//! The head of a request, read and judged strictly (RFC 9112).

use crate::authority::is_authority;
use crate::fields::{Coding, Expect, Survey};
use crate::lines::{self, Halt, LineEnd, Lines};
use crate::request_line::RequestLine;
use crate::status::Status;

/// Most fields of one head, whatever [`Limits::fields`] says.
pub const MOST_FIELDS: usize = 100;

/// The bounds of a request's head.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the whole head, the empty line at its end included: 431.
    pub head_bytes: usize,
    /// Bytes of the target: 414.
    pub target_bytes: usize,
    /// Fields, at most [`MOST_FIELDS`]: 431.
    pub fields: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { head_bytes: 16 * 1024, target_bytes: 8 * 1024, fields: MOST_FIELDS }
    }
}

/// The head of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'b> {
    /// The method.
    pub method: Method,
    /// The method as it was sent.
    pub method_text: &'b str,
    /// The target as it was sent.
    pub target: &'b str,
    /// The version.
    pub version: Version,
    /// How the body is framed.
    pub framing: Framing,
    /// Whether the client wants the connection to go on after this request (RFC 9112, 9.3).
    pub keep_alive: bool,
    /// Whether the client waits for a 100 before it sends the body.
    pub expects_continue: bool,
    /// Which fields are there that ask for another answer than the whole of what the target names.
    pub asks: Asks,
    /// The lines of the fields, which keep to the rules.
    field_lines: &'b [u8],
    /// Where the path is in the target: behind the authority of an absolute-form, and before the query.
    path_at: usize,
    path_end: usize,
}

/// What the fields of a request ask for, so that a plain request is known without looking at its fields again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// If-Match, If-None-Match, If-Modified-Since or If-Unmodified-Since: see [`judge_conditions`](crate::judge_conditions).
    pub conditional: bool,
    /// Range: see [`resolve_ranges`](crate::resolve_ranges).
    pub range: bool,
    /// Accept-Encoding: see [`Codings::of`](crate::Codings::of).
    pub coding: bool,
}

/// A request method (RFC 9110, section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Trace,
    Patch,
    /// Any other; its name is in [`RequestHead::method_text`].
    Other,
}

/// A version of HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1, or a later minor version
    Http11,
}

/// How the body of a request is framed (RFC 9112, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// This many bytes, at least one.
    Length(u64),
    /// Chunks.
    Chunked,
}

/// Why a head cannot be accepted: what to answer, after which the connection must end, since nobody can say
/// where the next request begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The status to answer.
    pub status: Status,
    /// What was wrong, for the client.
    pub reason: &'static str,
}

impl Reject {
    pub(crate) fn bad(reason: &'static str) -> Self {
        Reject { status: Status::BAD_REQUEST, reason }
    }

    fn new(status: Status, reason: &'static str) -> Self {
        Reject { status, reason }
    }
}

/// Reads the head of a request from the start of the input: the head and its length, or `None` if the rest of
/// it has not come yet.
///
/// # Errors
/// The head breaks a rule or passes a bound; this is found as soon as the input shows it, and is the same with anything
/// behind it.
pub fn parse_request<'b>(
    input: &'b [u8],
    limits: &Limits,
) -> Result<Option<(RequestHead<'b>, usize)>, Reject> {
    // What stands behind the bound is not looked at: the answer must not depend on whether it has come already.
    let within = &input[..input.len().min(limits.head_bytes)];
    match read(within, limits) {
        Ok(parsed) => Ok(Some(parsed)),
        Err(Fault::Halt(Halt::Incomplete)) if within.len() < limits.head_bytes => Ok(None),
        Err(Fault::Halt(Halt::Incomplete)) => {
            Err(Reject::new(Status::HEADER_FIELDS_TOO_LARGE, "the head is too large"))
        }
        Err(Fault::Halt(Halt::Malformed(reason))) => Err(Reject::bad(reason)),
        Err(Fault::Rejected(reject)) => Err(reject),
    }
}

/// Why there is no head.
pub(crate) enum Fault {
    Halt(Halt),
    Rejected(Reject),
}

impl From<Halt> for Fault {
    fn from(halt: Halt) -> Self {
        Fault::Halt(halt)
    }
}

impl From<Reject> for Fault {
    fn from(reject: Reject) -> Self {
        Fault::Rejected(reject)
    }
}

/// Reads a whole head, and how long it is.
fn read<'b>(input: &'b [u8], limits: &Limits) -> Result<(RequestHead<'b>, usize), Fault> {
    let mut lines = Lines::new(input, LineEnd::Strict);
    lines.skip_empty()?;
    let line = RequestLine::read(&mut lines, limits)?;
    let (mut survey, mut count) = (Survey::default(), 0);
    let from = lines.rest();
    let mut to = from;
    while let Some((name, value)) = lines.field()? {
        if count == limits.fields.min(MOST_FIELDS) {
            return Err(Reject::new(Status::HEADER_FIELDS_TOO_LARGE, "there are too many fields").into());
        }
        count += 1;
        survey.note(name, value);
        to = lines.rest();
    }
    let field_lines = &from[..from.len() - to.len()];
    Ok((judge(line, field_lines, &survey)?, input.len() - lines.rest().len()))
}

/// Applies the rules that need the whole head.
fn judge<'b>(
    line: RequestLine<'b>,
    field_lines: &'b [u8],
    survey: &Survey<'_>,
) -> Result<RequestHead<'b>, Reject> {
    let RequestLine { method: method_text, target, version } = line;
    let method = Method::of(method_text);
    if method_text == "CONNECT" {
        return Err(Reject::new(Status::NOT_IMPLEMENTED, "this server is no tunnel"));
    }
    let path_at = path_start(method, target)?;
    check_host(survey, version)?;
    if survey.expect == Some(Expect::Unknown) {
        return Err(Reject::new(Status::EXPECTATION_FAILED, "the expectation is unknown"));
    }
    Ok(RequestHead {
        method,
        method_text,
        target,
        version,
        framing: framing(survey, version)?,
        keep_alive: !survey.close && (version == Version::Http11 || survey.keep_alive),
        // A 1.0 client cannot know of 100, and is to be read as not having asked (RFC 9110, 10.1.1).
        expects_continue: survey.expect.is_some() && version == Version::Http11,
        asks: survey.asks,
        field_lines,
        path_at,
        path_end: path_end(target, path_at)?,
    })
}

/// RFC 9112, 3.2: exactly one Host in HTTP/1.1, and a valid one.
fn check_host(survey: &Survey<'_>, version: Version) -> Result<(), Reject> {
    match (survey.host, survey.hosts) {
        (None, _) if version == Version::Http10 => Ok(()),
        (None, _) => Err(Reject::bad("there is no Host field")),
        (Some(_), 2..) => Err(Reject::bad("there is more than one Host field")),
        (Some(host), _) if is_authority(host) => Ok(()),
        (Some(_), _) => Err(Reject::bad("the Host field is malformed")),
    }
}

/// RFC 9112, 6.3, with no mercy for what two servers could read differently.
fn framing(survey: &Survey<'_>, version: Version) -> Result<Framing, Reject> {
    match (survey.coding, survey.length) {
        _ if survey.bad_length => Err(Reject::bad("the Content-Length is malformed or repeated")),
        (Some(_), Some(_)) => Err(Reject::bad("there are both a Content-Length and a Transfer-Encoding")),
        (Some(_), None) if version == Version::Http10 => {
            Err(Reject::bad("HTTP/1.0 has no Transfer-Encoding"))
        }
        (Some(Coding::Chunked), None) => Ok(Framing::Chunked),
        (Some(Coding::Unknown), None) => {
            Err(Reject::new(Status::NOT_IMPLEMENTED, "the transfer coding is not implemented"))
        }
        (Some(Coding::Empty), None) => Err(Reject::bad("a Transfer-Encoding has an empty coding")),
        (Some(Coding::NotFinal), None) => Err(Reject::bad("the last transfer coding is not chunked")),
        (None, None | Some(0)) => Ok(Framing::None),
        (None, Some(length)) => Ok(Framing::Length(length)),
    }
}

/// Where the path begins in a target (RFC 9112, 3.2).
fn path_start(method: Method, target: &str) -> Result<usize, Reject> {
    if target.starts_with('/') {
        return Ok(0);
    }
    if target == "*" && method == Method::Options {
        return Ok(0);
    }
    let authority = ["http://", "https://"]
        .iter()
        .find(|scheme| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    let Some(scheme) = authority else { return Err(Reject::bad("the target is malformed")) };
    let behind = &target[scheme.len()..];
    let length = behind.find(['/', '?', '#']).unwrap_or(behind.len());
    if length == 0 {
        return Err(Reject::bad("the target names no host"));
    }
    if !is_authority(&behind.as_bytes()[..length]) {
        return Err(Reject::bad("the host or the port in the target is malformed"));
    }
    Ok(scheme.len() + length)
}

/// Where the path ends in a target, which has no fragment (RFC 9112, 3.2).
fn path_end(target: &str, start: usize) -> Result<usize, Reject> {
    let rest = &target.as_bytes()[start..];
    // Most are so short that a search for long texts would only begin.
    let Some(end) = rest.iter().position(|byte| matches!(byte, b'?' | b'#')) else { return Ok(target.len()) };
    if rest[end..].contains(&b'#') {
        return Err(Reject::bad("the target has a fragment"));
    }
    Ok(start + end)
}

impl Method {
    fn of(text: &str) -> Self {
        match text {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            "DELETE" => Method::Delete,
            "OPTIONS" => Method::Options,
            "TRACE" => Method::Trace,
            "PATCH" => Method::Patch,
            _ => Method::Other,
        }
    }
}

impl<'b> RequestHead<'b> {
    /// The path of the target, as it was sent: still encoded. `/` where an absolute-form has none.
    pub fn path(&self) -> &'b str {
        match &self.target[self.path_at..self.path_end] {
            "" => "/",
            path => path,
        }
    }

    /// The query of the target, without its `?`.
    pub fn query(&self) -> Option<&'b str> {
        self.target[self.path_end..].strip_prefix('?')
    }

    /// The value of the first field of this name, in any case.
    pub fn field(&self, name: &str) -> Option<&'b [u8]> {
        lines::values(self.field_lines, name).next()
    }

    /// The values of the first fields of these names, in any case.
    pub fn first_values<const N: usize>(&self, names: [&str; N]) -> [Option<&'b [u8]>; N] {
        lines::first_values(self.field_lines, names)
    }

    /// The values of all fields of this name, in any case.
    pub fn values(&self, name: &'static str) -> impl Iterator<Item = &'b [u8]> + use<'b> {
        lines::values(self.field_lines, name)
    }

    /// Names and values of all fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&'b str, &'b [u8])> + use<'b> {
        lines::fields(self.field_lines)
    }
}
