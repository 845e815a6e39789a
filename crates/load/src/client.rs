//! One connection of a load: wait until a request is due, send it, receive the whole answer, record, and again.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Deadline, Driver, Error, Io, More, Stream, Tcp, yield_now};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::net::sockopt::set_socket_recv_buffer_size;

use crate::exchange::{Answer, Exchange, Manner};
use crate::fault::Fault;
use crate::idle::{Found, look};
use crate::left::Left;
use crate::mix::Mix;
use crate::pace::{Begin, Pace};
use crate::record::{Phases, Recorder, Times};
use crate::socket::{BACK_OFF, socket, source, tune};

/// What the connections of one thread share.
pub(crate) struct Job {
    pub(crate) address: SocketAddr,
    pub(crate) mix: Mix,
    pub(crate) pipeline: u32,
    /// Addresses to come from, in turn, and which is next.
    pub(crate) sources: u32,
    pub(crate) next_source: Cell<u32>,
    pub(crate) manner: Manner,
    pub(crate) close: bool,
    pub(crate) timeout: Duration,
    pub(crate) pace: Pace,
    /// When measuring begins.
    pub(crate) from: Instant,
    /// Measured requests that may still be started, on whatever thread.
    pub(crate) left: Arc<Left>,
    /// Turns on when none may be started and all that were on this thread have ended.
    pub(crate) all_ended: engine::Stop,
    /// No new request is started any more, but one that was due before the end.
    pub(crate) over: Cell<bool>,
    /// Not even that: the load was cancelled.
    pub(crate) cancelled: Cell<bool>,
    /// Requests that were sent and have not ended.
    pub(crate) under_way: Cell<u32>,
    pub(crate) recorder: RefCell<Recorder>,
    /// Told about each request as it ends, for the view while it runs.
    pub(crate) live: Arc<crate::progress::Live>,
}

impl Job {
    fn may_send(&self) -> bool {
        !self.over.get() && self.left.any()
    }

    /// Whether a request may be sent that was due before the end: a busy host may have woken its connection late.
    fn may_still_send(&self) -> bool {
        !self.cancelled.get() && self.left.any()
    }

    /// Begins a request that was due then: takes it from the number that is left, unless it belongs to the warm-up. False where
    /// another thread has taken the last.
    fn begins_one(&self, due: Instant) -> bool {
        let begins = due < self.from || self.left.take();
        self.under_way.set(self.under_way.get() + u32::from(begins));
        begins
    }

    /// Waits until none may be started any more, and all that were on this thread have ended. The task must watch `left` and
    /// `all_ended`.
    pub(crate) async fn served(&self) {
        self.left.used_up().await;
        if self.under_way.get() > 0 {
            self.all_ended.or(pending::<()>()).await;
        }
    }

    /// The address that the next connection comes from, if that is not left to the kernel.
    fn source(&self) -> Option<SocketAddr> {
        let at = self.next_source.get();
        self.next_source.set(if at + 1 >= self.sources { 0 } else { at + 1 });
        (self.sources > 0).then(|| source(at))
    }

    /// A request has a complete answer.
    fn answered(&self, answer: &Answer, times: &Times) {
        let mut recorder = self.recorder.borrow_mut();
        match answer.wrong {
            Some(fault) => recorder.wrong(answer.code, fault, times),
            None => {
                recorder.content(answer.content, times);
                recorder.response(answer.code, answer.bytes, times);
            }
        }
        self.ended(answer.wrong.is_none());
    }

    /// A request has come to nothing.
    fn failed(&self, fault: Fault, times: &Times) {
        self.recorder.borrow_mut().fault(fault, times);
        self.ended(false);
    }

    fn ended(&self, well: bool) {
        self.under_way.set(self.under_way.get() - 1);
        self.live.ended(well);
        if self.under_way.get() == 0 && !self.left.any() {
            self.all_ended.set();
        }
    }
}

/// Runs one connection, connecting again whenever it ends, until no request may be started.
pub(crate) async fn client<D: Driver>(io: Io<D>, job: std::rc::Rc<Job>) {
    if job.pipeline > 1 {
        return pipelined(io, job).await;
    }
    let mut connection: Option<Tcp<D>> = None;
    let (mut last, mut staying) = (None, false);
    while let Some(begin) =
        job.pace.next(&io, last, staying, || job.may_send(), || job.may_still_send()).await
    {
        if !job.begins_one(begin.due) {
            return;
        }
        let until = Deadline::at(begin.sent + job.timeout);
        let mut phases = Phases::default();
        let result = exchange(&io, &job, &mut connection, (last, &begin), until, &mut phases).await;
        let end = Instant::now();
        let times = Times { due: begin.due, sent: begin.sent, end, phases };
        match result {
            Ok(answer) => {
                job.answered(&answer, &times);
                staying = job.pace.goes_on();
                if !answer.keep_alive || job.close || job.pace.closes_after(staying) {
                    connection = None;
                }
                // In a closed loop the next request starts when this answer is complete.
                last = Some(end);
            }
            Err(fault) => {
                job.failed(fault, &times);
                (connection, staying) = (None, false);
                if job.pace.is_open() {
                    // Waiting would keep requests that are due from being refused, which is what becomes of real ones.
                    yield_now().await;
                } else {
                    back_off(&io, fault).await;
                }
                last = Some(Instant::now());
            }
        }
    }
}

/// Sends one request and receives its answer, over a new connection if there is none, or the server has ended it since `last`.
async fn exchange<D: Driver>(
    io: &Io<D>,
    job: &Job,
    connection: &mut Option<Tcp<D>>,
    (last, begin): (Option<Instant>, &Begin),
    until: Deadline,
    phases: &mut Phases,
) -> Result<Answer, Fault> {
    if let Some(wire) = connection {
        match look(wire, last, begin.sent).await {
            Found::Quiet => {}
            Found::Ended => {
                *connection = None;
                job.recorder.borrow_mut().reconnected(begin.sent);
            }
            Found::Unasked => return Err(Fault::Malformed),
        }
    }
    let wire = connected(io, job, connection, begin.sent, until, phases).await?;
    let mut exchange = Exchange { io, wire, manner: &job.manner, until };
    let request = job.mix.next(begin.entry);
    exchange.send(&request, More::No).await?;
    drop(request);
    exchange.receive(begin.sent, phases).await
}

/// Runs one connection that sends several requests at once and then receives their answers, until none may be started.
async fn pipelined<D: Driver>(io: Io<D>, job: std::rc::Rc<Job>) {
    let mut connection: Option<Tcp<D>> = None;
    while job.may_send() {
        let (sent, mut waiting) = (Instant::now(), 0);
        while waiting < job.pipeline && job.may_send() && job.begins_one(sent) {
            waiting += 1;
        }
        if waiting == 0 {
            return;
        }
        let result = batch(&io, &job, &mut connection, sent, &mut waiting).await;
        let Err(fault) = result else { continue };
        connection = None;
        let end = Instant::now();
        let times = Times { due: sent, sent, end, phases: Phases::default() };
        // The one that failed, and those behind it, which nobody will answer any more.
        for at in 0..waiting {
            job.failed(if at == 0 { fault } else { Fault::ClosedEarly }, &times);
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
    let mut exchange = Exchange { io, wire, manner: &job.manner, until };
    for at in (0..*waiting).rev() {
        exchange.send(&job.mix.next(None), if at == 0 { More::No } else { More::Follows }).await?;
    }
    while *waiting > 0 {
        let answer = exchange.receive(sent, &mut phases).await?;
        *waiting -= 1;
        let times = Times { due: sent, sent, end: Instant::now(), phases: std::mem::take(&mut phases) };
        job.answered(&answer, &times);
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
    let socket = socket(job.address, SocketFlags::NONBLOCK, job.source())?;
    tune(&socket, job.close);
    if let Some(bytes) = job.manner.receive_buffer() {
        // The kernel takes its least if this is less.
        set_socket_recv_buffer_size(&socket, bytes).map_err(|_| Fault::ConnectFailed)?;
    }
    match Stream::connect(io, socket, job.address, until).await {
        Ok(stream) => Ok(Tcp::new(stream)),
        Err(Error::TimedOut) => Err(Fault::ConnectTimeout),
        Err(Error::Os(Errno::CONNREFUSED)) => Err(Fault::ConnectRefused),
        Err(_) => Err(Fault::ConnectFailed),
    }
}
