//! Requests whose body is read whole, within bounds, before the handler is asked: because it wants it, or because the chunks
//! that it comes in must make sense.

use std::net::SocketAddr;
use std::time::Duration;

use engine::{Buf, Error, Transport};
use wire::{ChunkedDecoder, Framing, Reject, Status, parse_request};

use super::context::Way;
use super::delegate::delegate_cargo;
use super::discard::{Failure, discard};
use super::errand::Cargo;
use super::unsent::Wire;
use super::{Close, Context, Persistence, Rest, flush};
use crate::handler::{Handler, Request, Response};
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

/// What a client that waits for it is told before it sends its body (RFC 9110, 10.1.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A response, and what is still to be done about its request; or what was begun of one, and why the request is refused.
type Outcome = Result<(Box<Response>, Rest), (Box<Response>, Reject)>;

/// Reads the body of the request at the front of the input, whose head is `length` bytes long, and has the handler
/// answer; or says why not. A body that is not wanted is dropped as it comes.
pub(super) async fn answer<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    length: usize,
    mut rest: Rest,
    is_wanted: bool,
    peer: SocketAddr,
) -> Result<Outcome, Close> {
    // The head makes room for the body, so it is kept aside.
    let mut head = Buf::new();
    head.append(&wire.input()[..length]);
    wire.consume(length);
    let Ok(Some((parsed, _))) = parse_request(head.bytes(), &context.limits.head) else {
        return Err(Close::Done);
    };
    let mut response = context.begin(Ok(&parsed), peer, wire.now());
    if matches!(rest.body, Framing::Length(bytes) if bytes > context.limits.body_bytes) {
        return Ok(Err((response, TOO_LARGE)));
    }
    let body = match receive(wire, context, &mut rest, is_wanted, parsed.expects_continue).await {
        Ok(Ok(body)) => body,
        Ok(Err(reject)) => return Ok(Err((response, reject))),
        Err(close) => {
            context.forgo(response);
            return Err(close);
        }
    };
    let request = Request { head: &parsed, peer, body: &body, now: wire.now(), may_be_left: false };
    match context.way(&request) {
        Ok(Way::Here(route)) => context.call(&request, &mut response, route),
        Ok(Way::Worker(ticket)) => {
            let cargo = Cargo::new(head, body, response, peer);
            let response = delegate_cargo(&**wire, context, cargo, rest.until, ticket).await?;
            return Ok(Ok((response, rest)));
        }
        Err(denial) => denial.answer(&mut response, &context.counters),
    }
    Ok(Ok((response, rest)))
}

/// Reads a whole body, or drops it as it comes, after the client was told to go on if it waits for that.
async fn receive<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    rest: &mut Rest,
    is_wanted: bool,
    expects_continue: bool,
) -> Result<Result<Vec<u8>, Reject>, Close> {
    if expects_continue && wire.input().is_empty() {
        if wire.output().room() < CONTINUE.len() {
            flush(wire, context, rest.until).await?;
        }
        wire.output().append(CONTINUE);
    }
    flush(wire, context, rest.until).await?;
    if !is_wanted {
        return Ok(drop_chunks(wire, context, rest).await?.map(|()| Vec::new()));
    }
    let read = read(wire, context, *rest).await?;
    rest.body = Framing::None;
    Ok(read)
}

/// Drops a body that nobody wants. Where it is too large or too slow the answer will be the last.
async fn drop_chunks<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    rest: &mut Rest,
) -> Result<Result<(), Reject>, Close> {
    match discard(wire, &context.limits, rest.body).await {
        Ok(()) => rest.body = Framing::None,
        Err(Failure::OutOfBounds) => {
            Counters::count(&context.counters.bodies_not_discarded);
            rest.persistence = Persistence::Close;
        }
        Err(Failure::Malformed) => return Ok(Err(MALFORMED)),
        Err(Failure::Ended(close)) => return Err(close),
    }
    Ok(Ok(()))
}

/// Reads a whole body.
async fn read<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
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
        match wire.fill_rest(until).await {
            Ok(0) => return Err(Close::CutShort),
            Ok(n) => received += n as u64,
            Err(Error::TimedOut) => return Ok(Err(TOO_SLOW)),
            Err(error) => return Err(Close::Broken(error)),
        }
    }
}
