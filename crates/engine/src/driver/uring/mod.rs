//! The io_uring driver: requests go to the kernel in batches, and its answers come back in batches.
//!
//! A socket has at most one receive under way, which goes on until it is cancelled (multishot) and takes a buffer from
//! a shared ring only when bytes arrive. What arrives before the connection asks for it is kept, up to a bound past
//! which the receive is cancelled and the kernel's own window makes the peer wait. A buffer that is being sent belongs
//! to the table of flights until the kernel has let go of it, whatever becomes of its connection.

mod attempt;
mod completion;
mod entry;
mod flight;
mod provided;
mod ring;
mod settle;
mod tag;

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use io_uring::opcode;
use io_uring::types::{CancelBuilder, Fd};
use rustix::io::Errno;

use super::vacancies::Vacancies;
use super::{Driver, Lane, Limits, Side, Started, Ticket, failed, reset_on_close, socket_of, table};
use crate::buf::{Buf, Pool};
use crate::op::{Done, Error, Op, Socket};
use crate::timer::{Deadline, NEVER, Nanos, Timers, nanos};
use crate::unpark::Unpark;
use entry::{Arrived, Entry, Inbound, Wait};
use flight::Flights;
use provided::Provided;
use ring::{Ring, Wait as Enter};
use tag::Tag;

/// Idle buffers kept per thread.
const POOLED: usize = 512;

/// poll(2): the socket can be written to.
const POLLOUT: u32 = 0x4;
/// poll(2): there is something to read.
const POLLIN: u32 = 0x1;

/// A thread's io_uring and the sockets it serves.
pub struct Uring {
    ring: ManuallyDrop<Ring>,
    provided: ManuallyDrop<Provided>,
    flights: ManuallyDrop<Flights>,
    unpark: Unpark,
    entries: Vec<Entry>,
    vacancies: Vacancies,
    timers: Timers,
    pool: Pool,
    now: Instant,
    /// `now` as deadlines count it.
    now_nanos: Nanos,
    /// Requests that the kernel has and will complete; the wait for wake-ups among them.
    in_kernel: usize,
}

/// Whether this kernel lets this process use io_uring as this driver needs it, and if not, why.
///
/// # Errors
/// The kernel's reason: `ENOSYS` (older than 5.1), `EPERM` (switched off with `kernel.io_uring_disabled`, or by a
/// container's seccomp filter), `EINVAL` (older than 6.1).
pub fn probe() -> io::Result<()> {
    Uring::open(Limits { sockets: 1 })?.drain()
}

impl Driver for Uring {
    fn open(limits: Limits) -> io::Result<Self> {
        let ring = Ring::new()?;
        let mut pool = Pool::new(POOLED);
        let provided = Provided::register(ring.submitter(), &mut pool)?;
        let unpark = Unpark::with_eventfd()?;
        let now = Instant::now();
        let mut uring = Uring {
            ring: ManuallyDrop::new(ring),
            provided: ManuallyDrop::new(provided),
            flights: ManuallyDrop::default(),
            unpark,
            entries: table(limits, Entry::free)?,
            vacancies: Vacancies::new(limits),
            timers: Timers::default(),
            pool,
            now,
            now_nanos: nanos(now),
            in_kernel: 0,
        };
        uring.watch_wake_ups()?;
        Ok(uring)
    }

    fn attach(&mut self, fd: OwnedFd) -> Result<Socket, Error> {
        self.vacancies.attach()?;
        Ok(Socket(self.occupy(Some(fd))))
    }

    fn detach(&mut self, socket: Socket) {
        self.vacancies.detach();
        let entry = &mut self.entries[socket.0 as usize];
        entry.closing = true;
        for wait in &mut entry.waits {
            wait.timer.due = NEVER;
            wait.waker = None;
            if let Some(Op::Recv(_, Some(buf))) = wait.op.take() {
                self.pool.give(buf);
            }
        }
        // Each request by its own tag, which the kernel finds at once; by descriptor it would look at all there are.
        let inbound = Tag::Inbound(socket.0, entry.generation);
        let inbound = (entry.inbound == Inbound::UnderWay).then_some(inbound);
        let flights = entry.waits.each_ref().map(|wait| wait.flight);
        for tag in flights.into_iter().flatten().chain(inbound) {
            self.push_cancel(CancelBuilder::user_data(tag.pack()));
        }
        self.let_go(socket.0);
    }

    fn poll_release(&mut self, socket: Socket, context: &mut Context<'_>) -> Poll<Option<OwnedFd>> {
        let entry = &mut self.entries[socket.0 as usize];
        let quiet = entry.arrived.is_empty() && entry.end.is_none();
        if entry.inbound == Inbound::Idle || !quiet {
            let free = quiet && entry.in_kernel == 0;
            let fd = if free { entry.fd.take() } else { None };
            if fd.is_some() {
                self.vacancies.detach();
                self.release(socket.0);
            }
            return Poll::Ready(fd);
        }
        // Its last completion may still bring bytes; what comes after that stays in the socket.
        entry.waits[Side::Read as usize].waker = Some(context.waker().clone());
        self.stop_inbound(socket.0);
        Poll::Pending
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
        let wait = &mut self.entries[index as usize].waits[lane.side as usize];
        wait.op = op;
        wait.canceled = false;
        self.timers.set(lane.key(), &mut wait.timer, until);
        Started::Waiting(Ticket(lane))
    }

    fn poll(&mut self, ticket: &Ticket, context: &mut Context<'_>) -> Poll<Done> {
        let lane = ticket.0;
        if let Some(done) = self.wait(lane).done.take() {
            return Poll::Ready(self.end(lane, done));
        }
        // What is with the kernel is answered by the kernel.
        if self.wait(lane).flight.is_none() {
            let Some(op) = self.wait(lane).op.take() else { return Poll::Pending };
            match self.attempt(lane, op) {
                Ok(done) => return Poll::Ready(self.end(lane, done)),
                Err(op) => self.wait(lane).op = op,
            }
        }
        let now = self.now_nanos;
        let wait = self.wait(lane);
        if let Some(error) = wait.given_up(now) {
            match (wait.flight, wait.op.take()) {
                (Some(flight), op) => {
                    wait.op = op;
                    self.push_cancel(CancelBuilder::user_data(flight.pack()));
                }
                (None, Some(op)) => return Poll::Ready(self.end(lane, failed(op, error))),
                (None, None) => {}
            }
        }
        let wait = self.wait(lane);
        if !wait.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            wait.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }

    fn cancel(&mut self, ticket: &Ticket) {
        let wait = self.wait(ticket.0);
        wait.canceled = true;
        wait.wake();
    }

    fn abandon(&mut self, ticket: Ticket) {
        let lane = ticket.0;
        let wait = self.wait(lane);
        let (op, done, flight) = (wait.op.take(), wait.done.take(), wait.flight.take());
        wait.timer.due = NEVER;
        wait.canceled = false;
        match op {
            Some(Op::Sleep) => self.release(lane.socket),
            Some(Op::Recv(_, Some(buf))) => self.pool.give(buf),
            _ => {}
        }
        if let Some(Done::Sent(buf, _)) = done {
            self.pool.give(buf);
        }
        if let Some(flight) = flight {
            // The flight keeps its buffer until the kernel has let go of it.
            self.flights.orphan(flight);
            self.push_cancel(CancelBuilder::user_data(flight.pack()));
        }
    }

    fn park(&mut self, until: Deadline) -> io::Result<()> {
        let asleep = !until.has_passed(self.now) && self.unpark.may_sleep();
        let enter = match asleep.then(|| self.timers.sleep(Instant::now(), until)) {
            None => Enter::No,
            Some(Some(time)) => Enter::AtMost(time),
            Some(None) => Enter::Forever,
        };
        let entered = self.ring.enter(enter);
        if asleep {
            self.unpark.woke();
        }
        entered?;
        self.now = Instant::now();
        self.now_nanos = nanos(self.now);
        self.take_completions();
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

    fn drain(mut self) -> io::Result<()> {
        self.settle()
    }
}

impl Uring {
    fn wait(&mut self, lane: Lane) -> &mut Wait {
        &mut self.entries[lane.socket as usize].waits[lane.side as usize]
    }

    /// Takes a free entry for a socket, or for a sleep.
    fn occupy(&mut self, fd: Option<OwnedFd>) -> u32 {
        let index = self.vacancies.take(&mut self.entries, Entry::free);
        self.entries[index as usize].fd = fd;
        index
    }

    /// Frees an entry of which the kernel has nothing.
    fn release(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        entry.fd = None;
        entry.generation = entry.generation.wrapping_add(1);
        entry.closing = false;
        entry.listening = false;
        entry.inbound = Inbound::Idle;
        entry.end = None;
        for arrived in entry.arrived.drain(..) {
            if let Arrived::Bytes(buf) = arrived {
                self.pool.give(buf);
            }
        }
        for wait in &mut entry.waits {
            if let Some(Done::Sent(buf, _)) = wait.done.take() {
                self.pool.give(buf);
            }
            // The timer's place in the heap stays known, so that it is not armed twice.
            wait.timer.due = NEVER;
            *wait = Wait { timer: wait.timer, ..Wait::IDLE };
        }
        self.vacancies.give(index);
    }

    /// Closes a socket that was given up, if the kernel has nothing of it any more.
    fn let_go(&mut self, index: u32) {
        let entry = &self.entries[index as usize];
        if entry.closing && entry.in_kernel == 0 {
            self.release(index);
        }
    }

    /// Ends the operation of a lane and hands its answer on.
    fn end(&mut self, lane: Lane, done: Done) -> Done {
        let wait = self.wait(lane);
        wait.canceled = false;
        wait.timer.due = NEVER;
        if matches!(done, Done::Slept) {
            self.release(lane.socket);
        }
        done
    }

    fn watch_wake_ups(&mut self) -> Result<(), Error> {
        let fd = self.unpark.eventfd().ok_or(Errno::BADF)?.as_raw_fd();
        let request = opcode::PollAdd::new(Fd(fd), POLLIN).multi(true).build().user_data(Tag::Wake.pack());
        // SAFETY: the request points to no memory.
        unsafe { self.push(&request) }
    }

    /// Ends the receive or the accept that goes on, which its last completion will tell.
    fn stop_inbound(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        if entry.inbound == Inbound::UnderWay {
            entry.inbound = Inbound::Stopping;
            let tag = Tag::Inbound(index, entry.generation);
            self.push_cancel(CancelBuilder::user_data(tag.pack()));
        }
    }

    fn push_cancel(&mut self, what: CancelBuilder) {
        let request = opcode::AsyncCancel2::new(what).build().user_data(Tag::Cancel.pack());
        // SAFETY: the request points to no memory. Where it cannot be pushed the kernel is out of order, and the next
        // `park` says so.
        let _ = unsafe { self.push(&request) };
    }

    /// Queues a request.
    ///
    /// # Safety
    /// What the request points to must stay valid and untouched until its completion was taken.
    unsafe fn push(&mut self, request: &io_uring::squeue::Entry) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.ring.push(request) }
            .map_err(|error| Error::Os(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        self.in_kernel += 1;
        Ok(())
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
