//! Requests whose handler wants their body: it is read whole, within bounds, before the handler is asked.

use std::net::SocketAddr;
use std::time::Duration;

use engine::{Buf, Error, Transport};
use wire::{ChunkedDecoder, Framing, Reject, Status, parse_request};

use super::delegate::delegate_cargo;
use super::errand::Cargo;
use super::shed::unavailable;
use super::{Close, Context, Rest, flush};
use crate::handler::{Handler, Place, Request, Response};
use crate::metrics::Counters;

/// A body that is larger than allowed.
const TOO_LARGE: Reject =
    Reject { status: Status::CONTENT_TOO_LARGE, reason: "the request's body is larger than is allowed" };

/// A body that does not come in time.
const TOO_SLOW: Reject =
    Reject { status: Status::REQUEST_TIMEOUT, reason: "the request's body took too long" };

/// A body whose chunks make no sense.
const MALFORMED: Reject =
    Reject { status: Status::BAD_REQUEST, reason: "the request's chunked body is malformed" };

/// Reads the body of the request at the front of the input, whose head is `length` bytes long, and has the handler
/// answer; or says why not.
pub(super) async fn answer<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    length: usize,
    rest: Rest,
    peer: SocketAddr,
) -> Result<Result<Box<Response>, (Box<Response>, Reject)>, Close> {
    // The head makes room for the body, so it is kept aside.
    let mut head = Buf::new();
    head.append(&wire.input()[..length]);
    wire.consume(length);
    let Ok(Some((parsed, _))) = parse_request(head.bytes(), &context.limits.head) else {
        return Err(Close::Done);
    };
    let mut response = context.begin(Some(&parsed), peer, wire.now());
    if matches!(rest.body, Framing::Length(bytes) if bytes > context.limits.body_bytes) {
        return Ok(Err((response, TOO_LARGE)));
    }
    if parsed.expects_continue && wire.input().is_empty() {
        wire.output().append(b"HTTP/1.1 100 Continue\r\n\r\n");
    }
    flush(wire, context, rest.until).await?;
    let body = match read(wire, context, rest).await? {
        Ok(body) => body,
        Err(reject) => return Ok(Err((response, reject))),
    };
    let request = Request { head: &parsed, peer, body: &body, now: wire.now() };
    let (place, route) = context.place(&request);
    if place == Place::Worker {
        let Some(ticket) = context.ticket(&request, route) else {
            unavailable(&mut response, &context.counters.in_flight_refused);
            return Ok(Ok(response));
        };
        let cargo = Cargo::new(head, body, response, peer);
        return delegate_cargo(context, cargo, ticket).await.map(|cargo| Ok(cargo.response));
    }
    context.call(&request, &mut response, route);
    Ok(Ok(response))
}

/// Reads a whole body.
async fn read<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    rest: Rest,
) -> Result<Result<Vec<u8>, Reject>, Close> {
    let (begun, mut received) = (wire.deadline(Duration::ZERO), 0);
    let until = begun.later(context.limits.body_time).earlier(rest.until);
    let mut body = Vec::new();
    let mut decoder = ChunkedDecoder::new();
    loop {
        let done = match rest.body {
            Framing::None => true,
            Framing::Length(length) => {
                let n = wire.input().len().min(length as usize - body.len());
                body.extend_from_slice(&wire.input()[..n]);
                wire.consume(n);
                body.len() as u64 == length
            }
            Framing::Chunked => match decoder.decode(wire.input()) {
                Ok(step) => {
                    body.extend_from_slice(&wire.input()[step.data.clone()]);
                    wire.consume(step.consumed);
                    step.done
                }
                Err(_) => return Ok(Err(MALFORMED)),
            },
        };
        if body.len() as u64 > context.limits.body_bytes {
            return Ok(Err(TOO_LARGE));
        }
        if done {
            return Ok(Ok(body));
        }
        if !wire.input().is_empty() {
            continue;
        }
        let until = until.earlier(context.limits.at_least_rate(begun, received));
        match wire.fill(until, || false).await {
            Ok(0) => return Err(Close::CutShort),
            Ok(n) => {
                received += n as u64;
                Counters::add(&context.counters.bytes_received, n as u64);
            }
            Err(Error::TimedOut) => return Ok(Err(TOO_SLOW)),
            Err(error) => return Err(Close::Broken(error)),
        }
    }
}
