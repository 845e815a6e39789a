//! The HTTP/1.1 connection: read a request, answer it, and so on until one side has had enough.

mod addresses;
mod body;
mod context;
mod delegate;
mod discard;
mod errand;
mod ids;
mod shed;
mod write;

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use engine::{Deadline, Error, More, Stop, Transport, yield_now};
use rustix::io::Errno;
use wire::{Framing, Method, Reject, Status, Version, parse_request};

pub(crate) use addresses::Addresses;
use addresses::Entered;
pub(crate) use context::{Context, Setup};
pub(crate) use errand::Errand;
pub(crate) use ids::RequestIds;

use crate::handler::{Handler, Place, Request, Response};
use crate::metrics::Counters;
use crate::service::refusal;
use delegate::{Ticket, delegate};
use discard::{discard, linger};
use shed::{too_many, unavailable};
use write::{send_body, write_head};

/// Answers after which a connection lets others have their turn, however many more requests it has sent.
const TURN: u32 = 64;

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Close {
    /// One side wanted it, between two messages.
    Done,
    /// It goes on at another reactor.
    Moved,
    /// The client left in the middle of a request.
    CutShort,
    /// It was idle for too long.
    Idle,
    /// A request's head took too long, and was answered with 408.
    HeadTimeout,
    /// The client took too long to take its response.
    SendTimeout,
    /// The request took too long as a whole.
    RequestTimeout,
    /// The client's address has as many connections as it may.
    AddressFull,
    /// A body that nobody wanted was too large or too slow.
    NotDiscarded,
    /// A file was changed while it was being sent.
    FileChanged,
    /// Sending failed, or receiving.
    Broken(Error),
}

/// What one look at the input came to.
enum Turn {
    /// The head of a request is not there yet.
    Incomplete,
    /// A request was taken from the input and answered.
    Answered(Box<Response>, Rest),
    /// A request with a head of this many bytes is there, and is for a worker.
    Delegated(usize, Rest, Box<Response>, Ticket),
    /// A request with a head of this many bytes is there, whose handler wants its body.
    WantsBody(usize, Rest),
    /// What came is no request that can be answered; say why and close.
    Refused(Reject),
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
#[expect(
    clippy::manual_async_fn,
    reason = "an async fn keeps what it is given twice, and each connection has room for it"
)]
pub(crate) fn serve<T: Transport, H: Handler>(
    mut wire: T,
    context: Rc<Context<H>>,
    peer: SocketAddr,
    stop: Stop,
) -> impl Future<Output = ()> {
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
        if matches!(close, Close::SendTimeout | Close::RequestTimeout) {
            // It would take up the kernel's memory until it reads, or for ever.
            wire.reset();
        }
        context.ended(close);
    }
}

/// Refuses a connection whose address has as many as it may.
async fn turn_away<T: Transport, H: Handler>(wire: &mut T, context: &Context<H>) -> Result<Close, Close> {
    wire.output().append(refusal(Counters::read(&context.counters.address_refused)));
    flush(wire, context, Deadline::NEVER).await?;
    linger(wire, &context.limits).await;
    Ok(Close::AddressFull)
}

async fn converse<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    peer: SocketAddr,
    stop: &Stop,
) -> Result<Close, Close> {
    let mut answers = wire.answered_before();
    // When the request at hand began; the first one with the connection.
    let mut begun = (answers == 0).then(|| wire.deadline(Duration::ZERO));
    loop {
        let (response, rest) = match take_turn(wire, context, peer, stop, answers, begun) {
            Turn::Answered(response, rest) => (response, rest),
            Turn::Delegated(length, rest, response, ticket) => {
                // What was answered before must not wait for this one.
                flush(wire, context, rest.until).await?;
                (delegate(wire, context, length, response, peer, ticket).await?, rest)
            }
            Turn::WantsBody(length, rest) => {
                // In a box, like a refusal: few connections send bodies.
                match Box::pin(body::answer(wire, context, length, rest, peer)).await? {
                    Ok(response) => (response, Rest { body: Framing::None, ..rest }),
                    Err((response, reject)) => {
                        Counters::count(&context.counters.bodies_refused);
                        return Box::pin(refuse(wire, context, response, reject)).await;
                    }
                }
            }
            Turn::Refused(reject) => {
                Counters::count(&context.counters.heads_refused);
                // In a box, as it is rare and would make every connection larger by its size.
                let response = context.begin(None, peer, wire.now());
                return Box::pin(refuse(wire, context, response, reject)).await;
            }
            Turn::Incomplete => {
                flush(wire, context, Deadline::NEVER).await?;
                let between = begun.is_none() && wire.input().is_empty() && !stop.is_set();
                // In a box, as is all that few connections come to.
                if between && wire.note_answers(answers) && Box::pin(wire.relocate(peer)).await {
                    return Ok(Close::Moved);
                }
                if let Some(close) = await_input(wire, context, peer, stop, &mut begun).await? {
                    return Ok(close);
                }
                continue;
            }
        };
        begun = None;
        let persistence = answer(wire, context, response, rest).await?;
        if persistence == Persistence::Close {
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
    begun: Option<Deadline>,
) -> Turn {
    if wire.input().is_empty() {
        return Turn::Incomplete;
    }
    let (head, length) = match parse_request(wire.input(), &context.limits.head) {
        Ok(Some(parsed)) => parsed,
        Ok(None) => return Turn::Incomplete,
        Err(reject) => return Turn::Refused(reject),
    };
    let now = wire.now();
    let request = Request { head: &head, peer, body: &[], now };
    let over_rate = context.over_rate(&request);
    let wants_body =
        head.framing != Framing::None && over_rate.is_none() && context.handler.wants_body(&request);
    // A body that is too long to be dropped is not waited for; but the client is to have the answer.
    let is_cut_short = over_rate.is_some()
        && matches!(head.framing, Framing::Length(length) if length > context.limits.discard_bytes);
    let last = !head.keep_alive
        || is_cut_short
        // The client waits for a 100 that will not come: whether its body follows cannot be known.
        || (head.expects_continue && !wants_body)
        || answers + 1 == context.limits.requests_per_connection
        // Requests that came in before the stop are still answered.
        || (stop.is_set() && wire.input().len() == length);
    let persistence = match head.version {
        _ if last => Persistence::Close,
        Version::Http10 => Persistence::KeepAliveSaid,
        Version::Http11 => Persistence::KeepAlive,
    };
    let until = context.limits.whole_request(begun.unwrap_or_else(|| wire.deadline(Duration::ZERO)));
    let rest = Rest { body: head.framing, head_only: head.method == Method::Head, persistence, until };
    if wants_body {
        return Turn::WantsBody(length, rest);
    }
    let mut response = context.begin(Some(&head), peer, now);
    if let Some(wait) = over_rate {
        too_many(&mut response, wait, &context.counters.rate_limited);
        wire.consume(length);
        return Turn::Answered(response, rest);
    }
    let (place, route) = context.place(&request);
    if place == Place::Reactor {
        context.call(&request, &mut response, route);
    } else if let Some(ticket) = context.ticket(&request, route) {
        return Turn::Delegated(length, rest, response, ticket);
    } else {
        unavailable(&mut response, &context.counters.in_flight_refused);
    }
    wire.consume(length);
    Turn::Answered(response, rest)
}

/// Writes an answer, and reads what the request still has for a body.
async fn answer<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    mut response: Box<Response>,
    mut rest: Rest,
) -> Result<Persistence, Close> {
    if rest.until != Deadline::NEVER && rest.until.has_passed(Instant::now()) {
        response.clear();
        unavailable(&mut response, &context.counters.request_timeouts);
        rest = Rest { until: Deadline::NEVER, persistence: Persistence::Close, ..rest };
    }
    write_head(wire, context, &mut response, rest).await?;
    let has_body = !rest.head_only && !response.is_bodiless();
    let mut sent = Ok(());
    if has_body {
        sent = send_body(wire, context, &response.body, rest.until).await;
    }
    context.answered(&response, if has_body { response.body.len() } else { 0 }, sent.is_ok());
    context.give_response(response);
    sent?;
    if rest.body != Framing::None && rest.persistence != Persistence::Close {
        // In a box, as is all that few connections come to.
        Box::pin(drop_body(wire, context, rest)).await?;
    }
    Ok(rest.persistence)
}

/// Reads a body that nobody wanted, after its request was answered.
async fn drop_body<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    rest: Rest,
) -> Result<(), Close> {
    flush(wire, context, rest.until).await?;
    discard(wire, &context.limits, rest.body).await
}

/// Waits for input: for the next request as long as a connection may be idle, for the rest of a head as long
/// as a head may take. `Some` is the end of the connection.
async fn await_input<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    peer: SocketAddr,
    stop: &Stop,
    begun: &mut Option<Deadline>,
) -> Result<Option<Close>, Close> {
    let (idle, limits) = (wire.input().is_empty(), &context.limits);
    let until = match *begun {
        None if idle => wire.deadline(limits.idle_time),
        _ => {
            let begun = *begun.get_or_insert(wire.deadline(Duration::ZERO));
            begun.later(limits.head_time).earlier(limits.whole_request(begun))
        }
    };
    let since = wire.now();
    match wire.fill(until, || idle && (stop.is_set() || context.gives_way(since))).await {
        Ok(0) if idle => Ok(Some(Close::Done)),
        Ok(0) => Ok(Some(Close::CutShort)),
        Ok(n) => {
            Counters::add(&context.counters.bytes_received, n as u64);
            Ok(None)
        }
        Err(Error::Canceled) => Ok(Some(Close::Done)),
        Err(Error::TimedOut) if idle => Ok(Some(Close::Idle)),
        Err(Error::TimedOut) => {
            let reject =
                Reject { status: Status::REQUEST_TIMEOUT, reason: "the request's head took too long" };
            let response = context.begin(None, peer, wire.now());
            Box::pin(refuse(wire, context, response, reject)).await?;
            Ok(Some(Close::HeadTimeout))
        }
        Err(error) => Err(Close::Broken(error)),
    }
}

/// Answers what cannot be answered otherwise, and lets the client read it before the connection goes.
async fn refuse<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    mut response: Box<Response>,
    reject: Reject,
) -> Result<Close, Close> {
    let text = format!("{} {}: {}\n", reject.status.code(), reject.status.reason(), reject.reason);
    response.plain(reject.status).body(crate::Body::Owned(text.into()));
    let rest = Rest {
        body: Framing::None,
        head_only: false,
        persistence: Persistence::Close,
        until: Deadline::NEVER,
    };
    answer(wire, context, response, rest).await?;
    flush(wire, context, rest.until).await?;
    linger(wire, &context.limits).await;
    Ok(Close::Done)
}

/// Ends a connection after its last answer.
async fn finish<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    rest: Rest,
) -> Result<(), Close> {
    flush(wire, context, rest.until).await?;
    if !wire.input().is_empty() || rest.body != Framing::None {
        // Closing a socket with unread bytes resets it, and the client could lose the answer.
        Box::pin(linger(wire, &context.limits)).await;
    }
    Ok(())
}

/// Sends what was answered so far.
async fn flush<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    until: Deadline,
) -> Result<(), Close> {
    if wire.pending() == 0 {
        return Ok(());
    }
    write::send(wire, context, More::No, until, Deadline::NEVER).await
}

impl Close {
    /// A failure to send.
    fn sending<T: Transport>(error: Error, wire: &T, whole_until: Deadline) -> Close {
        match error {
            Error::TimedOut if whole_until.has_passed(wire.now()) => Close::RequestTimeout,
            Error::TimedOut => Close::SendTimeout,
            // The file ends before the part that was to be sent of it.
            Error::Os(Errno::NODATA) => Close::FileChanged,
            error => Close::Broken(error),
        }
    }
}
