//! The HTTP/1.1 connection: read a request, answer it, and so on until one side has had enough.

mod addresses;
mod body;
mod context;
mod delegate;
mod discard;
mod end;
mod errand;
mod ids;
mod shed;
mod unsent;
mod write;

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use engine::{Deadline, Error, More, Stop, Transport, yield_now};
use wire::{Framing, Method, Reject, RequestHead, Status, Version, parse_request};

pub(crate) use addresses::Addresses;
use addresses::Entered;
pub(crate) use context::{Context, Setup};
pub(crate) use errand::Errand;
pub(crate) use ids::RequestIds;

use crate::handler::{Handler, Request, Response};
use crate::metrics::Counters;
use delegate::{Ticket, delegate, flush_before};
use discard::{Failure, discard};
use end::{Close, finish, part, refuse, refuse_head, turn_away};
use shed::unavailable;
use unsent::Wire;
use write::{bound_fields, send_body, write_head};

/// Answers after which a connection lets others have their turn, however many more requests it has sent.
const TURN: u32 = 64;

/// What one look at the input came to.
enum Turn {
    /// The head of a request is not there yet.
    Incomplete,
    /// A request was taken from the input and answered.
    Answered(Box<Response>, Rest),
    /// A request with a head of this many bytes is there, and is for a worker.
    Delegated(usize, Rest, Box<Response>, Ticket),
    /// A request with a head of this many bytes is there, whose body is to be read first; whether the handler wants it.
    Body(usize, Rest, bool),
    /// What came is no request that can be answered; say why and close.
    Refused(Reject),
}

/// How far the next request of a connection has come.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// It was not waited for yet.
    Unknown,
    /// Nothing of it is there, and something has to come by then.
    Idle(Deadline),
    /// It began then.
    Begun(Deadline),
}

impl Next {
    fn begun(self) -> Option<Deadline> {
        match self {
            Next::Begun(begun) => Some(begun),
            Next::Unknown | Next::Idle(_) => None,
        }
    }
}

/// What is still to be done about a request once its handler has answered.
#[derive(Clone, Copy, Debug)]
struct Rest {
    /// How the body of the request is framed that is still to be dropped.
    body: Framing,
    /// The answer must not have a body.
    head_only: bool,
    /// Whether the connection goes on, and how that is said.
    persistence: Persistence,
    /// By when the whole request must be over.
    until: Deadline,
    /// If the connection ends behind it: whether the client may have sent more than has been received.
    may_have_more: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Persistence {
    /// As HTTP/1.1 has it; nothing needs to be said.
    KeepAlive,
    /// An HTTP/1.0 client asked for it, and is told.
    KeepAliveSaid,
    /// This is the last answer, and the client is told.
    Close,
}

/// Serves one connection from its first byte to its last.
// An `async fn` would keep what it is given twice, and each connection has room for it.
pub(crate) fn serve<T: Transport, H: Handler>(
    transport: T,
    context: Rc<Context<H>>,
    peer: SocketAddr,
    stop: Stop,
) -> impl Future<Output = ()> {
    let mut wire = Wire::new(transport, context.clone());
    async move {
        let entered = context.enter(peer, wire.answered_before() > 0);
        let close = match entered {
            Some(None) => Box::pin(turn_away(&mut wire, &context)).await,
            _ => converse(&mut wire, &context, peer, &stop).await,
        };
        let (Ok(close) | Err(close)) = close;
        if close == Close::Moved {
            entered.flatten().into_iter().for_each(Entered::stay);
            return;
        }
        if close.leaves_answers() {
            // In a box, as is all that few connections come to.
            Box::pin(part(&mut wire, &context)).await;
        }
        if close.is_reset() {
            // It would take up the kernel's memory until it reads, or for ever.
            wire.reset();
        }
        context.ended(close);
    }
}

async fn converse<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    peer: SocketAddr,
    stop: &Stop,
) -> Result<Close, Close> {
    let mut answers = wire.answered_before();
    // The first request begins with the connection.
    let mut next = if answers == 0 { Next::Begun(wire.deadline(Duration::ZERO)) } else { Next::Unknown };
    loop {
        let (response, rest) = match take_turn(&mut **wire, context, peer, stop, answers, next) {
            Turn::Answered(response, rest) => (response, rest),
            Turn::Delegated(length, rest, response, ticket) => {
                let response = flush_before(wire, context, response, rest.until).await?;
                (delegate(&mut **wire, context, length, response, rest.until, peer, ticket).await?, rest)
            }
            Turn::Body(length, rest, is_wanted) => {
                // In a box, like a refusal: few connections send bodies.
                match Box::pin(body::answer(wire, context, length, rest, is_wanted, peer)).await? {
                    Ok(answer) => answer,
                    Err((response, reject)) => {
                        Counters::count(&context.counters.bodies_refused);
                        return Box::pin(refuse(wire, context, response, reject, rest.head_only)).await;
                    }
                }
            }
            Turn::Refused(reject) => {
                Counters::count(&context.counters.heads_refused);
                // In a box, as it is rare and would make every connection larger by its size.
                return Box::pin(refuse_head(wire, context, peer, reject)).await;
            }
            Turn::Incomplete => {
                flush(wire, context, Deadline::NEVER).await?;
                let between = next.begun().is_none() && wire.input().is_empty() && !stop.is_set();
                // In a box, as is all that few connections come to.
                if between && wire.note_answers(answers) && Box::pin(wire.relocate(peer)).await {
                    return Ok(Close::Moved);
                }
                if let Some(close) = await_input(wire, context, peer, stop, &mut next).await? {
                    return Ok(close);
                }
                continue;
            }
        };
        next = Next::Unknown;
        let rest = answer(wire, context, response, rest).await?;
        if rest.persistence == Persistence::Close {
            finish(wire, context, rest).await?;
            return Ok(Close::Done);
        }
        answers = answers.saturating_add(1);
        if answers.is_multiple_of(TURN) {
            yield_now().await;
        }
    }
}

/// Takes one request from the input, if a whole head is there, and lets the handler answer it.
fn take_turn<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    peer: SocketAddr,
    stop: &Stop,
    answers: u32,
    next: Next,
) -> Turn {
    match wire.input().first().copied() {
        Some(b'\r') if !skip_empty_lines(wire) => return Turn::Incomplete,
        Some(_) => {}
        None => return Turn::Incomplete,
    }
    let (head, length) = match parse_request(wire.input(), &context.limits.head) {
        Ok(Some(parsed)) => parsed,
        Ok(None) => return Turn::Incomplete,
        Err(reject) => return Turn::Refused(reject),
    };
    let now = wire.now();
    let request = Request { head: &head, peer, body: &[], now, may_be_left: context.has_workers() };
    let admitted = context.admit(&request);
    let wants_body = matches!(admitted, Ok(true));
    // Requests that came in before the stop are still answered.
    let stops = stop.is_set() && wire.input().len() == length;
    let persistence = persistence(context, &head, wants_body, answers, stops);
    let until = context.limits.whole_request(next.begun().unwrap_or_else(|| wire.deadline(Duration::ZERO)));
    let rest = Rest {
        body: head.framing,
        head_only: head.method == Method::Head,
        persistence,
        until,
        // Who asks for the end sends no more.
        may_have_more: head.keep_alive,
    };
    // Chunks that make no sense are refused whatever the request is, and whether or not they have come by now. A client that
    // waits for a 100 sends none.
    let is_read_first = head.framing == Framing::Chunked && admitted.is_ok() && !head.expects_continue;
    if wants_body || is_read_first {
        return Turn::Body(length, rest, wants_body);
    }
    let mut response = context.begin(Ok(&head), peer, now);
    let way = admitted.and_then(|_| context.way(&request));
    match way.and_then(|way| context.handle(way, &request, &mut response)) {
        Ok(None) => {}
        Ok(Some(ticket)) => return Turn::Delegated(length, rest, response, ticket),
        Err(denial) => denial.answer(&mut response, &context.counters),
    }
    wire.consume(length);
    Turn::Answered(response, rest)
}

/// Whether the connection goes on behind a request, and how that is said.
#[inline]
fn persistence<H: Handler>(
    context: &Context<H>,
    head: &RequestHead<'_>,
    wants_body: bool,
    answers: u32,
    stops: bool,
) -> Persistence {
    let limits = &context.limits;
    // A body that is too long to be dropped is not waited for; but the client is to have the answer.
    let is_cut_short = !wants_body && limits.is_too_long(head.framing);
    if is_cut_short {
        Counters::count(&context.counters.bodies_not_discarded);
    }
    let is_last_allowed = answers.saturating_add(1) == limits.requests_per_connection;
    if is_last_allowed {
        Counters::count(&context.counters.last_requests);
    }
    // The client waits for a 100 that will not come: whether its body follows cannot be known.
    let waits = head.expects_continue && head.framing != Framing::None && !wants_body;
    match head.version {
        _ if !head.keep_alive || is_cut_short || waits || is_last_allowed || stops => Persistence::Close,
        Version::Http10 => Persistence::KeepAliveSaid,
        Version::Http11 => Persistence::KeepAlive,
    }
}

/// Passes over the empty lines that some clients send behind a body (RFC 9112, 2.2); whether there is anything else.
#[cold]
fn skip_empty_lines<T: Transport>(wire: &mut T) -> bool {
    let lines = wire.input().chunks(2).take_while(|bytes| *bytes == b"\r\n").count();
    wire.consume(2 * lines);
    !wire.input().is_empty()
}

/// Writes an answer, and reads what the request still has for a body. An answer that comes too late is replaced, and changes what
/// is still to be done.
async fn answer<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    mut response: Box<Response>,
    mut rest: Rest,
) -> Result<Rest, Close> {
    if rest.until != Deadline::NEVER && rest.until.has_passed(Instant::now()) {
        response.clear();
        unavailable(&mut response, &context.counters.request_timeouts);
        rest = Rest { until: Deadline::NEVER, persistence: Persistence::Close, ..rest };
    }
    bound_fields(&mut response);
    let has_body = !rest.head_only && !response.is_bodiless();
    let mut sent = write_head(wire, context, &response, rest).await;
    let body_at = wire.position();
    if has_body && sent.is_ok() {
        sent = send_body(wire, context, &response.body, rest.until).await;
    }
    if rest.persistence == Persistence::Close {
        // What takes so long to send leaves time for anything.
        rest.may_have_more |= has_body && response.body.len() > engine::BUF_BYTES as u64;
    }
    match sent {
        Ok(()) => wire.answered(response, has_body),
        Err(close) => {
            context.record(&response, wire.sent_since(body_at), false);
            return Err(close);
        }
    }
    if rest.body != Framing::None && rest.persistence != Persistence::Close {
        // In a box, as is all that few connections come to.
        Box::pin(drop_body(wire, context, rest)).await?;
    }
    Ok(rest)
}

/// Reads a body that nobody wanted, after its request was answered.
async fn drop_body<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    rest: Rest,
) -> Result<(), Close> {
    flush(wire, context, rest.until).await?;
    discard(wire, &context.limits, rest.body).await.map_err(|failure| match failure {
        Failure::OutOfBounds | Failure::Malformed => Close::NotDiscarded,
        Failure::Ended(close) => close,
    })
}

/// Waits for input: for the next request as long as a connection may be idle, for the rest of a head as long
/// as a head may take. `Some` is the end of the connection.
async fn await_input<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    peer: SocketAddr,
    stop: &Stop,
    next: &mut Next,
) -> Result<Option<Close>, Close> {
    let (idle, limits) = (wire.input().is_empty(), &context.limits);
    let until = match *next {
        Next::Idle(until) if idle => until,
        Next::Unknown if idle => {
            let until = wire.deadline(limits.idle_time);
            *next = Next::Idle(until);
            until
        }
        _ => {
            let begun = next.begun().unwrap_or_else(|| wire.deadline(Duration::ZERO));
            *next = Next::Begun(begun);
            begun.later(limits.head_time).earlier(limits.whole_request(begun))
        }
    };
    let since = wire.now();
    match wire.fill(until, || idle && (stop.is_set() || context.gives_way(since))).await {
        Ok(0) if idle => Ok(Some(Close::Done)),
        Ok(0) => Ok(Some(Close::CutShort)),
        Ok(n) => {
            Counters::add(&context.counters.bytes_received, n as u64);
            if idle && wire.input().first() == Some(&b'\r') {
                // Empty lines are no request: they keep neither the connection open nor others from their turn.
                yield_now().await;
                return Ok(until.has_passed(wire.now()).then_some(Close::Idle));
            }
            Ok(None)
        }
        Err(Error::Canceled) => Ok(Some(Close::Done)),
        Err(Error::TimedOut) if idle => Ok(Some(Close::Idle)),
        Err(Error::TimedOut) => {
            let reject =
                Reject { status: Status::REQUEST_TIMEOUT, reason: "the request's head took too long" };
            Box::pin(refuse_head(wire, context, peer, reject)).await?;
            Ok(Some(Close::HeadTimeout))
        }
        Err(error) => Err(Close::Broken(error)),
    }
}

/// Sends what was answered so far.
async fn flush<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    until: Deadline,
) -> Result<(), Close> {
    if wire.pending() == 0 {
        return Ok(());
    }
    write::send(wire, context, More::No, until, Deadline::NEVER).await
}
