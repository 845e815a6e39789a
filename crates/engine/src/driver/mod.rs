//! What stands between a thread and the kernel: one trait, and a driver for each way of waiting.
//!
//! The trait is shaped by completion: an operation is started, owns its buffer, and is answered exactly
//! once, at once or later. Readiness (epoll) is easily dressed up as completion; the reverse is not so.

mod alarm;
mod attempt;
pub mod blocking;
pub mod epoll;
pub mod memory;
pub mod uring;
mod vacancies;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::net::{SendFlags, sockopt};

use crate::buf::Buf;
use crate::op::{Done, Error, More, Op, Socket};
use crate::timer::{Deadline, Nanos, Timer};
use crate::unpark::Unpark;

/// Bytes of a file per operation. The reader can then take them while they are still in the cache, and other
/// connections get their turn.
const FILE_TURN: u64 = 256 * 1024;

/// How much a driver must be able to hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sockets at the same time; the table for them is reserved at the start. Sleeps, and sockets that the kernel has not let
    /// go of, come on top.
    pub sockets: usize,
}

/// One thread's way to the kernel.
pub trait Driver: Sized + 'static {
    /// Whether the thread waits in each operation, and for nothing else meanwhile.
    const BLOCKS: bool = false;

    /// Opens the driver on the calling thread, which is the only one that uses it from then on.
    fn open(limits: Limits) -> io::Result<Self>;

    /// Takes charge of a non-blocking socket. Fails with `ENOBUFS` when [`Limits::sockets`] are attached.
    fn attach(&mut self, fd: OwnedFd) -> Result<Socket, Error>;

    /// Takes charge of a listening socket that other threads' drivers wait on too. Where readiness is waited for, only
    /// one of them should be woken for a connection.
    fn attach_shared(&mut self, fd: OwnedFd) -> Result<Socket, Error> {
        self.attach(fd)
    }

    /// Lets go of a socket: what is under way is cancelled, and the descriptor is closed as soon as the
    /// kernel has let go of it.
    fn detach(&mut self, socket: Socket);

    /// Takes a socket on which no operation is under way back out, for another thread's driver. `None` where bytes have
    /// come in here meanwhile, or the driver cannot: the socket stays, and the bytes are there for the next receive.
    fn poll_release(&mut self, _: Socket, _: &mut Context<'_>) -> Poll<Option<OwnedFd>> {
        Poll::Ready(None)
    }

    /// Arranges that closing a socket resets its connection: what was sent and not yet taken is dropped with it, instead
    /// of being kept until a peer that does not read takes it.
    fn reset(&mut self, socket: Socket);

    /// Starts an operation. At most one may be under way per socket and direction.
    fn start(&mut self, op: Op, until: Deadline) -> Started;

    /// Sends what the socket takes at once, and drops it from the buffer. `None` where the driver does not know that without
    /// waiting, or nothing can be sent now: then a send is to be [started](Self::start).
    fn send_now(&mut self, _socket: Socket, _buf: &mut Buf, _more: More) -> Option<Result<usize, Error>> {
        None
    }

    /// Asks for the answer of an operation under way, and arranges a wake-up where there is none yet.
    fn poll(&mut self, ticket: &Ticket, context: &mut Context<'_>) -> Poll<Done>;

    /// Asks an operation to end soon: it is still answered, with its result if it happened, otherwise with
    /// [`Error::Canceled`]. The caller polls on.
    fn cancel(&mut self, ticket: &Ticket);

    /// Gives up an operation whose answer nobody wants any more. Its buffer is kept until the kernel has
    /// let go of it; a connection that was accepted too late is closed.
    fn abandon(&mut self, ticket: Ticket);

    /// Sleeps until an operation is answered, the deadline comes or [`Unpark`] is used.
    fn park(&mut self, until: Deadline) -> io::Result<()>;

    /// What wakes this driver from another thread.
    fn unpark(&self) -> Unpark;

    /// The time as of the last [`park`](Self::park): reading the clock once per sleep is enough for
    /// deadlines.
    fn now(&self) -> Instant;

    /// The deadline that is `after` from [`now`](Self::now).
    fn deadline(&self, after: Duration) -> Deadline {
        Deadline::at(self.now() + after)
    }

    /// An empty buffer from this thread's pool.
    fn take_buf(&mut self) -> Buf;

    /// Gives a buffer back to this thread's pool.
    fn give_buf(&mut self, buf: Buf);

    /// Ends the driver: cancels what is under way, waits for the kernel to let go, then frees.
    fn drain(self) -> io::Result<()>;
}

/// What became of starting an operation.
#[derive(Debug)]
pub enum Started {
    /// It is done.
    Done(Done),
    /// It is under way.
    Waiting(Ticket),
}

/// An operation under way.
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket(pub(crate) Lane);

/// The place of an operation in its driver: a socket (or the entry of a sleep) and a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) socket: u32,
    pub(crate) side: Side,
}

/// The two directions of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Accepting, receiving, sleeping.
    Read = 0,
    /// Connecting, sending.
    Write = 1,
}

impl Side {
    /// The direction an operation goes in.
    pub(crate) fn of(op: &Op) -> Side {
        match op {
            Op::Accept(_) | Op::Recv(..) | Op::Sleep => Side::Read,
            Op::Connect(..) | Op::Send(..) | Op::SendFile(..) | Op::Shutdown(_) => Side::Write,
        }
    }
}

impl Lane {
    /// The lane as one number, for timers.
    pub(crate) fn key(self) -> u32 {
        self.socket * 2 + self.side as u32
    }

    /// The lane of [`key`](Self::key).
    pub(crate) fn of_key(key: u32) -> Lane {
        Lane { socket: key / 2, side: if key.is_multiple_of(2) { Side::Read } else { Side::Write } }
    }
}

/// Why an operation should end without having happened, if it should.
fn given_up(canceled: bool, timer: &Timer, now: Nanos) -> Option<Error> {
    if canceled { Some(Error::Canceled) } else { (timer.due <= now).then_some(Error::TimedOut) }
}

/// The socket an operation is on; `None` for a sleep.
pub(crate) fn socket_of(op: &Op) -> Option<Socket> {
    match op {
        Op::Accept(socket)
        | Op::Connect(socket, _)
        | Op::Recv(socket, _)
        | Op::Send(socket, ..)
        | Op::SendFile(socket, _)
        | Op::Shutdown(socket) => Some(*socket),
        Op::Sleep => None,
    }
}

/// The answer to an operation that did not happen; its buffer comes home in it.
pub(crate) fn failed(op: Op, error: Error) -> Done {
    match op {
        Op::Accept(_) => Done::Accepted(Err(error)),
        Op::Connect(..) => Done::Connected(Err(error)),
        Op::Recv(_, buf) => Done::Received(buf, Err(error)),
        Op::Send(_, buf, _) => Done::Sent(buf, Err(error)),
        Op::SendFile(..) => Done::SentFile(Err(error)),
        Op::Shutdown(_) => Done::ShutDown(Err(error)),
        Op::Sleep => Done::Slept,
    }
}

/// A table of as many entries as there may be sockets, reserved at once.
fn table<E>(limits: Limits, entry: impl FnMut() -> E) -> io::Result<Vec<E>> {
    let mut entries = Vec::new();
    entries
        .try_reserve_exact(limits.sockets)
        .map_err(|_| io::Error::new(io::ErrorKind::OutOfMemory, "no memory for the socket table"))?;
    entries.resize_with(limits.sockets, entry);
    Ok(entries)
}

/// How to send. Without a signal when the peer is gone: every failure comes back as an error.
fn send_flags(more: More) -> SendFlags {
    match more {
        More::No => SendFlags::NOSIGNAL,
        More::Follows => SendFlags::NOSIGNAL | SendFlags::MORE,
    }
}

/// Makes closing a socket a reset. If the kernel refuses, it is an ordinary close.
fn reset_on_close(fd: &OwnedFd) {
    if let Err(error) = sockopt::set_socket_linger(fd, Some(Duration::ZERO)) {
        tracing::debug!(%error, "a connection cannot be reset");
    }
}

/// Repeats a call that a signal interrupted.
fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// An accepted connection with its peer's address; one without an address is of a family that has none.
fn accepted((fd, peer): (OwnedFd, Option<rustix::net::SocketAddrAny>)) -> (OwnedFd, SocketAddr) {
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    (fd, peer.unwrap_or_else(|| ([0, 0, 0, 0], 0).into()))
}

fn timespec(duration: Duration) -> Timespec {
    // A duration past what a Timespec holds does not come up: deadlines are minutes.
    Timespec::try_from(duration).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}
