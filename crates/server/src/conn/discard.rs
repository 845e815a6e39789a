//! Reading over the body of a request that nobody wants, within bounds, so that the next request can be found behind it.

use engine::{Deadline, Transport};
use wire::{ChunkedDecoder, Framing};

use super::Close;
use super::unsent::Wire;
use crate::handler::Handler;
use crate::limits::Limits;

/// Why a body was not read to its end.
pub(super) enum Failure {
    /// It is too large or too slow.
    OutOfBounds,
    /// Its chunks make no sense.
    Malformed,
    /// The connection ended.
    Ended(Close),
}

/// Reads and drops the body of a request.
pub(super) async fn discard<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    limits: &Limits,
    body: Framing,
) -> Result<(), Failure> {
    let until = wire.deadline(limits.discard_time);
    match body {
        Framing::None => Ok(()),
        body if limits.is_too_long(body) => Err(Failure::OutOfBounds),
        Framing::Length(length) => discard_length(wire, length, until).await,
        Framing::Chunked => discard_chunked(wire, limits.discard_bytes, until).await,
    }
}

async fn discard_length<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    length: u64,
    until: Deadline,
) -> Result<(), Failure> {
    let mut left = length;
    loop {
        let n = wire.input().len().min(left as usize);
        wire.consume(n);
        left -= n as u64;
        if left == 0 {
            return Ok(());
        }
        more(wire, until).await?;
    }
}

async fn discard_chunked<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    most: u64,
    until: Deadline,
) -> Result<(), Failure> {
    let mut decoder = ChunkedDecoder::new();
    let mut read = 0;
    loop {
        // What stands behind the bound is not looked at: the answer must not depend on whether it has come already.
        let most_now = usize::try_from(most - read).unwrap_or(usize::MAX).saturating_add(1);
        let input = wire.input();
        let within = &input[..input.len().min(most_now)];
        let step = decoder.decode(within).map_err(|_| Failure::Malformed)?;
        wire.consume(step.consumed);
        read += step.consumed as u64;
        if read > most {
            return Err(Failure::OutOfBounds);
        }
        if step.done {
            return Ok(());
        }
        if step.consumed == 0 || wire.input().is_empty() {
            more(wire, until).await?;
        }
    }
}

async fn more<T: Transport, H: Handler>(wire: &mut Wire<T, H>, until: Deadline) -> Result<(), Failure> {
    match wire.fill_rest(until).await {
        Ok(0) => Err(Failure::Ended(Close::CutShort)),
        Ok(_) => Ok(()),
        Err(engine::Error::TimedOut) => Err(Failure::OutOfBounds),
        Err(error) => Err(Failure::Ended(Close::Broken(error))),
    }
}
