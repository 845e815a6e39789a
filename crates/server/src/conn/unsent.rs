//! A connection's bytes with the answers that wait in the output: the access log has them when they are sent, since before nobody
//! can say whether they are complete.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::time::Duration;

use engine::{Deadline, Error, Transport};

use super::Context;
use crate::handler::{Body, Handler, Response};
use crate::metrics::Counters;

/// A connection's bytes, and with them the answers that the log does not have yet.
pub(super) struct Wire<T, H: Handler> {
    transport: T,
    context: Rc<Context<H>>,
    /// The latest, which holds the one before it, and so on.
    unsent: Option<Box<Response>>,
    /// Bytes sent so far.
    sent: u64,
}

impl<T: Transport, H: Handler> Wire<T, H> {
    pub(super) fn new(transport: T, context: Rc<Context<H>>) -> Self {
        Wire { transport, context, unsent: None, sent: 0 }
    }

    /// Takes a response that is in the output to its last byte, and whose body is of no more use if it was not sent.
    pub(super) fn answered(&mut self, mut response: Box<Response>, has_body: bool) {
        if !has_body {
            response.body = Body::EMPTY;
        }
        self.context.count(&response);
        if !self.context.has_log() {
            return self.context.give_response(response);
        }
        response.end = self.transport.pending();
        response.earlier = self.unsent.take();
        self.unsent = Some(response);
        if self.transport.pending() == 0 {
            self.sent(0);
        }
    }

    /// Where in all that the connection sends the next byte will be that is put in the output.
    #[inline]
    pub(super) fn position(&self) -> u64 {
        self.sent + self.transport.pending() as u64
    }

    /// Bytes that were sent of what begins at this [position](Self::position).
    pub(super) fn sent_since(&self, position: u64) -> u64 {
        self.sent.saturating_sub(position)
    }

    /// So many bytes were sent past the output.
    pub(super) fn sent_beside(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// Receives more of what has begun, and counts it.
    pub(super) async fn fill_rest(&mut self, until: Deadline) -> Result<usize, Error> {
        let received = self.transport.fill_rest(until).await?;
        Counters::add(&self.context.counters.bytes_received, received as u64);
        Ok(received)
    }

    /// Receives what has come by now, without waiting: how many bytes.
    pub(super) async fn fill_now(&mut self) -> usize {
        // A wait that is to end at once is given up with a last look.
        let now = self.transport.deadline(Duration::ZERO);
        let received = self.transport.fill(now, || true).await.unwrap_or(0);
        Counters::add(&self.context.counters.bytes_received, received as u64);
        received
    }

    /// So many bytes of the output were sent, and either that was all or no more will be.
    #[inline]
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        if self.unsent.is_some() {
            self.record_unsent(bytes);
        }
    }

    /// Writes down the answers in their order: those that end within so many bytes of the output are complete.
    #[cold]
    fn record_unsent(&mut self, sent: usize) {
        let (mut latest, mut earliest) = (self.unsent.take(), None);
        while let Some(mut response) = latest {
            latest = std::mem::replace(&mut response.earlier, earliest);
            earliest = Some(response);
        }
        while let Some(mut response) = earliest {
            earliest = response.earlier.take();
            record(&self.context, &response, sent);
            self.context.give_response(response);
        }
    }
}

/// Writes down an answer of which this many bytes of the output were sent, or of what came before it there.
fn record<H: Handler>(context: &Context<H>, response: &Response, sent: usize) {
    let unsent = response.end.saturating_sub(sent);
    let bytes = response.body.len().saturating_sub(unsent as u64);
    context.record(response, bytes, unsent == 0);
}

impl<T, H: Handler> Drop for Wire<T, H> {
    fn drop(&mut self) {
        while let Some(mut response) = self.unsent.take() {
            self.unsent = response.earlier.take();
            record(&self.context, &response, 0);
        }
    }
}

impl<T, H: Handler> Deref for Wire<T, H> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.transport
    }
}

impl<T, H: Handler> DerefMut for Wire<T, H> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.transport
    }
}
