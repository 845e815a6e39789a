//! Reading bytes that nobody wants, within bounds: unwanted request bodies, and what follows an error.

use engine::{Deadline, Transport};
use wire::{ChunkedDecoder, Framing};

use super::Close;
use crate::limits::Limits;

/// Reads and drops the body of a request, so that the next request can be found behind it.
pub(super) async fn discard<T: Transport>(wire: &mut T, limits: &Limits, body: Framing) -> Result<(), Close> {
    let until = wire.deadline(limits.discard_time);
    match body {
        Framing::None => Ok(()),
        Framing::Length(length) if length > limits.discard_bytes => Err(Close::NotDiscarded),
        Framing::Length(length) => discard_length(wire, length, until).await,
        Framing::Chunked => discard_chunked(wire, limits.discard_bytes, until).await,
    }
}

async fn discard_length<T: Transport>(wire: &mut T, length: u64, until: Deadline) -> Result<(), Close> {
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

async fn discard_chunked<T: Transport>(wire: &mut T, most: u64, until: Deadline) -> Result<(), Close> {
    let mut decoder = ChunkedDecoder::new();
    let mut read = 0;
    loop {
        let step = decoder.decode(wire.input()).map_err(|_| Close::NotDiscarded)?;
        wire.consume(step.consumed);
        read += step.consumed as u64;
        if step.done {
            return Ok(());
        }
        if read > most {
            return Err(Close::NotDiscarded);
        }
        if step.consumed == 0 || wire.input().is_empty() {
            more(wire, until).await?;
        }
    }
}

async fn more<T: Transport>(wire: &mut T, until: Deadline) -> Result<(), Close> {
    match wire.fill(until, || false).await {
        Ok(0) => Err(Close::CutShort),
        Ok(_) => Ok(()),
        Err(engine::Error::TimedOut) => Err(Close::NotDiscarded),
        Err(error) => Err(Close::Broken(error)),
    }
}

/// Ends the sending side and reads on for a while, so that the client can read the last answer: closing at
/// once with unread bytes would reset the connection under it (RFC 9112, 9.6).
pub(super) async fn linger<T: Transport>(wire: &mut T, limits: &Limits) {
    if wire.shutdown().await.is_err() {
        return;
    }
    let until = wire.deadline(limits.discard_time);
    let mut read = 0;
    while read <= limits.discard_bytes {
        wire.consume(wire.input().len());
        match wire.fill(until, || false).await {
            Ok(n) if n > 0 => read += n as u64,
            _ => return,
        }
    }
}
