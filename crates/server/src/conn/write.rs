//! Putting an answer on the wire: its head, then its body, in as few sends as they fit in.

use std::cell::Cell;
use std::time::Duration;

use engine::{Buf, Deadline, FileRange, More, Transport};
use wire::Sink;

use super::ids::FIELD;
use super::unsent::Wire;
use super::{Close, Context, Persistence, Rest};
use crate::file::{FileVersion, read_at};
use crate::handler::{Body, Handler, Pace, Response};
use crate::metrics::Counters;

/// Most bytes that the server's own lines of a head take: status, Date, X-Request-Id, Content-Length and Connection.
const OWN_LINES: usize = 384;

/// Bytes of a file that are held back until it is sure that the file has not changed.
const HELD_BACK: u64 = 256;

/// How often a paced body sends its next bytes.
const TICK: Duration = Duration::from_millis(10);

/// What a paced body is made of.
const FILLING: [u8; 4096] = [b'x'; 4096];

/// The engine's buffer as a place for wire's encoders. The caller has made sure of the room.
struct Out<'a>(&'a mut Buf);

impl Sink for Out<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let put = self.0.append(bytes);
        debug_assert_eq!(put, bytes.len(), "a head was not given the room it needs");
    }
}

/// Replaces a response whose fields do not fit in a buffer: before anyone asks whether it has a body.
#[inline]
pub(super) fn bound_fields(response: &mut Response) {
    if response.fields.len() > engine::BUF_BYTES - OWN_LINES {
        too_wide(response);
    }
}

#[cold]
fn too_wide(response: &mut Response) {
    tracing::error!(
        bytes = response.fields.len(),
        "the fields of a response do not fit in a buffer; answered with 500"
    );
    response.clear();
    response.plain(wire::Status::INTERNAL_SERVER_ERROR);
}

/// Writes the head of a response, whose fields are [bounded](bound_fields).
pub(super) async fn write_head<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    response: &Response,
    rest: Rest,
) -> Result<(), Close> {
    if wire.output().room() < response.fields.len() + OWN_LINES {
        Box::pin(send(wire, context, More::Follows, rest.until, Deadline::NEVER)).await?;
    }
    let now = wire.now();
    let out = &mut Out(wire.output());
    wire::put_status_line(out, response.status);
    context.with_date(now, |date| wire::put_date(out, date));
    out.put(&response.fields);
    if let Some(id) = response.request_id() {
        for part in [FIELD, ": ", id, "\r\n"] {
            out.put(part.as_bytes());
        }
    }
    if !response.is_bodiless() {
        wire::put_content_length(out, response.body.len());
    }
    match rest.persistence {
        Persistence::KeepAlive => {}
        Persistence::KeepAliveSaid => out.put(b"Connection: keep-alive\r\n"),
        Persistence::Close => out.put(b"Connection: close\r\n"),
    }
    out.put(b"\r\n");
    Ok(())
}

/// Writes the body of a response behind its head. What fits in the buffer stays there, to go out with the
/// answers to the requests behind it.
pub(super) async fn send_body<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    body: &Body,
    until: Deadline,
) -> Result<(), Close> {
    match body.in_memory() {
        Some(bytes) if bytes.len() <= wire.output().room() => {
            wire.output().append(bytes);
            Ok(())
        }
        // In a box, or every connection would be larger by what only a large body needs.
        _ => Box::pin(stream_body(wire, context, body, until)).await,
    }
}

/// Sends a body that takes more than one buffer.
async fn stream_body<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    body: &Body,
    until: Deadline,
) -> Result<(), Close> {
    match body {
        Body::Paced(pace) => send_paced(wire, context, *pace, until).await,
        Body::File(range, version) => send_file(wire, context, range, *version, until).await,
        Body::Sequence(bodies) => {
            for body in bodies {
                send_body(wire, context, body, until).await?;
            }
            Ok(())
        }
        Body::Static(_) | Body::Shared(_) | Body::Slice(..) | Body::Owned(_) => {
            write(wire, context, body.in_memory().unwrap_or_default(), until).await
        }
    }
}

/// Sends a part of a file. If its state is known, the end of the part is held back until it is sure that the file is
/// still in it: an answer whose bytes are of two states is never brought to its end.
async fn send_file<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    range: &FileRange,
    version: Option<FileVersion>,
    until: Deadline,
) -> Result<(), Close> {
    let held_back = if version.is_some() { range.length.min(HELD_BACK) } else { 0 };
    let first = FileRange { length: range.length - held_back, ..range.clone() };
    if first.length > 0 {
        send(wire, context, More::Follows, until, Deadline::NEVER).await?;
        let (begun, counted) = (wire.deadline(Duration::ZERO), Cell::new(0));
        let count = |sent| Counters::add(&context.counters.bytes_sent, sent - counted.replace(sent));
        let until_next = |wire: &T, sent| {
            count(sent);
            let rate = context.limits.at_least_rate(begun, sent);
            wire.deadline(context.limits.send_time).earlier(rate).earlier(until)
        };
        let result = wire.send_file(first.clone(), until_next).await;
        if result.is_ok() {
            count(first.length);
        }
        wire.sent_beside(counted.get());
        result.map_err(|error| Close::sending(error, &**wire, until))?;
    }
    let Some(version) = version else { return Ok(()) };
    let mut last = [0; HELD_BACK as usize];
    let last = &mut last[..held_back as usize];
    let read = read_at(&range.file, last, first.offset + first.length)
        .map_err(|errno| Close::Broken(errno.into()))?;
    if read < last.len() || !version.still(&range.file) {
        return Err(Close::FileChanged);
    }
    write(wire, context, last, until).await
}

/// Sends bytes at a given rate, a tick's worth at a time.
async fn send_paced<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    pace: Pace,
    until: Deadline,
) -> Result<(), Close> {
    let (mut sent, start) = (0, wire.deadline(Duration::ZERO));
    for tick in 1u32.. {
        // What is due by now, counted from the start, so that neither rounding nor lateness adds up.
        let due = u128::from(pace.bytes_per_second) * u128::from(tick) * TICK.as_micros() / 1_000_000;
        let due = pace.length.min(due as u64);
        while sent < due {
            let n = (due - sent).min(FILLING.len() as u64) as usize;
            write(wire, context, &FILLING[..n], until).await?;
            sent += n as u64;
        }
        send(wire, context, More::No, until, Deadline::NEVER).await?;
        if sent == pace.length {
            break;
        }
        wire.sleep(start.later(TICK * tick)).await;
    }
    Ok(())
}

async fn write<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    bytes: &[u8],
    until: Deadline,
) -> Result<(), Close> {
    let (begun, mut rest) = (wire.deadline(Duration::ZERO), bytes);
    loop {
        let put = wire.output().append(rest);
        rest = &rest[put..];
        if rest.is_empty() {
            return Ok(());
        }
        // What is in the buffer is worth its time too.
        let through = (bytes.len() - rest.len()) as u64;
        let in_time = context.limits.at_least_rate(begun, through);
        send(wire, context, More::Follows, until, in_time).await?;
    }
}

/// Sends all that was put in the output, by the time that the whole request may take, and by one that is put down to the
/// client's slowness.
pub(super) async fn send<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    more: More,
    until: Deadline,
    in_time: Deadline,
) -> Result<(), Close> {
    let pending = wire.pending();
    let in_time = in_time.earlier(wire.deadline(context.limits.send_time));
    let result = wire.flush(more, in_time.earlier(until)).await;
    let sent = pending - wire.pending();
    Counters::add(&context.counters.bytes_sent, sent as u64);
    wire.sent(sent);
    result.map_err(|error| Close::sending(error, &**wire, until))
}
