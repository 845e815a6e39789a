//! How a connection ends: why, with which last words, and so that the client can read them.

use std::net::SocketAddr;
use std::time::Duration;

use engine::{Deadline, Error, Transport, yield_now};
use rustix::io::Errno;
use wire::{Framing, Reject};

use super::unsent::Wire;
use super::{Context, Persistence, Rest, answer, flush};
use crate::handler::{Body, Handler, Response};
use crate::metrics::Counters;
use crate::service::refusal;

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Close {
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
    /// A body that nobody wanted was too large or too slow, or made no sense.
    NotDiscarded,
    /// A file was changed while it was being sent.
    FileChanged,
    /// Sending failed, or receiving.
    Broken(Error),
}

impl Close {
    /// A failure to send.
    pub(super) fn sending<T: Transport>(error: Error, wire: &T, whole_until: Deadline) -> Close {
        match error {
            Error::TimedOut if whole_until.has_passed(wire.now()) => Close::RequestTimeout,
            Error::TimedOut => Close::SendTimeout,
            // The file ends before the part that was to be sent of it.
            Error::Os(Errno::NODATA) => Close::FileChanged,
            error => Close::Broken(error),
        }
    }

    /// Whether the client would have to be cut off from what it takes no more of.
    pub(super) fn is_reset(self) -> bool {
        matches!(self, Close::SendTimeout | Close::RequestTimeout)
    }

    /// Whether there are answers that the client can still read, though the connection ends in the middle of something.
    pub(super) fn leaves_answers(self) -> bool {
        matches!(self, Close::NotDiscarded | Close::FileChanged)
    }
}

/// How long a connection that is refused is read on: as a rule its request is there by then, and the answer is not lost to a
/// reset. No longer, since it has its place without being counted for its address.
const REFUSED_TIME: Duration = Duration::from_millis(5);

/// Refuses a connection whose address has as many as it may.
pub(super) async fn turn_away<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
) -> Result<Close, Close> {
    wire.output().append(refusal(Counters::read(&context.counters.address_refused)));
    flush(wire, context, Deadline::NEVER).await?;
    linger(wire, REFUSED_TIME).await;
    Ok(Close::AddressFull)
}

/// Answers what cannot be answered otherwise, and lets the client read it before the connection goes.
pub(super) async fn refuse<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    mut response: Box<Response>,
    reject: Reject,
    head_only: bool,
) -> Result<Close, Close> {
    let text = format!("{} {}: {}\n", reject.status.code(), reject.status.reason(), reject.reason);
    response.plain(reject.status).body(Body::Owned(text.into()));
    let rest = Rest {
        body: Framing::None,
        head_only,
        persistence: Persistence::Close,
        until: Deadline::NEVER,
        may_have_more: true,
    };
    answer(wire, context, response, rest).await?;
    flush(wire, context, rest.until).await?;
    linger(wire, context.limits.discard_time).await;
    Ok(Close::Done)
}

/// The same for a request whose head cannot be read.
pub(super) async fn refuse_head<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    peer: SocketAddr,
    reject: Reject,
) -> Result<Close, Close> {
    let response = context.begin(Err(wire.input()), peer, wire.now());
    let is_head = is_head(wire.input());
    refuse(wire, context, response, reject, is_head).await
}

/// Whether the request that begins so, and that cannot be read, is one whose answer has no body (RFC 9110, 9.3.2).
fn is_head(input: &[u8]) -> bool {
    input.trim_ascii_start().starts_with(b"HEAD ")
}

/// Ends a connection after its last answer.
pub(super) async fn finish<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    rest: Rest,
) -> Result<(), Close> {
    flush(wire, context, rest.until).await?;
    let is_unread = !wire.input().is_empty() || rest.body != Framing::None;
    if is_unread || (rest.may_have_more && Box::pin(wire.fill_now()).await > 0) {
        // Closing a socket with unread bytes resets it, and the client could lose the answer.
        Box::pin(linger(wire, context.limits.discard_time)).await;
    }
    Ok(())
}

/// Ends a connection in the middle of something: the client is to have what was answered before.
pub(super) async fn part<T: Transport, H: Handler>(wire: &mut Wire<T, H>, context: &Context<H>) {
    if flush(wire, context, Deadline::NEVER).await.is_ok() {
        linger(wire, context.limits.discard_time).await;
    }
}

/// Ends the sending side and reads on for a while, so that the client can read the last answer: closing at
/// once with unread bytes would reset the connection under it (RFC 9112, 9.6). Only time bounds it: a client that sends a
/// large body reads no answer before it is through, or sees the end.
async fn linger<T: Transport, H: Handler>(wire: &mut Wire<T, H>, time: Duration) {
    if wire.shutdown().await.is_err() {
        return;
    }
    let until = wire.deadline(time);
    while !until.has_passed(wire.now()) {
        let seen = wire.input().len();
        wire.consume(seen);
        match wire.fill_rest(until).await {
            // However fast it sends, others have their turn.
            Ok(n) if n > 0 => yield_now().await,
            _ => return,
        }
    }
}
