//! One connection of a load: wait until a request is due, send it, receive the whole answer, record, and again.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use engine::{Deadline, Driver, Error, Io, More, Stream, Tcp, Transport};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use wire::{AnswerFraming, AnswerHead, ChunkedDecoder, FieldStorage, parse_answer};

use crate::mix::Mix;
use crate::pace::Pace;
use crate::record::{Fault, Phases, Recorder, Times};

/// Pause after a failed connect, so that a server that is down is not hammered.
const BACK_OFF: Duration = Duration::from_millis(10);

/// What the connections of one thread share.
pub(crate) struct Job {
    pub(crate) address: SocketAddr,
    pub(crate) mix: Mix,
    pub(crate) pipeline: u32,
    /// Addresses to come from, in turn, and which is next.
    pub(crate) sources: u32,
    pub(crate) next_source: Cell<u32>,
    pub(crate) to_head: bool,
    pub(crate) close: bool,
    pub(crate) timeout: Duration,
    pub(crate) pace: Pace,
    /// Requests that may still be started; `u64::MAX` where time is the limit.
    pub(crate) left: Cell<u64>,
    /// No new request is started any more.
    pub(crate) over: Cell<bool>,
    /// Requests that were sent and have not ended.
    pub(crate) under_way: Cell<u32>,
    pub(crate) recorder: RefCell<Recorder>,
    /// Told about each request as it ends, for the view while it runs.
    pub(crate) live: std::sync::Arc<crate::run::Live>,
}

impl Job {
    fn may_send(&self) -> bool {
        !self.over.get() && self.left.get() > 0
    }

    /// Takes a request from the number that is left.
    fn sends_one(&self) {
        if self.left.get() != u64::MAX {
            self.left.set(self.left.get() - 1);
        }
        self.under_way.set(self.under_way.get() + 1);
    }

    /// The address that the next connection comes from, if that is not left to the kernel.
    fn source(&self) -> Option<SocketAddr> {
        let at = self.next_source.get();
        self.next_source.set(if at + 1 >= self.sources { 0 } else { at + 1 });
        (self.sources > 0).then(|| ([127, 0, 0, 2 + at as u8], 0).into())
    }

    fn ended(&self, complete: bool) {
        self.under_way.set(self.under_way.get() - 1);
        self.live.ended(complete);
    }
}

/// Runs one connection, connecting again whenever it ends, until no request may be started.
pub(crate) async fn client<D: Driver>(io: Io<D>, job: std::rc::Rc<Job>) {
    if job.pipeline > 1 {
        return pipelined(io, job).await;
    }
    let mut connection: Option<Tcp<D>> = None;
    let (mut last, mut staying) = (None, false);
    while let Some(begin) = job.pace.next(&io, last, staying, || job.may_send()).await {
        job.sends_one();
        let until = Deadline::at(begin.sent + job.timeout);
        let mut phases = Phases::default();
        let result = exchange(&io, &job, &mut connection, begin.sent, until, &mut phases).await;
        let end = Instant::now();
        job.ended(result.is_ok());
        let times = Times { due: begin.due, sent: begin.sent, end, phases };
        match result {
            Ok(answer) => {
                job.recorder.borrow_mut().response(answer.code, answer.bytes, &times);
                staying = job.pace.goes_on();
                if !answer.keep_alive || job.close || job.pace.closes_after(staying) {
                    connection = None;
                }
                // In a closed loop the next request starts when this answer is complete.
                last = Some(end);
            }
            Err(fault) => {
                job.recorder.borrow_mut().fault(fault, &times);
                (connection, staying) = (None, false);
                back_off(&io, fault).await;
                last = Some(Instant::now());
            }
        }
    }
}

/// A complete answer.
struct Answer {
    code: u16,
    bytes: u64,
    keep_alive: bool,
}

/// Sends one request and receives its answer, over a new connection if there is none.
async fn exchange<D: Driver>(
    io: &Io<D>,
    job: &Job,
    connection: &mut Option<Tcp<D>>,
    start: Instant,
    until: Deadline,
    phases: &mut Phases,
) -> Result<Answer, Fault> {
    let wire = connected(io, job, connection, start, until, phases).await?;
    send(wire, job.mix.next(), More::No, until).await?;
    receive(wire, job.to_head, start, until, phases).await
}

/// Sends bytes.
async fn send<T: Transport>(wire: &mut T, bytes: &[u8], more: More, until: Deadline) -> Result<(), Fault> {
    let mut rest = bytes;
    while !rest.is_empty() {
        rest = &rest[wire.output().append(rest)..];
        if more == More::No || !rest.is_empty() {
            wire.flush(more, until).await.map_err(fault)?;
        }
    }
    Ok(())
}

/// Runs one connection that sends several requests at once and then receives their answers, until none may be started.
async fn pipelined<D: Driver>(io: Io<D>, job: std::rc::Rc<Job>) {
    let mut connection: Option<Tcp<D>> = None;
    while job.may_send() {
        let mut waiting = 0;
        while waiting < job.pipeline && job.may_send() {
            job.sends_one();
            waiting += 1;
        }
        let sent = Instant::now();
        let result = batch(&io, &job, &mut connection, sent, &mut waiting).await;
        let Err(fault) = result else { continue };
        connection = None;
        let end = Instant::now();
        let times = Times { due: sent, sent, end, phases: Phases::default() };
        // The one that failed, and those behind it, which nobody will answer any more.
        for at in 0..waiting {
            job.ended(false);
            job.recorder.borrow_mut().fault(if at == 0 { fault } else { Fault::ClosedEarly }, &times);
        }
        back_off(&io, fault).await;
    }
}

/// Sends as many requests as wait, and receives their answers; `waiting` counts those that are still to come.
async fn batch<D: Driver>(
    io: &Io<D>,
    job: &Job,
    connection: &mut Option<Tcp<D>>,
    sent: Instant,
    waiting: &mut u32,
) -> Result<(), Fault> {
    let until = Deadline::at(sent + job.timeout);
    let mut phases = Phases::default();
    let wire = connected(io, job, connection, sent, until, &mut phases).await?;
    for at in (0..*waiting).rev() {
        send(wire, job.mix.next(), if at == 0 { More::No } else { More::Follows }, until).await?;
    }
    while *waiting > 0 {
        let answer = receive(wire, job.to_head, sent, until, &mut phases).await?;
        *waiting -= 1;
        job.ended(true);
        let times = Times { due: sent, sent, end: Instant::now(), phases: std::mem::take(&mut phases) };
        job.recorder.borrow_mut().response(answer.code, answer.bytes, &times);
        if !answer.keep_alive && *waiting > 0 {
            return Err(Fault::ClosedEarly);
        }
        if !answer.keep_alive {
            *connection = None;
            return Ok(());
        }
    }
    Ok(())
}

/// The connection, made if there is none.
async fn connected<'a, D: Driver>(
    io: &Io<D>,
    job: &Job,
    connection: &'a mut Option<Tcp<D>>,
    start: Instant,
    until: Deadline,
    phases: &mut Phases,
) -> Result<&'a mut Tcp<D>, Fault> {
    match connection {
        Some(wire) => Ok(wire),
        None => {
            let wire = connection.insert(connect(io, job, until).await?);
            phases.connect = Some(start.elapsed());
            Ok(wire)
        }
    }
}

/// Waits a little after a connection could not be made.
async fn back_off<D: Driver>(io: &Io<D>, fault: Fault) {
    if matches!(fault, Fault::ConnectRefused | Fault::ConnectTimeout | Fault::ConnectFailed) {
        io.sleep(Deadline::at(Instant::now() + BACK_OFF)).await;
    }
}

async fn connect<D: Driver>(io: &Io<D>, job: &Job, until: Deadline) -> Result<Tcp<D>, Fault> {
    let address = job.address;
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
        .map_err(|_| Fault::ConnectFailed)?;
    if let Some(source) = job.source() {
        bind(&socket, &source).map_err(|_| Fault::ConnectFailed)?;
    }
    match Stream::connect(io, socket, address, until).await {
        Ok(stream) => Ok(Tcp::new(stream)),
        Err(Error::TimedOut) => Err(Fault::ConnectTimeout),
        Err(Error::Os(Errno::CONNREFUSED)) => Err(Fault::ConnectRefused),
        Err(_) => Err(Fault::ConnectFailed),
    }
}

/// Receives one answer to its last byte.
async fn receive<T: Transport>(
    wire: &mut T,
    to_head: bool,
    start: Instant,
    until: Deadline,
    phases: &mut Phases,
) -> Result<Answer, Fault> {
    let mut bytes = 0;
    let head = loop {
        if let Some((head, length)) = parse(wire, to_head)? {
            wire.consume(length);
            bytes += length as u64;
            // An interim answer (RFC 9110, 15.2) is followed by the final one.
            if head.code >= 200 {
                break head;
            }
            continue;
        }
        let begun = bytes > 0 || !wire.input().is_empty();
        if more(wire, until).await? == 0 {
            return Err(if begun { Fault::ShortResponse } else { Fault::ClosedEarly });
        }
        if !begun {
            phases.first_byte = Some(start.elapsed());
        }
    };
    bytes += match head.framing {
        AnswerFraming::None => 0,
        AnswerFraming::Length(length) => receive_length(wire, length, until).await?,
        AnswerFraming::Chunked => receive_chunked(wire, until).await?,
        AnswerFraming::UntilClose => receive_rest(wire, until).await?,
    };
    Ok(Answer { code: head.code, bytes, keep_alive: head.keep_alive })
}

fn parse<T: Transport>(wire: &T, to_head: bool) -> Result<Option<(AnswerHead, usize)>, Fault> {
    if wire.input().is_empty() {
        return Ok(None);
    }
    parse_answer(wire.input(), &mut FieldStorage::new(), to_head).map_err(|_| Fault::Malformed)
}

async fn receive_length<T: Transport>(wire: &mut T, length: u64, until: Deadline) -> Result<u64, Fault> {
    let mut left = length;
    loop {
        let n = wire.input().len().min(usize::try_from(left).unwrap_or(usize::MAX));
        wire.consume(n);
        left -= n as u64;
        if left == 0 {
            return Ok(length);
        }
        if more(wire, until).await? == 0 {
            return Err(Fault::ShortResponse);
        }
    }
}

async fn receive_chunked<T: Transport>(wire: &mut T, until: Deadline) -> Result<u64, Fault> {
    let mut decoder = ChunkedDecoder::new();
    let mut bytes = 0;
    loop {
        let step = decoder.decode(wire.input()).map_err(|_| Fault::Malformed)?;
        wire.consume(step.consumed);
        bytes += step.consumed as u64;
        if step.done {
            return Ok(bytes);
        }
        if wire.input().is_empty() && more(wire, until).await? == 0 {
            return Err(Fault::ShortResponse);
        }
    }
}

async fn receive_rest<T: Transport>(wire: &mut T, until: Deadline) -> Result<u64, Fault> {
    let mut bytes = 0;
    loop {
        let n = wire.input().len();
        wire.consume(n);
        bytes += n as u64;
        if more(wire, until).await? == 0 {
            return Ok(bytes);
        }
    }
}

async fn more<T: Transport>(wire: &mut T, until: Deadline) -> Result<usize, Fault> {
    wire.fill(until, || false).await.map_err(fault)
}

fn fault(error: Error) -> Fault {
    match error {
        Error::TimedOut => Fault::ResponseTimeout,
        // A head that fills a whole buffer and has not ended.
        Error::Os(Errno::NOBUFS) => Fault::Malformed,
        error if error.is_departure() => Fault::Reset,
        _ => Fault::Other,
    }
}
