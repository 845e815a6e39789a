//! One request over a connection and its whole answer: sent, received, timed and looked at.

use std::time::{Duration, Instant};

use engine::{Deadline, Driver, Error, Io, More, Tcp, Transport};
use rustix::io::Errno;
use wire::{AnswerFraming, AnswerHead, ChunkedDecoder, parse_answer};

use crate::expect::{Body, Expected};
use crate::fault::Fault;
use crate::record::Phases;

/// How long what a slow client sends or takes at once should last, in seconds: often enough to look steady to the server.
const SLOW_TURN_S: f64 = 0.1;

/// How requests are sent and answers taken.
pub(crate) struct Manner {
    /// The answers have no content: the method is HEAD.
    pub(crate) to_head: bool,
    pub(crate) expected: Expected,
    /// Bytes per second of a slow client.
    pub(crate) send_rate: Option<f64>,
    pub(crate) receive_rate: Option<f64>,
}

impl Manner {
    /// Bytes that the kernel should hold for a slow reader: with more the server would be rid of its answer at once.
    pub(crate) fn receive_buffer(&self) -> Option<usize> {
        self.receive_rate.map(|rate| (rate * SLOW_TURN_S) as usize)
    }
}

/// A complete answer.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) bytes: u64,
    /// Those of its content.
    pub(crate) content: u64,
    pub(crate) keep_alive: bool,
    /// It is not the answer that was expected.
    pub(crate) wrong: Option<Fault>,
}

/// A connection while a request is on it.
pub(crate) struct Exchange<'a, D: Driver> {
    pub(crate) io: &'a Io<D>,
    pub(crate) wire: &'a mut Tcp<D>,
    pub(crate) manner: &'a Manner,
    pub(crate) until: Deadline,
}

impl<D: Driver> Exchange<'_, D> {
    /// Sends a request.
    pub(crate) async fn send(&mut self, bytes: &[u8], more: More) -> Result<(), Fault> {
        let Some(rate) = self.manner.send_rate else { return self.put(bytes, more).await };
        let piece = ((rate * SLOW_TURN_S) as usize).max(1);
        for piece in bytes.chunks(piece) {
            self.put(piece, More::No).await?;
            self.pause(piece.len(), rate, Fault::SendTimeout).await?;
        }
        Ok(())
    }

    async fn put(&mut self, bytes: &[u8], more: More) -> Result<(), Fault> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = &rest[self.wire.output().append(rest)..];
            // What does not fit into a buffer goes out as if it did: the rest of it follows at once.
            let more = if rest.is_empty() { more } else { More::Follows };
            if more == More::No || !rest.is_empty() {
                self.wire.flush(more, self.until).await.map_err(|error| fault(error, Fault::SendTimeout))?;
            }
        }
        Ok(())
    }

    /// Receives an answer to its last byte.
    pub(crate) async fn receive(&mut self, start: Instant, phases: &mut Phases) -> Result<Answer, Fault> {
        let mut bytes = 0;
        let head = loop {
            if let Some((head, length)) = self.parse()? {
                self.wire.consume(length);
                bytes += length as u64;
                // An interim answer (RFC 9110, 15.2) is followed by the final one.
                if head.code >= 200 {
                    break head;
                }
                continue;
            }
            let begun = bytes > 0 || !self.wire.input().is_empty();
            let late = if begun { Fault::TransferTimeout } else { Fault::FirstByteTimeout };
            let received = self.fill(late).await?;
            if received == 0 {
                return Err(if begun { Fault::ShortResponse } else { Fault::ClosedEarly });
            }
            if !begun {
                // It is here, however slowly the rest is taken.
                phases.first_byte = Some(start.elapsed());
            }
            self.take_time(received, late).await?;
        };
        let mut body = Body::of(&self.manner.expected);
        let content = match head.framing {
            AnswerFraming::None => 0,
            AnswerFraming::Length(length) => self.receive_length(length, &mut body).await?,
            AnswerFraming::Chunked => self.receive_chunked(&mut body).await?,
            AnswerFraming::UntilClose => self.receive_rest(&mut body).await?,
        };
        let wrong = self.manner.expected.wrong(head.code, body, self.manner.to_head);
        Ok(Answer { code: head.code, bytes: bytes + content, content, keep_alive: head.keep_alive, wrong })
    }

    fn parse(&self) -> Result<Option<(AnswerHead, usize)>, Fault> {
        if self.wire.input().is_empty() {
            return Ok(None);
        }
        parse_answer(self.wire.input(), self.manner.to_head).map_err(|_| Fault::Malformed)
    }

    async fn receive_length(&mut self, length: u64, body: &mut Body) -> Result<u64, Fault> {
        let mut left = length;
        loop {
            let n = self.wire.input().len().min(usize::try_from(left).unwrap_or(usize::MAX));
            body.take(&self.wire.input()[..n]);
            self.wire.consume(n);
            left -= n as u64;
            if left == 0 {
                return Ok(length);
            }
            self.more_content().await?;
        }
    }

    async fn receive_chunked(&mut self, body: &mut Body) -> Result<u64, Fault> {
        let mut decoder = ChunkedDecoder::new();
        let mut bytes = 0;
        loop {
            let step = decoder.decode(self.wire.input()).map_err(|_| Fault::Malformed)?;
            body.take(&self.wire.input()[step.data]);
            self.wire.consume(step.consumed);
            bytes += step.consumed as u64;
            if step.done {
                return Ok(bytes);
            }
            if self.wire.input().is_empty() {
                self.more_content().await?;
            }
        }
    }

    async fn receive_rest(&mut self, body: &mut Body) -> Result<u64, Fault> {
        let mut bytes = 0;
        loop {
            let n = self.wire.input().len();
            body.take(self.wire.input());
            self.wire.consume(n);
            bytes += n as u64;
            if self.more(Fault::TransferTimeout).await? == 0 {
                return Ok(bytes);
            }
        }
    }

    /// Receives some of a content that has not ended.
    async fn more_content(&mut self) -> Result<(), Fault> {
        match self.more(Fault::TransferTimeout).await? {
            0 => Err(Fault::ShortResponse),
            _ => Ok(()),
        }
    }

    async fn more(&mut self, late: Fault) -> Result<usize, Fault> {
        let received = self.fill(late).await?;
        self.take_time(received, late).await?;
        Ok(received)
    }

    async fn fill(&mut self, late: Fault) -> Result<usize, Fault> {
        self.wire.fill(self.until, || false).await.map_err(|error| fault(error, late))
    }

    /// Lets as much time pass as a slow reader takes for so many bytes.
    async fn take_time(&mut self, received: usize, late: Fault) -> Result<(), Fault> {
        match self.manner.receive_rate {
            Some(rate) => self.pause(received, rate, late).await,
            None => Ok(()),
        }
    }

    /// Lets as much time pass as a slow client takes for so many bytes.
    async fn pause(&mut self, bytes: usize, rate: f64, late: Fault) -> Result<(), Fault> {
        let end = Instant::now() + Duration::from_secs_f64(bytes as f64 / rate);
        self.io.sleep(Deadline::at(end).earlier(self.until)).await;
        if self.until.has_passed(Instant::now()) { Err(late) } else { Ok(()) }
    }
}

/// What an error of the connection is, where running out of time means `late`.
fn fault(error: Error, late: Fault) -> Fault {
    match error {
        Error::TimedOut => late,
        // A head that fills a whole buffer and has not ended.
        Error::Os(Errno::NOBUFS) => Fault::Malformed,
        error if error.is_departure() => Fault::Reset,
        _ => Fault::Other,
    }
}
