//! Sockets as their users see them: operations to await, on whichever driver the thread runs.

use std::cell::{RefCell, RefMut};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::buf::Buf;
use crate::driver::{Driver, Started, Ticket};
use crate::op::{Done, Error, FileRange, More, Op, Socket};
use crate::rebalance::Mover;
use crate::timer::Deadline;

/// A thread's driver, shared by all that runs on the thread.
pub struct Io<D>(Rc<RefCell<D>>);

impl<D> Clone for Io<D> {
    fn clone(&self) -> Self {
        Io(self.0.clone())
    }
}

impl<D: Driver> Io<D> {
    /// Shares a driver.
    pub fn new(driver: D) -> Self {
        Io(Rc::new(RefCell::new(driver)))
    }

    /// The driver itself. Not to be held across an await.
    pub fn driver(&self) -> RefMut<'_, D> {
        self.0.borrow_mut()
    }

    /// The time as of the last wake-up.
    pub fn now(&self) -> Instant {
        self.0.borrow().now()
    }

    /// The deadline that is `after` from now.
    pub fn deadline(&self, after: Duration) -> Deadline {
        self.0.borrow().deadline(after)
    }

    /// Waits until the deadline.
    pub async fn sleep(&self, until: Deadline) {
        self.operation(Op::Sleep, until).await;
    }

    /// Ends the driver once nothing uses it any more; see [`Driver::drain`].
    ///
    /// # Errors
    /// The driver's own, or that something still uses it.
    pub fn close(self) -> io::Result<()> {
        match Rc::try_unwrap(self.0) {
            Ok(driver) => driver.into_inner().drain(),
            Err(_) => Err(io::Error::other("the driver is still in use")),
        }
    }

    /// Sleeps in the driver; for the executor.
    pub(crate) fn park(&self, until: Deadline) -> io::Result<()> {
        self.0.borrow_mut().park(until)
    }

    fn operation(&self, op: Op, until: Deadline) -> Operation<'_, D> {
        Operation { io: self, state: State::New(op, until) }
    }
}

/// An operation as a future. Dropping it gives the operation up; the driver then keeps its buffer until the
/// kernel has let go of it.
struct Operation<'a, D: Driver> {
    io: &'a Io<D>,
    state: State,
}

enum State {
    New(Op, Deadline),
    Waiting(Ticket),
    Over,
}

impl<D: Driver> Operation<'_, D> {
    /// Asks the operation to end soon; see [`Driver::cancel`].
    fn cancel(&self) {
        if let State::Waiting(ticket) = &self.state {
            self.io.driver().cancel(ticket);
        }
    }
}

impl<D: Driver> Future for Operation<'_, D> {
    type Output = Done;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Done> {
        let this = &mut *self;
        if let State::New(..) = this.state
            && let State::New(op, until) = std::mem::replace(&mut this.state, State::Over)
        {
            match this.io.driver().start(op, until) {
                Started::Done(done) => return Poll::Ready(done),
                Started::Waiting(ticket) => this.state = State::Waiting(ticket),
            }
        }
        let State::Waiting(ticket) = &this.state else { return Poll::Pending };
        let answer = this.io.driver().poll(ticket, context);
        if answer.is_ready() {
            this.state = State::Over;
        }
        answer
    }
}

impl<D: Driver> Drop for Operation<'_, D> {
    fn drop(&mut self) {
        if let State::Waiting(ticket) = std::mem::replace(&mut self.state, State::Over) {
            self.io.driver().abandon(ticket);
        }
    }
}

/// A connected socket.
pub struct Stream<D: Driver> {
    io: Io<D>,
    socket: Socket,
    /// What it takes to move to another thread; without it the connection stays.
    mover: Option<Mover>,
    /// The socket has moved: its place in the driver's table is not ours any more.
    moved: bool,
}

impl<D: Driver> Stream<D> {
    /// Takes charge of a non-blocking, connected socket.
    ///
    /// # Errors
    /// The driver's table of sockets is full.
    pub fn new(io: &Io<D>, fd: OwnedFd) -> Result<Self, Error> {
        let socket = io.driver().attach(fd)?;
        Ok(Stream::on(io, socket))
    }

    /// The same, for a connection that may move.
    pub(crate) fn movable(io: &Io<D>, fd: OwnedFd, mover: Option<Mover>) -> Result<Self, Error> {
        let mut stream = Stream::new(io, fd)?;
        stream.mover = mover;
        Ok(stream)
    }

    /// A stream on a socket that the driver holds already; for drivers that make their own sockets.
    pub fn on(io: &Io<D>, socket: Socket) -> Self {
        Stream { io: io.clone(), socket, mover: None, moved: false }
    }

    /// Connects a new, non-blocking socket.
    ///
    /// # Errors
    /// The table of sockets is full, the deadline passed, or the kernel's reason.
    pub async fn connect(io: &Io<D>, fd: OwnedFd, to: SocketAddr, until: Deadline) -> Result<Self, Error> {
        let stream = Stream::new(io, fd)?;
        match io.operation(Op::Connect(stream.socket, to), until).await {
            Done::Connected(result) => result.map(|()| stream),
            other => unreachable!("connect was answered {other:?}"),
        }
    }

    /// The driver this stream is on.
    pub fn io(&self) -> &Io<D> {
        &self.io
    }

    /// Receives at least one byte behind the content of `buf`, or into a buffer that the driver supplies;
    /// 0 is the end of the stream. While `stop` says so (looked at whenever the task is woken), the wait
    /// ends with [`Error::Canceled`].
    pub async fn recv(
        &self,
        buf: Option<Buf>,
        until: Deadline,
        stop: impl Fn() -> bool,
    ) -> (Option<Buf>, Result<usize, Error>) {
        let mut operation = self.io.operation(Op::Recv(self.socket, buf), until);
        let mut canceled = false;
        let done = std::future::poll_fn(|context| {
            let answer = Pin::new(&mut operation).poll(context);
            if answer.is_ready() || canceled || !stop() {
                return answer;
            }
            canceled = true;
            operation.cancel();
            Pin::new(&mut operation).poll(context)
        })
        .await;
        match done {
            Done::Received(buf, result) => (buf, result),
            other => unreachable!("recv was answered {other:?}"),
        }
    }

    /// Sends at least one byte of the content of `buf` and drops what was sent.
    pub async fn send(&self, mut buf: Buf, more: More, until: Deadline) -> (Buf, Result<usize, Error>) {
        // Nearly always the socket takes all of it, and nothing is under way.
        let sent = self.io.driver().send_now(self.socket, &mut buf, more);
        if let Some(sent) = sent {
            return (buf, sent);
        }
        match self.io.operation(Op::Send(self.socket, buf, more), until).await {
            Done::Sent(buf, result) => (buf, result),
            other => unreachable!("send was answered {other:?}"),
        }
    }

    /// Sends at least one byte of a file; 0 means that the file ends before the range does.
    pub async fn send_file(&self, range: FileRange, until: Deadline) -> Result<u64, Error> {
        match self.io.operation(Op::SendFile(self.socket, range), until).await {
            Done::SentFile(result) => result,
            other => unreachable!("sendfile was answered {other:?}"),
        }
    }

    /// Tells the peer that nothing more will be sent; receiving goes on.
    pub async fn shutdown(&self) -> Result<(), Error> {
        match self.io.operation(Op::Shutdown(self.socket), Deadline::NEVER).await {
            Done::ShutDown(result) => result,
            other => unreachable!("shutdown was answered {other:?}"),
        }
    }
}

impl<D: Driver> Stream<D> {
    /// Makes the coming close a reset of the connection: what was sent and not yet taken is dropped.
    pub fn reset(&self) {
        self.io.driver().reset(self.socket);
    }

    /// Requests that the connection answered before it moved here; 0 for a new one.
    pub fn answered_before(&self) -> u32 {
        self.mover.as_ref().map_or(0, Mover::answers)
    }

    /// Notes that so many requests have been answered by now, and all was sent; whether the connection may be among
    /// those that should [move](Self::relocate).
    pub fn note_answers(&mut self, answers: u32) -> bool {
        self.mover.as_mut().is_some_and(|mover| mover.note(answers))
    }

    /// Moves the connection to another reactor, if it should and can. With `true` this stream is over; what the client
    /// sends is received there. No operation may be under way, and nothing received may be unread.
    pub async fn relocate(&mut self, peer: SocketAddr) -> bool {
        let Some(passage) = self.mover.as_ref().and_then(Mover::destination) else { return false };
        let Some(fd) = self.release().await else { return false };
        let sent = self.mover.as_ref().map_or(Ok(()), |mover| mover.send(passage, fd, peer));
        if let Err(fd) = sent
            && let Ok(socket) = self.io.driver().attach(fd)
        {
            // It has come back, and takes the place that it has just left.
            (self.socket, self.moved) = (socket, false);
        }
        self.moved
    }

    /// The socket itself, for another thread's driver; the stream back where the driver does not let go of it, or bytes
    /// have come in meanwhile that it is to be asked for.
    ///
    /// # Errors
    /// The stream.
    pub async fn into_fd(mut self) -> Result<OwnedFd, Self> {
        self.release().await.ok_or(self)
    }

    async fn release(&mut self) -> Option<OwnedFd> {
        let release = |context: &mut Context<'_>| self.io.driver().poll_release(self.socket, context);
        let fd = std::future::poll_fn(release).await;
        self.moved = fd.is_some();
        fd
    }
}

impl<D: Driver> Drop for Stream<D> {
    fn drop(&mut self) {
        if !self.moved {
            self.io.driver().detach(self.socket);
        }
    }
}

/// A listening socket.
pub struct Listener<D: Driver> {
    io: Io<D>,
    socket: Socket,
}

impl<D: Driver> Listener<D> {
    /// Takes charge of a non-blocking, listening socket.
    ///
    /// # Errors
    /// The driver's table of sockets is full.
    pub fn new(io: &Io<D>, fd: OwnedFd) -> Result<Self, Error> {
        let socket = io.driver().attach(fd)?;
        Ok(Listener { io: io.clone(), socket })
    }

    /// The same, for a socket that other drivers watch too: the kernel then wakes one of them for a connection.
    ///
    /// # Errors
    /// The driver's table of sockets is full.
    pub fn shared(io: &Io<D>, fd: OwnedFd) -> Result<Self, Error> {
        let socket = io.driver().attach_shared(fd)?;
        Ok(Listener { io: io.clone(), socket })
    }

    /// The next connection, and where it comes from.
    pub async fn accept(&self, until: Deadline) -> Result<(OwnedFd, SocketAddr), Error> {
        match self.io.operation(Op::Accept(self.socket), until).await {
            Done::Accepted(result) => result,
            other => unreachable!("accept was answered {other:?}"),
        }
    }
}

impl<D: Driver> Drop for Listener<D> {
    fn drop(&mut self) {
        self.io.driver().detach(self.socket);
    }
}

/// Lets the other tasks that are ready have their turn.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}
