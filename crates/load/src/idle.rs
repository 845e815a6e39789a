//! A kept connection that has lain idle, looked at before the next request goes out on it: the server may have ended it, as it
//! may at any time (RFC 9112, 9.5), or said something that nobody asked for.

use std::time::{Duration, Instant};

use engine::{Deadline, Driver, Error, Tcp, Transport};
use wire::parse_answer;

/// Time from which on a connection counts as idle. Looking takes a system call, which one that is used again at once is spared:
/// there an end is one in the middle of the work, and an error.
const IDLE: Duration = Duration::from_millis(10);

/// What has become of a connection.
pub(crate) enum Found {
    /// It is as it was.
    Quiet,
    /// The server has ended it.
    Ended,
    /// Bytes have come that answer nothing, and must not pass for the next answer.
    Unasked,
}

/// Looks at a connection that was used `last`, and is to be used again at `now`.
pub(crate) async fn look<D: Driver>(wire: &mut Tcp<D>, last: Option<Instant>, now: Instant) -> Found {
    let is_idle = last.is_some_and(|last| now.saturating_duration_since(last) >= IDLE);
    if !wire.input().is_empty() {
        return said(wire.input());
    }
    if !is_idle {
        return Found::Quiet;
    }
    // A receive that is given up at once: what has come is there, whether the driver has it already or the socket.
    match wire.fill(Deadline::NEVER, || true).await {
        Err(Error::Canceled) => Found::Quiet,
        Ok(0) | Err(_) => Found::Ended,
        Ok(_) => said(wire.input()),
    }
}

/// What it means that a server says something unasked: with 408 it ends a connection on which it has waited for too long for a
/// request (RFC 9110, 15.5.9).
fn said(bytes: &[u8]) -> Found {
    match parse_answer(bytes, false) {
        Ok(Some((head, _))) if head.code == 408 => Found::Ended,
        _ => Found::Unasked,
    }
}
