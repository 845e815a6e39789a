//! What an application sees: a request comes in, a response goes out; where it runs is the model's affair.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use engine::{Class, FileRange};
use wire::{RequestHead, Status};

use crate::file::FileVersion;
use crate::log::Note;

/// An application. It is shared by all threads; a closure over a request and a response is one.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request. The response starts as an empty 200.
    fn handle(&self, request: &Request<'_>, response: &mut Response);

    /// Where a request should be handled if there are workers; without them all is done on the reactor.
    /// Only what is sure to be quick belongs on the reactor then.
    fn place(&self, _request: &Request<'_>) -> Place {
        Place::Worker
    }

    /// Whether the body of a request is to be read and given to the handler. Otherwise it is read and dropped after the
    /// answer, so that whoever does not look at bodies is not kept waiting by them.
    fn wants_body(&self, _request: &Request<'_>) -> bool {
        false
    }

    /// How urgent a request is, where workers take them by class.
    fn class(&self, _request: &Request<'_>) -> Class {
        Class::Normal
    }
}

/// Where a request is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the reactor that owns the connection.
    Reactor,
    /// On a worker.
    Worker,
}

impl<F: Fn(&Request<'_>, &mut Response) + Send + Sync + 'static> Handler for F {
    fn handle(&self, request: &Request<'_>, response: &mut Response) {
        self(request, response);
    }
}

/// A request, as the handler sees it.
pub struct Request<'a> {
    /// Method, target and fields.
    pub head: &'a RequestHead<'a>,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// Its content, if the handler [wants](Handler::wants_body) it.
    pub body: &'a [u8],
    /// The time, as of the last look at the sockets or the queue: it saves a look at the clock.
    pub now: Instant,
    /// Whether it may be [left](Response::leave_to_a_worker) to a worker: it is handled on a reactor that has some.
    pub(crate) may_be_left: bool,
}

/// A response under construction.
#[derive(Debug)]
pub struct Response {
    pub(crate) status: Status,
    /// Field lines, each with its CRLF.
    pub(crate) fields: Vec<u8>,
    pub(crate) body: Body,
    /// The request is left to a worker.
    pub(crate) is_left: bool,
    /// What the access log will say about the request.
    pub(crate) note: Note,
    /// The request's id, where requests have one.
    pub(crate) id: String,
    /// Where it ends in the output, and the one before it there, while it waits there to be sent.
    pub(crate) end: usize,
    pub(crate) earlier: Option<Box<Response>>,
}

/// The content of a response.
#[derive(Clone, Debug)]
pub enum Body {
    /// Bytes that never change.
    Static(&'static [u8]),
    /// Bytes shared with others, as those of a cached file are.
    Shared(Arc<[u8]>),
    /// Bytes of its own.
    Owned(Vec<u8>),
    /// A part of bytes shared with others, from the first number to before the second; both must lie within.
    Slice(Arc<[u8]>, usize, usize),
    /// A part of an open file, sent by the kernel. With the state that the file was in when the answer was made, the
    /// answer is only brought to its end if the file is still in it; otherwise the connection is cut.
    File(FileRange, Option<FileVersion>),
    /// One after the other.
    Sequence(Vec<Body>),
    /// As many bytes as that, a little at a time: for experiments with slow answers.
    Paced(Pace),
}

/// Bytes that nobody reads, at a given rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Number of bytes.
    pub length: u64,
    /// How many of them to send in a second.
    pub bytes_per_second: u64,
}

impl Body {
    /// No content.
    pub const EMPTY: Body = Body::Static(&[]);

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Body::File(range, _) => range.length,
            Body::Slice(_, start, end) => (end - start) as u64,
            Body::Sequence(bodies) => bodies.iter().map(Body::len).sum(),
            Body::Paced(pace) => pace.length,
            Body::Static(bytes) => bytes.len() as u64,
            Body::Shared(bytes) => bytes.len() as u64,
            Body::Owned(bytes) => bytes.len() as u64,
        }
    }

    /// The content, if it is all in memory in one piece.
    pub(crate) fn in_memory(&self) -> Option<&[u8]> {
        match self {
            Body::Static(bytes) => Some(bytes),
            Body::Shared(bytes) => Some(bytes),
            Body::Slice(bytes, start, end) => Some(&bytes[*start..*end]),
            Body::Owned(bytes) => Some(bytes),
            Body::File(..) | Body::Sequence(_) | Body::Paced(_) => None,
        }
    }

    /// Whether there is no content.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Response {
    fn default() -> Self {
        Response {
            status: Status::OK,
            fields: Vec::with_capacity(512),
            body: Body::EMPTY,
            is_left: false,
            note: Note::default(),
            id: String::new(),
            end: 0,
            earlier: None,
        }
    }
}

impl Response {
    /// Makes it an empty 200 again, keeping its memory.
    pub fn clear(&mut self) {
        self.status = Status::OK;
        self.fields.clear();
        self.body = Body::EMPTY;
        self.is_left = false;
    }

    /// Leaves the request to a worker, if it [may be](Request::may_be_left): the handler has seen that it takes long. It is
    /// handled anew there, so nothing may have been put into the response.
    pub(crate) fn leave_to_a_worker(&mut self) {
        self.is_left = true;
    }

    /// The id of the request, where requests have one: what the client sent as X-Request-Id, or one that was made here.
    pub fn request_id(&self) -> Option<&str> {
        (!self.id.is_empty()).then_some(self.id.as_str())
    }

    /// Sets the status.
    pub fn status(&mut self, status: Status) -> &mut Self {
        self.status = status;
        self
    }

    /// Adds a field. The server itself adds Date, Content-Length and Connection.
    ///
    /// A name or value that would break the message (RFC 9110, 5.5: CR, LF or NUL in it, or a name that is
    /// not a token) is left out: text from a request must not be able to add fields of its own.
    pub fn field(&mut self, name: &str, value: &[u8]) -> &mut Self {
        if wire::put_field(&mut self.fields, name, value).is_err() {
            tracing::warn!(name, "a response field was left out: its name or value is not allowed");
        }
        self
    }

    /// Whether the status allows no content, nor a Content-Length that would announce it (RFC 9110, 8.6).
    pub(crate) fn is_bodiless(&self) -> bool {
        matches!(self.status.code(), 100..200 | 204 | 304)
    }

    /// Adds field lines that were built before, each ending with CRLF.
    pub(crate) fn field_lines(&mut self, lines: &[u8]) -> &mut Self {
        self.fields.extend_from_slice(lines);
        self
    }

    /// Sets the content.
    pub fn body(&mut self, body: Body) -> &mut Self {
        self.body = body;
        self
    }

    /// A status with a line of plain text that says it.
    pub fn plain(&mut self, status: Status) -> &mut Self {
        let text = format!("{} {}\n", status.code(), status.reason());
        self.status(status).field("Content-Type", b"text/plain; charset=utf-8").body(Body::Owned(text.into()))
    }
}
