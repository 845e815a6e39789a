//! The in-memory driver: scripted peers and a virtual clock, so that a connection can be tested exactly.
//!
//! Nothing here waits or depends on the machine: a peer's bytes arrive at the times its script says, sends
//! are as short as the test wants, the k-th operation fails on request, and time moves only when every task
//! waits.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::{Driver, Lane, Limits, Side, Started, Ticket, failed, socket_of};
use crate::buf::{BUF_BYTES, Buf, Pool};
use crate::op::{Done, Error, Op, Socket};
use crate::timer::Deadline;
use crate::unpark::Unpark;

/// What a peer does.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// What it sends, and when, counted from the driver's start. In order of time.
    pub arrivals: VecDeque<(Duration, Arrival)>,
    /// Most bytes that one send can hand to it; 0 for no limit.
    pub most_per_send: usize,
    /// Bytes it takes before it stops reading for good; `None` for no limit.
    pub takes: Option<usize>,
}

/// Something that comes from a peer.
#[derive(Clone, Debug)]
pub enum Arrival {
    /// Bytes.
    Bytes(Vec<u8>),
    /// The end of its stream.
    End,
    /// A reset.
    Reset,
}

impl Script {
    /// A peer that sends each chunk as soon as the one before it can have been received, then stays.
    pub fn sends<T: Into<Vec<u8>>>(chunks: impl IntoIterator<Item = T>) -> Self {
        let arrivals = chunks.into_iter().map(|chunk| (Duration::ZERO, Arrival::Bytes(chunk.into())));
        Script { arrivals: arrivals.collect(), ..Script::default() }
    }

    /// ... and then ends its stream.
    pub fn then_ends(mut self) -> Self {
        self.arrivals.push_back((Duration::ZERO, Arrival::End));
        self
    }

    /// ... and later sends more.
    pub fn at(mut self, after: Duration, arrival: Arrival) -> Self {
        self.arrivals.push_back((after, arrival));
        self
    }
}

/// A driver whose world is a list of [`Script`]s.
pub struct Memory {
    epoch: Instant,
    now: Instant,
    limit: usize,
    peers: Vec<Peer>,
    sleeps: Vec<Option<Wait>>,
    lazy: bool,
    operations: u64,
    fail: Option<(u64, Errno)>,
    unpark: Unpark,
    pool: Pool,
}

struct Peer {
    script: Script,
    sent: Vec<u8>,
    /// The peer was told that nothing more will come.
    ended: bool,
    open: bool,
    reset: bool,
    waits: [Option<Wait>; 2],
}

struct Wait {
    op: Op,
    until: Deadline,
    waker: Option<Waker>,
    canceled: bool,
    /// Lazy operations are not tried until the task has gone to sleep once.
    tried: bool,
}

impl Memory {
    /// Adds a peer; the socket is for [`Stream::on`](crate::Stream::on).
    pub fn peer(&mut self, script: Script) -> Socket {
        self.peers.push(Peer {
            script,
            sent: Vec::new(),
            ended: false,
            open: true,
            reset: false,
            waits: [None, None],
        });
        Socket(self.peers.len() as u32 - 1)
    }

    /// Answers no operation at once, as a completion driver would; otherwise each is tried at its start.
    pub fn set_lazy(&mut self, lazy: bool) {
        self.lazy = lazy;
    }

    /// Makes the `k`-th operation from the start (counting from 0) fail.
    pub fn fail(&mut self, k: u64, errno: Errno) {
        self.fail = Some((k, errno));
    }

    /// Operations started so far.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Whether closing the socket was to reset the connection.
    pub fn is_reset(&self, socket: Socket) -> bool {
        self.peers[socket.0 as usize].reset
    }

    /// Everything that was sent to a peer, also after the socket was closed.
    pub fn sent(&self, socket: Socket) -> &[u8] {
        &self.peers[socket.0 as usize].sent
    }

    /// Whether the socket is still open.
    pub fn is_open(&self, socket: Socket) -> bool {
        self.peers[socket.0 as usize].open
    }

    /// Whether the peer was told that nothing more will come.
    pub fn is_shut_down(&self, socket: Socket) -> bool {
        self.peers[socket.0 as usize].ended
    }

    /// Virtual time since the start.
    pub fn elapsed(&self) -> Duration {
        self.now - self.epoch
    }

    fn slot(&mut self, lane: Lane) -> &mut Option<Wait> {
        let index = lane.socket as usize;
        match index.checked_sub(self.peers.len()) {
            None => &mut self.peers[index].waits[lane.side as usize],
            Some(sleep) => &mut self.sleeps[sleep],
        }
    }

    fn attempt(&mut self, op: Op) -> Result<Done, Op> {
        let elapsed = self.elapsed();
        let Some(peer) = socket_of(&op).map(|socket| &mut self.peers[socket.0 as usize]) else {
            return Err(op);
        };
        match op {
            Op::Recv(socket, buf) => match peer.script.arrivals.front_mut() {
                Some((at, _)) if *at > elapsed => Err(Op::Recv(socket, buf)),
                Some((_, Arrival::Bytes(bytes))) => {
                    let mut buf = buf.unwrap_or_else(|| self.pool.take());
                    let n = buf.append(bytes);
                    bytes.drain(..n);
                    if bytes.is_empty() {
                        peer.script.arrivals.pop_front();
                    }
                    Ok(Done::Received(Some(buf), Ok(n)))
                }
                Some((_, Arrival::End)) => Ok(Done::Received(buf, Ok(0))),
                Some((_, Arrival::Reset)) => Ok(Done::Received(buf, Err(Errno::CONNRESET.into()))),
                None => Err(Op::Recv(socket, buf)),
            },
            Op::Send(socket, mut buf, more) => match peer.accept(buf.len()) {
                0 => Err(Op::Send(socket, buf, more)),
                n => {
                    peer.sent.extend_from_slice(&buf.bytes()[..n]);
                    buf.consume(n);
                    Ok(Done::Sent(buf, Ok(n)))
                }
            },
            Op::SendFile(socket, range) => match peer.accept((range.length as usize).min(BUF_BYTES)) {
                0 => Err(Op::SendFile(socket, range)),
                n => {
                    let mut bytes = vec![0; n];
                    let read = rustix::io::pread(&*range.file, &mut bytes, range.offset);
                    if let Ok(n) = read {
                        peer.sent.extend_from_slice(&bytes[..n]);
                    }
                    Ok(Done::SentFile(read.map(|n| n as u64).map_err(Error::from)))
                }
            },
            Op::Connect(..) => Ok(Done::Connected(Ok(()))),
            Op::Shutdown(_) => {
                peer.ended = true;
                Ok(Done::ShutDown(Ok(())))
            }
            op @ (Op::Accept(_) | Op::Sleep) => Err(op),
        }
    }

    /// The moment of a deadline, if there is one.
    fn moment(&self, deadline: Deadline) -> Option<Instant> {
        deadline.left(self.now).map(|left| self.now + left)
    }

    /// When the next thing happens that somebody waits for.
    fn next_event(&self) -> Option<Instant> {
        let arrivals = self.peers.iter().filter(|peer| peer.waits[Side::Read as usize].is_some());
        let arrivals =
            arrivals.filter_map(|peer| peer.script.arrivals.front()).map(|(at, _)| self.epoch + *at);
        let waits = self.peers.iter().flat_map(|peer| &peer.waits).chain(&self.sleeps).flatten();
        let untried = waits.clone().filter(|wait| !wait.tried).map(|_| self.now);
        let deadlines = waits.filter_map(|wait| self.moment(wait.until));
        arrivals.chain(untried).chain(deadlines).min()
    }
}

impl Peer {
    /// How many of `offered` bytes the peer takes now.
    fn accept(&mut self, offered: usize) -> usize {
        let most = if self.script.most_per_send == 0 { usize::MAX } else { self.script.most_per_send };
        let left = self.script.takes.map_or(usize::MAX, |takes| takes.saturating_sub(self.sent.len()));
        offered.min(most).min(left)
    }
}

impl Driver for Memory {
    fn open(limits: Limits) -> io::Result<Self> {
        let now = Instant::now();
        Ok(Memory {
            epoch: now,
            now,
            limit: limits.sockets,
            peers: Vec::new(),
            sleeps: Vec::new(),
            lazy: false,
            operations: 0,
            fail: None,
            unpark: Unpark::without_eventfd(),
            pool: Pool::new(4),
        })
    }

    fn attach(&mut self, _: OwnedFd) -> Result<Socket, Error> {
        // A descriptor stands for a peer that never says anything.
        if self.peers.len() == self.limit {
            return Err(Errno::NOBUFS.into());
        }
        Ok(self.peer(Script::default()))
    }

    fn detach(&mut self, socket: Socket) {
        let peer = &mut self.peers[socket.0 as usize];
        peer.open = false;
        peer.waits = [None, None];
    }

    fn reset(&mut self, socket: Socket) {
        self.peers[socket.0 as usize].reset = true;
    }

    fn start(&mut self, op: Op, until: Deadline) -> Started {
        let k = self.operations;
        self.operations += 1;
        if let Some((at, errno)) = self.fail
            && at == k
        {
            return Started::Done(failed(op, errno.into()));
        }
        let side = Side::of(&op);
        let op = match if self.lazy { Err(op) } else { self.attempt(op) } {
            Ok(done) => return Started::Done(done),
            Err(op) => op,
        };
        let index = socket_of(&op).map(|socket| socket.0);
        let wait = Some(Wait { op, until, waker: None, canceled: false, tried: !self.lazy });
        let lane = match index {
            Some(socket) => Lane { socket, side },
            None => {
                self.sleeps.push(None);
                Lane { socket: (self.peers.len() + self.sleeps.len() - 1) as u32, side }
            }
        };
        *self.slot(lane) = wait;
        Started::Waiting(Ticket(lane))
    }

    fn poll(&mut self, ticket: &Ticket, context: &mut Context<'_>) -> Poll<Done> {
        let Some(mut wait) = self.slot(ticket.0).take() else { return Poll::Pending };
        if wait.tried {
            match self.attempt(wait.op) {
                Ok(done) => return Poll::Ready(done),
                Err(op) => wait.op = op,
            }
        }
        if wait.canceled {
            return Poll::Ready(failed(wait.op, Error::Canceled));
        }
        if wait.until.has_passed(self.now) {
            return Poll::Ready(failed(wait.op, Error::TimedOut));
        }
        wait.waker = Some(context.waker().clone());
        *self.slot(ticket.0) = Some(wait);
        Poll::Pending
    }

    fn cancel(&mut self, ticket: &Ticket) {
        if let Some(wait) = self.slot(ticket.0) {
            wait.canceled = true;
            if let Some(waker) = &wait.waker {
                waker.wake_by_ref();
            }
        }
    }

    fn abandon(&mut self, ticket: Ticket) {
        *self.slot(ticket.0) = None;
    }

    fn park(&mut self, until: Deadline) -> io::Result<()> {
        if self.unpark.may_sleep() {
            self.unpark.woke();
            let next = self.next_event().into_iter().chain(self.moment(until)).min();
            let next = next.ok_or_else(|| io::Error::other("every task waits, and nothing will happen"))?;
            self.now = self.now.max(next);
        }
        for wait in self.peers.iter_mut().flat_map(|peer| &mut peer.waits).chain(&mut self.sleeps).flatten() {
            wait.tried = true;
            if let Some(waker) = &wait.waker {
                waker.wake_by_ref();
            }
        }
        Ok(())
    }

    fn unpark(&self) -> Unpark {
        self.unpark.clone()
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn take_buf(&mut self) -> Buf {
        self.pool.take()
    }

    fn give_buf(&mut self, buf: Buf) {
        self.pool.give(buf);
    }

    fn drain(self) -> io::Result<()> {
        Ok(())
    }
}
