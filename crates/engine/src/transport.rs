//! A connection's bytes, buffered both ways: what a protocol reads from, writes to, fills and flushes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::buf::Buf;
use crate::driver::Driver;
use crate::op::{Error, FileRange, More};
use crate::stream::{Stream, yield_now};
use crate::timer::Deadline;

/// What a protocol needs of a connection. [`Tcp`] is one; TLS will be another, around it.
#[expect(async_fn_in_trait, reason = "a connection stays on its thread, so no Send bound is wanted")]
pub trait Transport {
    /// Bytes received and not yet consumed.
    fn input(&self) -> &[u8];

    /// Drops the first `n` bytes of the input.
    fn consume(&mut self, n: usize);

    /// Takes the input with its buffer, for a while: to have somebody else read it. Nothing may be received
    /// until it is restored.
    fn take_input(&mut self) -> Buf;

    /// Puts input back that was taken.
    fn restore_input(&mut self, input: Buf);

    /// Receives more input: how many bytes came, 0 at the end of the stream. Fails with `ENOBUFS` if a
    /// whole buffer of input has not been consumed. While `stop` holds, a wait ends with
    /// [`Error::Canceled`].
    async fn fill(&mut self, until: Deadline, stop: impl Fn() -> bool) -> Result<usize, Error>;

    /// Receives more of what has begun: no stop between two requests ends this wait.
    async fn fill_rest(&mut self, until: Deadline) -> Result<usize, Error> {
        self.fill(until, || false).await
    }

    /// Where output is put until it is flushed.
    fn output(&mut self) -> &mut Buf;

    /// Bytes of output not yet flushed.
    fn pending(&self) -> usize;

    /// Sends all output.
    async fn flush(&mut self, more: More, until: Deadline) -> Result<(), Error>;

    /// Sends a part of a file, behind output that was flushed. By when it must go on is asked each time, with the number
    /// of bytes sent so far.
    async fn send_file(
        &mut self,
        range: FileRange,
        until: impl Fn(&Self, u64) -> Deadline,
    ) -> Result<(), Error>;

    /// Makes the coming end of the connection a reset: what was sent and not yet taken is dropped, rather than kept for a
    /// peer that does not read.
    fn reset(&mut self);

    /// Tells the peer that nothing more will be sent; receiving goes on.
    async fn shutdown(&mut self) -> Result<(), Error>;

    /// Requests that the connection answered before it came here from another thread; 0 for a new one.
    fn answered_before(&self) -> u32 {
        0
    }

    /// Notes that so many requests have been answered by now, and all was sent; whether the connection may be among
    /// those that should [move](Self::relocate).
    fn note_answers(&mut self, _: u32) -> bool {
        false
    }

    /// Moves the connection to another thread, if it should and can; with `true` it is over here. Only where nothing
    /// received is unread, and nothing unsent.
    async fn relocate(&mut self, _: SocketAddr) -> bool {
        false
    }

    /// The deadline that is `after` from now.
    fn deadline(&self, after: Duration) -> Deadline;

    /// The time as of the last wake-up.
    fn now(&self) -> Instant;

    /// Waits until the deadline.
    async fn sleep(&self, until: Deadline);
}

/// A TCP connection. It holds a buffer in either direction only while there are bytes in it.
pub struct Tcp<D: Driver> {
    stream: Stream<D>,
    input: Option<Buf>,
    output: Option<Buf>,
}

impl<D: Driver> Tcp<D> {
    /// A transport over a connected stream.
    pub fn new(stream: Stream<D>) -> Self {
        Tcp { stream, input: None, output: None }
    }

    /// The stream below.
    pub fn stream(&self) -> &Stream<D> {
        &self.stream
    }
}

impl<D: Driver> Transport for Tcp<D> {
    fn input(&self) -> &[u8] {
        self.input.as_ref().map_or(&[], Buf::bytes)
    }

    fn consume(&mut self, n: usize) {
        let Some(input) = &mut self.input else { return };
        input.consume(n);
        if input.is_empty()
            && let Some(buf) = self.input.take()
        {
            self.stream.io().driver().give_buf(buf);
        }
    }

    fn take_input(&mut self) -> Buf {
        self.input.take().unwrap_or_default()
    }

    fn restore_input(&mut self, input: Buf) {
        self.input = Some(input);
    }

    async fn fill(&mut self, until: Deadline, stop: impl Fn() -> bool) -> Result<usize, Error> {
        let mut input = self.input.take();
        if let Some(buf) = &mut input
            && buf.room() == 0
        {
            buf.compact();
            if buf.room() == 0 {
                self.input = input;
                return Err(Error::Os(rustix::io::Errno::NOBUFS));
            }
        }
        let (buf, result) = self.stream.recv(input, until, stop).await;
        match buf {
            Some(buf) if buf.is_empty() => self.stream.io().driver().give_buf(buf),
            buf => self.input = buf,
        }
        result
    }

    async fn fill_rest(&mut self, until: Deadline) -> Result<usize, Error> {
        if D::BLOCKS && self.input.is_none() {
            // Such a driver takes a wait without a buffer for one between two requests.
            self.input = Some(self.stream.io().driver().take_buf());
        }
        self.fill(until, || false).await
    }

    fn output(&mut self) -> &mut Buf {
        let io = self.stream.io();
        self.output.get_or_insert_with(|| io.driver().take_buf())
    }

    fn pending(&self) -> usize {
        self.output.as_ref().map_or(0, Buf::len)
    }

    async fn flush(&mut self, more: More, until: Deadline) -> Result<(), Error> {
        while let Some(buf) = self.output.take_if(|buf| !buf.is_empty()) {
            let (buf, result) = self.stream.send(buf, more, until).await;
            self.output = Some(buf);
            result?;
        }
        if let Some(buf) = self.output.take() {
            self.stream.io().driver().give_buf(buf);
        }
        Ok(())
    }

    fn reset(&mut self) {
        self.stream.reset();
    }

    async fn send_file(
        &mut self,
        range: FileRange,
        until: impl Fn(&Self, u64) -> Deadline,
    ) -> Result<(), Error> {
        let (length, mut rest) = (range.length, range);
        while rest.length > 0 {
            let sent = self.stream.send_file(rest.clone(), until(self, length - rest.length)).await?;
            if sent == 0 {
                // The file was cut short while it was being sent; the length that was announced cannot be
                // kept, so the connection must end.
                return Err(Error::Os(rustix::io::Errno::NODATA));
            }
            rest.offset += sent;
            rest.length -= sent;
            if rest.length > 0 {
                yield_now().await;
            }
        }
        Ok(())
    }

    async fn shutdown(&mut self) -> Result<(), Error> {
        self.stream.shutdown().await
    }

    fn answered_before(&self) -> u32 {
        self.stream.answered_before()
    }

    fn note_answers(&mut self, answers: u32) -> bool {
        self.stream.note_answers(answers)
    }

    async fn relocate(&mut self, peer: SocketAddr) -> bool {
        self.input.is_none() && self.pending() == 0 && self.stream.relocate(peer).await
    }

    fn deadline(&self, after: Duration) -> Deadline {
        self.stream.io().deadline(after)
    }

    fn now(&self) -> Instant {
        self.stream.io().now()
    }

    async fn sleep(&self, until: Deadline) {
        self.stream.io().sleep(until).await;
    }
}

impl<D: Driver> Drop for Tcp<D> {
    fn drop(&mut self) {
        for buf in [self.input.take(), self.output.take()].into_iter().flatten() {
            self.stream.io().driver().give_buf(buf);
        }
    }
}
