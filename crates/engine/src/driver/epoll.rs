//! The epoll driver: tries each operation at once, and waits for readiness only where it would block.
//!
//! Every socket is registered at most once, edge-triggered and for both directions, and only when it first
//! has to wait. The driver remembers what the edges said, so a request on a kept-alive connection costs one
//! receive, one send and its share of an `epoll_wait`, and a connection that is answered and closed at once
//! costs no registration at all.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{self, Shutdown};

use super::alarm::Alarm;
use super::attempt::{accept, connect, receive, send, send_file};
use super::vacancies::Vacancies;
use super::{
    Driver, Lane, Limits, Side, Started, Ticket, failed, given_up, reset_on_close, socket_of, table, timespec,
};
use crate::buf::{Buf, Pool};
use crate::op::{Done, Error, More, Op, Socket};
use crate::timer::{Deadline, NEVER, Nanos, Timer, Timers, nanos};
use crate::unpark::Unpark;

/// Events taken from the kernel per wake-up; more are taken by the next.
const EVENTS: usize = 512;

/// Idle buffers kept per thread: enough for one batch of events, so that a steady load allocates nothing.
const POOLED: usize = EVENTS;

/// The event data of the eventfd that wakes the driver; no socket has this index.
const WAKE: u64 = u64::MAX;

/// The event data of the timer for short sleeps.
const ALARM: u64 = u64::MAX - 1;

/// A thread's epoll instance and the sockets registered with it.
pub struct Epoll {
    poll: OwnedFd,
    unpark: Unpark,
    events: Vec<epoll::Event>,
    entries: Vec<Entry>,
    vacancies: Vacancies,
    timers: Timers,
    alarm: Alarm,
    pool: Pool,
    now: Instant,
    /// `now` as deadlines count it.
    now_nanos: Nanos,
}

/// What the driver knows of one socket.
struct Entry {
    /// `None` for a sleep, or while the entry is free.
    fd: Option<OwnedFd>,
    /// Changes when the entry is used again, so that a late event cannot be taken for a new socket's.
    generation: u32,
    registered: bool,
    /// Other threads wait on the same socket.
    shared: bool,
    /// The peer has said its last word: receiving never blocks any more.
    hangup: bool,
    /// Whether an operation may succeed at once, for both [`Side`]s; false after it would have blocked.
    ready: [bool; 2],
    waits: [Wait; 2],
}

/// An operation under way in one direction.
struct Wait {
    op: Option<Op>,
    waker: Option<Waker>,
    canceled: bool,
    timer: Timer,
}

impl Entry {
    fn free() -> Self {
        Entry {
            fd: None,
            generation: 0,
            registered: false,
            shared: false,
            hangup: false,
            ready: [false; 2],
            waits: [Wait::IDLE, Wait::IDLE],
        }
    }
}

impl Wait {
    const IDLE: Wait = Wait { op: None, waker: None, canceled: false, timer: Timer::IDLE };

    fn wake(&self) {
        if let (Some(_), Some(waker)) = (&self.op, &self.waker) {
            waker.wake_by_ref();
        }
    }
}

impl Driver for Epoll {
    fn open(limits: Limits) -> io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let unpark = Unpark::with_eventfd()?;
        let wake = unpark.eventfd().ok_or(io::ErrorKind::Unsupported)?;
        epoll::add(
            &poll,
            wake,
            epoll::EventData::new_u64(WAKE),
            epoll::EventFlags::IN | epoll::EventFlags::ET,
        )?;
        let now = Instant::now();
        let entries = table(limits, Entry::free)?;
        Ok(Epoll {
            poll,
            unpark,
            events: Vec::with_capacity(EVENTS),
            entries,
            vacancies: Vacancies::new(limits),
            timers: Timers::default(),
            alarm: Alarm::default(),
            pool: Pool::new(POOLED),
            now,
            now_nanos: nanos(now),
        })
    }

    fn attach(&mut self, fd: OwnedFd) -> Result<Socket, Error> {
        self.vacancies.attach()?;
        Ok(Socket(self.occupy(Some(fd))))
    }

    fn attach_shared(&mut self, fd: OwnedFd) -> Result<Socket, Error> {
        let socket = self.attach(fd)?;
        self.entries[socket.0 as usize].shared = true;
        Ok(socket)
    }

    fn detach(&mut self, socket: Socket) {
        self.vacancies.detach();
        self.release(socket.0);
    }

    fn poll_release(&mut self, socket: Socket, _: &mut Context<'_>) -> Poll<Option<OwnedFd>> {
        let Entry { fd, registered, .. } = &mut self.entries[socket.0 as usize];
        let fd = fd.take().inspect(|fd| _ = registered.then(|| epoll::delete(&self.poll, fd)));
        if fd.is_some() {
            self.detach(socket);
        }
        Poll::Ready(fd)
    }

    fn reset(&mut self, socket: Socket) {
        if let Some(fd) = &self.entries[socket.0 as usize].fd {
            reset_on_close(fd);
        }
    }

    fn start(&mut self, op: Op, until: Deadline) -> Started {
        let index = socket_of(&op).map_or_else(|| self.occupy(None), |socket| socket.0);
        let lane = Lane { socket: index, side: Side::of(&op) };
        let op = match self.attempt(lane, op) {
            Ok(done) => return Started::Done(done),
            Err(op) => op,
        };
        if let Err(errno) = self.register(index) {
            return Started::Done(failed(op, errno.into()));
        }
        let wait = &mut self.entries[index as usize].waits[lane.side as usize];
        debug_assert!(wait.op.is_none(), "two operations in one direction of one socket");
        wait.op = Some(op);
        self.timers.set(lane.key(), &mut wait.timer, until);
        Started::Waiting(Ticket(lane))
    }

    fn send_now(&mut self, socket: Socket, buf: &mut Buf, more: More) -> Option<Result<usize, Error>> {
        let Entry { fd, ready, .. } = &mut self.entries[socket.0 as usize];
        let ready = &mut ready[Side::Write as usize];
        let fd = fd.as_ref().filter(|_| *ready)?;
        let (sent, spent) = send(fd, buf, more);
        *ready = sent.is_some() && !spent;
        sent
    }

    fn poll(&mut self, ticket: &Ticket, context: &mut Context<'_>) -> Poll<Done> {
        let (lane, now) = (ticket.0, self.now_nanos);
        let ready = self.entries[lane.socket as usize].ready[lane.side as usize];
        let wait = self.wait(lane);
        let given_up = given_up(wait.canceled, &wait.timer, now);
        // Where nothing has happened the operation stays where it is.
        if (ready || given_up.is_some())
            && let Some(op) = wait.op.take()
        {
            let op = match self.attempt(lane, op) {
                Ok(done) => return Poll::Ready(self.end(lane, done)),
                Err(op) => op,
            };
            if let Some(error) = given_up {
                return Poll::Ready(self.end(lane, failed(op, error)));
            }
            self.wait(lane).op = Some(op);
        }
        let wait = self.wait(lane);
        if !wait.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            wait.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }

    fn cancel(&mut self, ticket: &Ticket) {
        let Lane { socket, side } = ticket.0;
        let entry = &mut self.entries[socket as usize];
        // One last attempt: what is remembered of the socket may be older than the last bytes it received.
        entry.ready[side as usize] |= side == Side::Read && entry.fd.is_some();
        entry.waits[side as usize].canceled = true;
        entry.waits[side as usize].wake();
    }

    fn abandon(&mut self, ticket: Ticket) {
        let op = self.wait(ticket.0).op.take();
        match op {
            Some(Op::Sleep) => self.release(ticket.0.socket),
            Some(Op::Recv(_, Some(buf)) | Op::Send(_, buf, _)) => self.pool.give(buf),
            _ => {}
        }
        let wait = self.wait(ticket.0);
        wait.timer.due = NEVER;
        wait.canceled = false;
    }

    fn park(&mut self, until: Deadline) -> io::Result<()> {
        let asleep = !until.has_passed(self.now) && self.unpark.may_sleep();
        let timeout = if asleep { self.timers.sleep(Instant::now(), until) } else { Some(Duration::ZERO) };
        let timeout = timeout.and_then(|timeout| self.alarm.set(&self.poll, ALARM, timeout)).map(timespec);
        self.events.clear();
        let waited =
            epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref());
        if asleep {
            self.unpark.woke();
        }
        match waited {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.now = Instant::now();
        self.now_nanos = nanos(self.now);
        self.note_readiness();
        self.fire_timers();
        Ok(())
    }

    fn unpark(&self) -> Unpark {
        self.unpark.clone()
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn deadline(&self, after: Duration) -> Deadline {
        Deadline::at_nanos(self.now_nanos).later(after)
    }

    fn take_buf(&mut self) -> Buf {
        self.pool.take()
    }

    fn give_buf(&mut self, buf: Buf) {
        self.pool.give(buf);
    }

    fn drain(self) -> io::Result<()> {
        // Readiness leaves nothing under way in the kernel; closing the descriptors is all there is to do.
        Ok(())
    }
}

impl Epoll {
    fn wait(&mut self, lane: Lane) -> &mut Wait {
        &mut self.entries[lane.socket as usize].waits[lane.side as usize]
    }

    /// Takes a free entry for a socket, or for a sleep.
    fn occupy(&mut self, fd: Option<OwnedFd>) -> u32 {
        let index = self.vacancies.take(&mut self.entries, Entry::free);
        let entry = &mut self.entries[index as usize];
        // A socket is tried before it is waited for: often it is ready from the start.
        entry.ready = [fd.is_some(); 2];
        entry.fd = fd;
        entry.registered = false;
        entry.shared = false;
        entry.hangup = false;
        index
    }

    fn release(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        // Closing the last descriptor of a socket also takes it out of the epoll set (epoll(7), question 6).
        entry.fd = None;
        entry.generation = entry.generation.wrapping_add(1);
        for wait in &mut entry.waits {
            wait.timer.due = NEVER;
            wait.canceled = false;
            wait.waker = None;
            if let Some(Op::Recv(_, Some(buf)) | Op::Send(_, buf, _)) = wait.op.take() {
                self.pool.give(buf);
            }
        }
        self.vacancies.give(index);
    }

    /// Ends the operation of a lane and hands its answer on.
    fn end(&mut self, lane: Lane, done: Done) -> Done {
        let wait = self.wait(lane);
        wait.canceled = false;
        // Moves the deadline out of the way without touching the heap.
        wait.timer.due = NEVER;
        if matches!(done, Done::Slept) {
            self.release(lane.socket);
        }
        done
    }

    /// Asks to be told when the socket becomes ready. Nothing is lost by registering late: the kernel
    /// reports readiness that is already there.
    fn register(&mut self, index: u32) -> Result<(), Errno> {
        let entry = &mut self.entries[index as usize];
        let Some(fd) = entry.fd.as_ref().filter(|_| !entry.registered) else { return Ok(()) };
        use epoll::EventFlags as Flags;
        let flags = match entry.shared {
            false => Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET,
            true => Flags::IN | Flags::ET | Flags::EXCLUSIVE,
        };
        let data = u64::from(entry.generation) << 32 | u64::from(index);
        epoll::add(&self.poll, fd, epoll::EventData::new_u64(data), flags)?;
        entry.registered = true;
        Ok(())
    }

    /// Tries an operation without blocking: its answer, or the operation back if it would have blocked.
    fn attempt(&mut self, lane: Lane, op: Op) -> Result<Done, Op> {
        let entry = &mut self.entries[lane.socket as usize];
        let side = lane.side as usize;
        if matches!(op, Op::Sleep) {
            let due = entry.waits[side].timer.due <= self.now_nanos;
            return if due { Ok(Done::Slept) } else { Err(op) };
        }
        // Nothing has to be ready for a shutdown.
        if !entry.ready[side] && !matches!(op, Op::Shutdown(_)) {
            return Err(op);
        }
        let Some(fd) = entry.fd.as_ref() else { return Ok(failed(op, Error::Os(Errno::BADF))) };
        let (result, spent) = match op {
            Op::Accept(socket) => (accept(fd, socket), false),
            Op::Connect(socket, address) => (connect(fd, socket, address, entry.registered), false),
            Op::Recv(socket, buf) => {
                let (result, short) = receive(fd, socket, buf, &mut self.pool);
                (result, short && !entry.hangup)
            }
            Op::Send(socket, mut buf, more) => match send(fd, &mut buf, more) {
                (None, spent) => (Err(Op::Send(socket, buf, more)), spent),
                (Some(sent), spent) => (Ok(Done::Sent(buf, sent)), spent),
            },
            Op::SendFile(socket, range) => (send_file(fd, socket, range), false),
            Op::Shutdown(_) => {
                (Ok(Done::ShutDown(net::shutdown(fd, Shutdown::Write).map_err(Error::from))), false)
            }
            Op::Sleep => (Ok(Done::Slept), false),
        };
        entry.ready[side] = result.is_ok() && !spent;
        result
    }

    fn note_readiness(&mut self) {
        use epoll::EventFlags as Flags;
        for event in &self.events {
            let (flags, data) = (event.flags, event.data.u64());
            if data == WAKE {
                let _ = self.unpark.eventfd().map(|fd| rustix::io::read(fd, &mut [0u8; 8]));
                continue;
            }
            if data == ALARM {
                continue;
            }
            let entry = &mut self.entries[data as u32 as usize];
            if entry.generation != (data >> 32) as u32 {
                continue;
            }
            let over = flags.intersects(Flags::HUP | Flags::ERR);
            entry.hangup |= over || flags.contains(Flags::RDHUP);
            if flags.contains(Flags::IN) || entry.hangup {
                entry.ready[Side::Read as usize] = true;
                entry.waits[Side::Read as usize].wake();
            }
            if flags.contains(Flags::OUT) || over {
                entry.ready[Side::Write as usize] = true;
                entry.waits[Side::Write as usize].wake();
            }
        }
    }

    fn fire_timers(&mut self) {
        let now = self.now_nanos;
        while let Some(entry) = self.timers.pop_due(now) {
            let lane = Lane::of_key(entry.1);
            let wait = &mut self.entries[lane.socket as usize].waits[lane.side as usize];
            if self.timers.fire(entry, &mut wait.timer, now) {
                wait.wake();
            }
        }
    }
}
