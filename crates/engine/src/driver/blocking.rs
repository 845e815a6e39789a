//! The blocking driver: every operation is made at once and waited for in the kernel, one at a time.
//!
//! Deadlines are the socket's own time-outs (socket(7), `SO_RCVTIMEO` and `SO_SNDTIMEO`). A future on this driver is
//! never left waiting for it: when it is polled, it ends, or lets others have their turn.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, RecvFlags, SendFlags, Shutdown, SocketFlags};

use super::{
    Driver, FILE_TURN, Limits, Started, Ticket, accepted, reset_on_close, retry, send_flags, timespec,
};
use crate::buf::{Buf, Pool};
use crate::interrupt::Interrupt;
use crate::op::{Done, Error, FileRange, More, Op, Socket};
use crate::timer::Deadline;
use crate::unpark::Unpark;

/// Idle buffers kept: one in each direction.
const POOLED: usize = 2;

/// Shortest time-out of a socket: zero would be none at all.
const SHORTEST: Duration = Duration::from_micros(1);

/// A time-out of a socket stays as it is if it is at least this part of the time left: waiting again now and then is
/// cheaper than setting it anew for each operation.
const SHORTER: u32 = 2;

/// It also stays if it is longer than the time left by no more than this part of it, since each operation's deadline is
/// set a little before it starts. Such an operation ends that much late.
const LONGER: u32 = 16;

/// One thread's sockets, of which it waits on one at a time.
pub struct Blocking {
    entries: Vec<Entry>,
    pool: Pool,
    unpark: Unpark,
    interrupt: Arc<Interrupt>,
}

/// A socket and the time-outs it has.
#[derive(Default)]
struct Entry {
    fd: Option<Arc<OwnedFd>>,
    /// For receiving and for sending; `None` before the first was set.
    timeouts: [Option<Duration>; 2],
    /// Whether calls on it return at once.
    nonblocking: bool,
}

impl Blocking {
    /// What ends the waits of this driver's thread.
    pub(crate) fn interrupt(&self) -> Arc<Interrupt> {
        self.interrupt.clone()
    }

    fn entry(&mut self, socket: Socket) -> Option<(&mut Entry, Arc<OwnedFd>)> {
        let entry = self.entries.get_mut(socket.0 as usize)?;
        let fd = entry.fd.clone()?;
        Some((entry, fd))
    }

    fn receive(&mut self, socket: Socket, buf: Option<Buf>, until: Deadline) -> Done {
        let idle = buf.is_none();
        let mut buf = buf.unwrap_or_else(|| self.pool.take());
        let wait = !idle || self.interrupt.begin_idle();
        let result = match self.entry(socket) {
            None => Err(Error::Os(Errno::BADF)),
            Some((_, fd)) if !wait => match retry(|| net::recv(&fd, buf.spare(), RecvFlags::DONTWAIT)) {
                Err(Errno::AGAIN) => Err(Error::Canceled),
                result => result.map(|(_, n)| n).map_err(Error::from),
            },
            Some((entry, fd)) => entry.wait(Timeout::Recv, &fd, until, || {
                net::recv(&fd, buf.spare(), RecvFlags::empty()).map(|(_, n)| n)
            }),
        };
        let ended = idle && self.interrupt.end_idle();
        if let Ok(n) = result {
            buf.grow(n);
        }
        let result = if ended && result == Ok(0) { Err(Error::Canceled) } else { result };
        let buf = if buf.is_empty() {
            self.pool.give(buf);
            None
        } else {
            Some(buf)
        };
        Done::Received(buf, result)
    }

    fn send(&mut self, socket: Socket, mut buf: Buf, more: More, until: Deadline) -> Done {
        let flags = send_flags(more);
        let result = match self.entry(socket) {
            None => Err(Error::Os(Errno::BADF)),
            // Without waiting first: an answer nearly always fits, and then needs no time-out to be set.
            Some((entry, fd)) => match retry(|| net::send(&fd, buf.bytes(), flags | SendFlags::DONTWAIT)) {
                Err(Errno::AGAIN) => {
                    entry.wait(Timeout::Send, &fd, until, || net::send(&fd, buf.bytes(), flags))
                }
                result => result.map_err(Error::from),
            },
        };
        if let Ok(n) = result {
            buf.consume(n);
        }
        Done::Sent(buf, result)
    }

    fn send_file(&mut self, socket: Socket, range: &FileRange, until: Deadline) -> Done {
        let count = range.length.min(FILE_TURN) as usize;
        let result = match self.entry(socket) {
            None => Err(Error::Os(Errno::BADF)),
            Some((entry, fd)) => entry.wait_writable(&fd, until, || {
                let mut offset = range.offset;
                rustix::fs::sendfile(&fd, &*range.file, Some(&mut offset), count)
            }),
        };
        Done::SentFile(result.map(|n| n as u64))
    }

    fn connect(&mut self, socket: Socket, address: SocketAddr, until: Deadline) -> Done {
        let result = match self.entry(socket) {
            None => Err(Error::Os(Errno::BADF)),
            Some((entry, fd)) => {
                entry.wait(Timeout::Send, &fd, until, || match net::connect(&fd, &address) {
                    // The time-out has passed (socket(7)); asked again, the kernel waits on.
                    Err(Errno::INPROGRESS | Errno::ALREADY) => Err(Errno::AGAIN),
                    Err(Errno::ISCONN) => Ok(()),
                    result => result,
                })
            }
        };
        Done::Connected(result)
    }

    fn accept(&mut self, socket: Socket, until: Deadline) -> Done {
        let result = match self.entry(socket) {
            None => Err(Error::Os(Errno::BADF)),
            Some((entry, fd)) => {
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                entry.wait(Timeout::Recv, &fd, until, || net::acceptfrom_with(&fd, flags))
            }
        };
        Done::Accepted(result.map(accepted))
    }
}

impl Entry {
    /// Makes a call that blocks, until it succeeds, fails or the deadline passes. Where that has passed already the call is
    /// made once, without waiting.
    fn wait<T>(
        &mut self,
        side: Timeout,
        fd: &OwnedFd,
        until: Deadline,
        mut call: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Error> {
        loop {
            let left = until.left(Instant::now());
            let waits = left != Some(Duration::ZERO);
            self.set_nonblocking(fd, !waits)?;
            if waits {
                self.set_timeout(side, fd, left)?;
            }
            match call() {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if !waits || until.has_passed(Instant::now()) => {
                    return Err(Error::TimedOut);
                }
                Err(Errno::AGAIN) => {}
                result => return result.map_err(Error::from),
            }
        }
    }

    /// Makes a call until it would not block, fails or the deadline passes. For sendfile(2), which waits several times
    /// as long as the socket's time-out says.
    fn wait_writable<T>(
        &mut self,
        fd: &OwnedFd,
        until: Deadline,
        mut call: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Error> {
        self.set_nonblocking(fd, true)?;
        loop {
            match call() {
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {}
                result => return result.map_err(Error::from),
            }
            let left = until.left(Instant::now());
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Error::TimedOut);
            }
            let left = left.map(timespec);
            match poll(&mut [PollFd::new(fd, PollFlags::OUT)], left.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Sees to it that calls on the socket wait, or do not.
    fn set_nonblocking(&mut self, fd: &OwnedFd, nonblocking: bool) -> Result<(), Errno> {
        if self.nonblocking != nonblocking {
            rustix::io::ioctl_fionbio(fd, nonblocking)?;
            self.nonblocking = nonblocking;
        }
        Ok(())
    }

    /// Sees to it that the next call does not wait longer than there is left. It may wait less, and is then made again.
    fn set_timeout(&mut self, side: Timeout, fd: &OwnedFd, left: Option<Duration>) -> Result<(), Errno> {
        let present = &mut self.timeouts[usize::from(matches!(side, Timeout::Send))];
        let left = left.map(|left| left.max(SHORTEST));
        let stays = match (*present, left) {
            (Some(present), Some(left)) => present <= left + left / LONGER && present >= left / SHORTER,
            (present, None) => present.is_none(),
            (None, Some(_)) => false,
        };
        if !stays {
            set_socket_timeout(fd, side, left)?;
            *present = left;
        }
        Ok(())
    }
}

impl Driver for Blocking {
    const BLOCKS: bool = true;

    fn open(limits: Limits) -> io::Result<Self> {
        let mut entries = Vec::new();
        entries.resize_with(limits.sockets, Entry::default);
        let (unpark, interrupt) = (Unpark::without_eventfd(), Arc::default());
        Ok(Blocking { entries, pool: Pool::new(POOLED), unpark, interrupt })
    }

    fn attach(&mut self, fd: OwnedFd) -> Result<Socket, Error> {
        let free = self.entries.iter().position(|entry| entry.fd.is_none());
        let index = free.ok_or(Error::Os(Errno::NOBUFS))?;
        let fd = Arc::new(fd);
        self.interrupt.serve(Some(fd.clone()));
        self.entries[index] = Entry { fd: Some(fd), timeouts: [None; 2], nonblocking: true };
        Ok(Socket(index as u32))
    }

    fn detach(&mut self, socket: Socket) {
        self.interrupt.serve(None);
        self.entries[socket.0 as usize] = Entry::default();
    }

    fn reset(&mut self, socket: Socket) {
        if let Some(fd) = &self.entries[socket.0 as usize].fd {
            reset_on_close(fd);
        }
    }

    fn start(&mut self, op: Op, until: Deadline) -> Started {
        Started::Done(match op {
            Op::Accept(socket) => self.accept(socket, until),
            Op::Connect(socket, address) => self.connect(socket, address, until),
            Op::Recv(socket, buf) => self.receive(socket, buf, until),
            Op::Send(socket, buf, more) => self.send(socket, buf, more, until),
            Op::SendFile(socket, range) => self.send_file(socket, &range, until),
            Op::Shutdown(socket) => {
                let result = self.entry(socket).ok_or(Error::Os(Errno::BADF));
                Done::ShutDown(result.and_then(|(_, fd)| Ok(net::shutdown(&fd, Shutdown::Write)?)))
            }
            Op::Sleep => {
                if let Some(left) = until.left(Instant::now()) {
                    std::thread::sleep(left);
                }
                Done::Slept
            }
        })
    }

    fn poll(&mut self, _: &Ticket, _: &mut Context<'_>) -> Poll<Done> {
        // Nothing is ever under way when a call returns, so there are no tickets.
        Poll::Pending
    }

    fn cancel(&mut self, _: &Ticket) {}

    fn abandon(&mut self, _: Ticket) {}

    fn park(&mut self, _: Deadline) -> io::Result<()> {
        // Whoever waits does so in the operation itself.
        std::thread::yield_now();
        Ok(())
    }

    fn unpark(&self) -> Unpark {
        self.unpark.clone()
    }

    fn now(&self) -> Instant {
        Instant::now()
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
