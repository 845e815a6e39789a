//! The head of a request: tokenized by httparse, judged here, strictly (RFC 9112).

use std::mem::MaybeUninit;

use httparse::{Error, Header};

use crate::fields::{Coding, Expect, Survey, has_bare_lf};
use crate::response::byte_table;
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

/// Room for the fields of one head, on the caller's stack; making it costs nothing.
pub struct FieldStorage<'b>([MaybeUninit<Header<'b>>; MOST_FIELDS]);

impl FieldStorage<'_> {
    /// Empty room.
    #[expect(clippy::new_without_default, reason = "it is 3 KiB of nothing, not a value")]
    #[inline]
    pub fn new() -> Self {
        FieldStorage([const { MaybeUninit::uninit() }; MOST_FIELDS])
    }
}

impl<'b> FieldStorage<'b> {
    pub(crate) fn slots(&mut self) -> &mut [MaybeUninit<Header<'b>>] {
        &mut self.0
    }
}

/// The head of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'s, 'b> {
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
    fields: &'s [Header<'b>],
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
    /// HTTP/1.1
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
    fn bad(reason: &'static str) -> Self {
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
/// The head breaks a rule or passes a bound; this is found as soon as the input shows it.
pub fn parse_request<'s, 'b>(
    input: &'b [u8],
    storage: &'s mut FieldStorage<'b>,
    limits: &Limits,
) -> Result<Option<(RequestHead<'s, 'b>, usize)>, Reject> {
    let most = limits.fields.min(MOST_FIELDS);
    let mut request = httparse::Request::new(&mut []);
    let length = match request.parse_with_uninit_headers(input, &mut storage.slots()[..most]) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return incomplete(input, limits),
        Err(error) => return Err(refused(error, input)),
    };
    if has_bare_lf(&input[..length]) {
        return Err(Reject::bad("a line ends with LF alone"));
    }
    // Where the tokenizer is done, all three are there.
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(Reject::bad("there is no request line"));
    };
    if target.len() > limits.target_bytes {
        return Err(Reject::new(Status::URI_TOO_LONG, "the target is too long"));
    }
    if length > limits.head_bytes {
        return Err(Reject::new(Status::HEADER_FIELDS_TOO_LARGE, "the head is too large"));
    }
    let fields: &'s [Header<'b>] = request.headers;
    let head = judge(method, target, version, fields)?;
    Ok(Some((head, length)))
}

/// A head of which a part is still to come: refused already if it has passed a bound, rather than waited for.
fn incomplete<T>(input: &[u8], limits: &Limits) -> Result<Option<T>, Reject> {
    // The method and the version take few bytes beside the target.
    const BESIDE_TARGET: usize = 64;
    let line = input.trim_ascii_start().split(|byte| *byte == b'\n').next().unwrap_or_default();
    if line.len() > limits.target_bytes + BESIDE_TARGET {
        return Err(Reject::new(Status::URI_TOO_LONG, "the target is too long"));
    }
    if input.len() >= limits.head_bytes {
        return Err(Reject::new(Status::HEADER_FIELDS_TOO_LARGE, "the head is too large"));
    }
    Ok(None)
}

fn refused(error: Error, input: &[u8]) -> Reject {
    match error {
        Error::TooManyHeaders => Reject::new(Status::HEADER_FIELDS_TOO_LARGE, "there are too many fields"),
        Error::Version if names_other_version(input) => {
            Reject::new(Status::VERSION_NOT_SUPPORTED, "only HTTP/1.1 and HTTP/1.0 are spoken here")
        }
        Error::Version => Reject::bad("the version is malformed"),
        Error::HeaderName => Reject::bad("the name of a field is malformed"),
        Error::HeaderValue => Reject::bad("the value of a field is malformed"),
        Error::NewLine => Reject::bad("a line does not end with CRLF"),
        Error::Token | Error::Status => Reject::bad("the request line is malformed"),
    }
}

/// Whether the request line ends with a version of HTTP that is well-formed, and so merely not this one.
fn names_other_version(input: &[u8]) -> bool {
    let line =
        input.trim_ascii_start().split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ').skip(2);
    let (Some(version), None) = (words.next(), words.next()) else { return false };
    matches!(version, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
        if major.is_ascii_digit() && minor.is_ascii_digit())
}

/// Applies the rules that need the whole head.
fn judge<'s, 'b>(
    method_text: &'b str,
    target: &'b str,
    minor: u8,
    fields: &'s [Header<'b>],
) -> Result<RequestHead<'s, 'b>, Reject> {
    let version = if minor == 0 { Version::Http10 } else { Version::Http11 };
    let method = Method::of(method_text);
    if method_text == "CONNECT" {
        return Err(Reject::new(Status::NOT_IMPLEMENTED, "this server is no tunnel"));
    }
    let path_at = path_start(method, target)?;
    let survey = Survey::of(fields);
    check_host(&survey, version)?;
    if survey.expect == Some(Expect::Unknown) {
        return Err(Reject::new(Status::EXPECTATION_FAILED, "the expectation is unknown"));
    }
    Ok(RequestHead {
        method,
        method_text,
        target,
        version,
        framing: framing(&survey, version)?,
        keep_alive: !survey.close && (version == Version::Http11 || survey.keep_alive),
        // A 1.0 client cannot know of 100, and is to be read as not having asked (RFC 9110, 10.1.1).
        expects_continue: survey.expect.is_some() && version == Version::Http11,
        asks: survey.asks,
        fields,
        path_at,
        path_end: path_end(target, path_at),
    })
}

/// RFC 9112, 3.2: exactly one Host in HTTP/1.1, and a valid one.
fn check_host(survey: &Survey<'_>, version: Version) -> Result<(), Reject> {
    match (survey.host, survey.hosts) {
        (None, _) if version == Version::Http10 => Ok(()),
        (None, _) => Err(Reject::bad("there is no Host field")),
        (Some(_), 2..) => Err(Reject::bad("there is more than one Host field")),
        (Some(host), _) if host.iter().copied().all(is_host_byte) => Ok(()),
        (Some(_), _) => Err(Reject::bad("the Host field is malformed")),
    }
}

/// A byte of `uri-host [":" port]` (RFC 3986, 3.2.2).
fn is_host_byte(byte: u8) -> bool {
    const TABLE: [bool; 256] = byte_table(b"-._~:[]%!$&'()*+,;=");
    TABLE[usize::from(byte)]
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
        (Some(Coding::Empty), None) => Err(Reject::bad("a Transfer-Encoding is empty")),
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
    Ok(scheme.len() + length)
}

/// Where the path ends in a target.
fn path_end(target: &str, start: usize) -> usize {
    // Most are so short that a search for long texts would only begin.
    let end = target.as_bytes()[start..].iter().position(|byte| matches!(byte, b'?' | b'#'));
    end.map_or(target.len(), |end| start + end)
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

impl<'s, 'b> RequestHead<'s, 'b> {
    /// The path of the target, as it was sent: still encoded. `/` where an absolute-form has none.
    pub fn path(&self) -> &'b str {
        match &self.target[self.path_at..self.path_end] {
            "" => "/",
            path => path,
        }
    }

    /// The query of the target, without its `?`.
    pub fn query(&self) -> Option<&'b str> {
        let (_, query) = self.target[self.path_at..].split_once('?')?;
        query.split('#').next()
    }

    /// The value of the first field of this name, in any case.
    pub fn field(&self, name: &str) -> Option<&'b [u8]> {
        self.fields().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The values of all fields of this name, in any case.
    pub fn values(&self, name: &'static str) -> impl Iterator<Item = &'b [u8]> + use<'s, 'b> {
        self.fields().filter(move |(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Names and values of all fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&'b str, &'b [u8])> + use<'s, 'b> {
        self.fields.iter().map(|field| (field.name, field.value))
    }
}
