//! Putting an answer on the wire: its head, then its body, in as few sends as they fit in.

use std::time::Duration;

use engine::{Buf, Error, FileRange, More, Transport};
use wire::Sink;

use super::{Close, Context, Persistence, Rest};
use crate::file::{FileVersion, read_at};
use crate::handler::{Body, Handler, Pace, Response};
use crate::metrics::Counters;

/// Most bytes that the server's own lines of a head take: status, Date, Content-Length and Connection.
const OWN_LINES: usize = 256;

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

/// Writes the head of a response.
pub(super) async fn write_head<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    response: &mut Response,
    rest: Rest,
) -> Result<(), Close> {
    if response.fields.len() > engine::BUF_BYTES - OWN_LINES {
        tracing::error!(
            bytes = response.fields.len(),
            "the fields of a response do not fit in a buffer; answered with 500"
        );
        response.clear();
        response.plain(wire::Status::INTERNAL_SERVER_ERROR);
    }
    if wire.output().room() < response.fields.len() + OWN_LINES {
        send(wire, context, More::Follows).await?;
    }
    let now = wire.now();
    let out = &mut Out(wire.output());
    wire::put_status_line(out, response.status);
    context.with_date(now, |date| wire::put_date(out, date));
    out.put(&response.fields);
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
    wire: &mut T,
    context: &Context<H>,
    body: &Body,
) -> Result<(), Close> {
    match body {
        Body::Static(bytes) => write(wire, context, bytes).await,
        Body::Shared(bytes) => write(wire, context, bytes).await,
        Body::Owned(bytes) => write(wire, context, bytes).await,
        Body::Paced(pace) => send_paced(wire, context, *pace).await,
        Body::Slice(bytes, start, end) => write(wire, context, &bytes[*start..*end]).await,
        // In a box, or every connection would be larger by its size.
        Body::File(range, version) => Box::pin(send_file(wire, context, range, *version)).await,
        Body::Sequence(bodies) => {
            for body in bodies {
                Box::pin(send_body(wire, context, body)).await?;
            }
            Ok(())
        }
    }
}

/// Sends a part of a file. If its state is known, the end of the part is held back until it is sure that the file is
/// still in it: an answer whose bytes are of two states is never brought to its end.
async fn send_file<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    range: &FileRange,
    version: Option<FileVersion>,
) -> Result<(), Close> {
    let held_back = if version.is_some() { range.length.min(HELD_BACK) } else { 0 };
    let first = FileRange { length: range.length - held_back, ..range.clone() };
    if first.length > 0 {
        send(wire, context, More::Follows).await?;
        Counters::add(&context.counters.bytes_sent, first.length);
        wire.send_file(first.clone(), context.limits.send_time).await.map_err(Close::sending)?;
    }
    let Some(version) = version else { return Ok(()) };
    let mut last = [0; HELD_BACK as usize];
    let last = &mut last[..held_back as usize];
    let read = read_at(&range.file, last, first.offset + first.length)
        .map_err(|errno| Close::Broken(errno.into()))?;
    if read < last.len() || !version.still(&range.file) {
        return Err(Close::FileChanged);
    }
    write(wire, context, last).await
}

/// Sends bytes at a given rate, a tick's worth at a time.
async fn send_paced<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    pace: Pace,
) -> Result<(), Close> {
    let (mut sent, start) = (0, wire.deadline(Duration::ZERO));
    for tick in 1u32.. {
        // What is due by now, counted from the start, so that neither rounding nor lateness adds up.
        let due = u128::from(pace.bytes_per_second) * u128::from(tick) * TICK.as_micros() / 1_000_000;
        let due = pace.length.min(due as u64);
        while sent < due {
            let n = (due - sent).min(FILLING.len() as u64) as usize;
            write(wire, context, &FILLING[..n]).await?;
            sent += n as u64;
        }
        send(wire, context, More::No).await?;
        if sent == pace.length {
            break;
        }
        wire.sleep(start.later(TICK * tick)).await;
    }
    Ok(())
}

async fn write<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    bytes: &[u8],
) -> Result<(), Close> {
    let mut rest = bytes;
    loop {
        let put = wire.output().append(rest);
        rest = &rest[put..];
        if rest.is_empty() {
            return Ok(());
        }
        send(wire, context, More::Follows).await?;
    }
}

/// Sends all that was put in the output.
pub(super) async fn send<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    more: More,
) -> Result<(), Close> {
    Counters::add(&context.counters.bytes_sent, wire.pending() as u64);
    let until = wire.deadline(context.limits.send_time);
    wire.flush(more, until).await.map_err(|error: Error| Close::sending(error))
}
