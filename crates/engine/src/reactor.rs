//! One thread that owns connections: it takes them in, runs them, and lets them finish when it stops.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags};

use crate::balance::Balancer;
use crate::counter::add;
use crate::driver::{Driver, Limits};
use crate::executor::Executor;
use crate::host;
use crate::inbox::Inbox;
use crate::meter::Meter;
use crate::op::Error;
use crate::rebalance::{Arrival, Exchange, Mover};
use crate::service::{Connections, Service};
use crate::stop::{Stop, both, either};
use crate::stream::{Io, Listener, Stream, yield_now};
use crate::timer::Deadline;

/// Sockets a driver needs beside the connections: the listener, and sleeps of the main task, which may be several at once.
pub(crate) const BESIDE: usize = 6;

/// How long accepting pauses when descriptors or memory have run out, unless a connection ends sooner.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// How long accepting goes on after a stop, for connections whose handshake was under way; and then, how long
/// those have to send their first request before idle connections are closed.
pub(crate) const LAST_CALL: Duration = Duration::from_millis(20);

/// One slot in so many is kept free, as long as there are idle connections that can make room.
const SPARE: usize = 64;

/// How often it is looked whether slots are scarce, and how often while they are.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_WHEN_SCARCE: Duration = Duration::from_millis(200);

/// Connections accepted after a stop before the clock is looked at again.
const TURN: usize = 64;

/// A connection on its way from the acceptor to its reactor.
pub(crate) type Accepted = (OwnedFd, SocketAddr);

/// What one reactor counts. One thread writes, any may read.
#[derive(Debug, Default)]
pub struct Counters {
    /// New connections taken in.
    pub accepted: AtomicU64,
    /// Connections taken in from other reactors.
    pub moved_in: AtomicU64,
    /// Connections given to other reactors.
    pub moved_out: AtomicU64,
    /// Connections that are over here: they have ended, or moved to another reactor.
    pub closed: AtomicU64,
    /// Connections turned away because every slot was taken.
    pub refused: AtomicU64,
    /// Times that accepting paused for want of descriptors or memory.
    pub paused: AtomicU64,
    /// How busy its loop is.
    pub meter: Meter,
}

impl Counters {
    /// Adds one.
    pub(crate) fn count(counter: &AtomicU64) {
        add(counter, 1);
    }
}

/// Where a reactor's connections come from.
pub(crate) enum Source {
    /// A listening socket, its own or one that all reactors share.
    Listener(OwnedFd, Sharing),
    /// The acceptor.
    Inbox(Arc<Inbox<Accepted>>),
}

/// Whose a listening socket is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    Own,
    Shared,
}

/// All that one reactor needs.
pub(crate) struct Reactor<S> {
    pub(crate) index: usize,
    pub(crate) capacity: usize,
    pub(crate) source: Source,
    pub(crate) service: Arc<S>,
    pub(crate) counters: Arc<Counters>,
    /// How connections move between the reactors, if they do.
    pub(crate) exchange: Option<Arc<Exchange>>,
    pub(crate) stop: Stop,
    pub(crate) drain: Duration,
    /// The only processor it runs on, if it is to stay on one.
    pub(crate) cpu: Option<usize>,
}

impl<S: Service> Reactor<S> {
    /// Runs on the calling thread until stopped and drained; calls `up` when it serves.
    pub(crate) fn run<D: Driver>(self, up: &dyn Fn()) -> io::Result<()> {
        if let Some(cpu) = self.cpu {
            host::pin(&[cpu])?;
        }
        let io = Io::new(D::open(Limits { sockets: self.capacity + BESIDE })?);
        let local = self.service.on_reactor(self.index, &io);
        let executor = Executor::new(self.capacity, io.driver().unpark());
        // What the connections watch. It is set later than the reactor's own, when accepting is over.
        let closing = Stop::default();
        let take = |Arrival { fd, peer, answers }, counter| {
            if executor.is_full() {
                Counters::count(&self.counters.refused);
                refuse(&fd, self.service.refusal());
                return;
            }
            let mover = |exchange: &Arc<Exchange>| Mover::new(exchange.clone(), self.index, answers);
            let Ok(stream) = Stream::movable(&io, fd, self.exchange.as_ref().map(mover)) else {
                Counters::count(&self.counters.refused);
                return;
            };
            Counters::count(counter);
            let connection = local.serve(stream, peer, closing.clone());
            let counters = self.counters.clone();
            let task = async move {
                connection.await;
                Counters::count(&counters.closed);
            };
            // There is room: it was looked at above, and only this thread fills it.
            let _ = executor.spawn(task);
        };
        let admit = |(fd, peer)| take(Arrival { fd, peer, answers: 0 }, &self.counters.accepted);
        let welcome = |arrival| take(arrival, &self.counters.moved_in);
        let ended = executor.run(&io, &self.counters.meter, || local.end_of_turn(), async {
            self.stop.watch().await;
            let room = async || either(executor.one_less(), io.sleep(io.deadline(PAUSE))).await;
            let pause = async || {
                Counters::count(&self.counters.paused);
                room().await;
            };
            let new = self.source.bring(&io, &self.stop, &admit, pause, up);
            let moved = async {
                let Some(exchange) = &self.exchange else { return };
                let full = || executor.is_full();
                take_moved(exchange.inbox(self.index), &self.stop, full, room, welcome).await;
            };
            let watch = watch(self.exchange.as_deref().filter(|_| self.index == 0), &io, &self.stop);
            let make_room = |connections| local.make_room(connections);
            let room =
                keep_room(&io, &self.stop, &executor, self.capacity, &self.counters.refused, make_room);
            both(both(both(new, moved), watch), room).await?;
            io.sleep(io.deadline(LAST_CALL)).await;
            finish(&io, &executor, &closing, self.drain).await;
            Ok::<(), Error>(())
        });
        // Whatever is still under way is given up with its tasks; then the driver waits for the kernel.
        drop((executor, local));
        ended??;
        io.close()
    }
}

impl Source {
    /// Brings new connections until stopped, and the last that had come in by then; calls `up` when it begins.
    async fn bring<D: Driver>(
        self,
        io: &Io<D>,
        stop: &Stop,
        admit: &impl Fn(Accepted),
        pause: impl AsyncFn(),
        up: &dyn Fn(),
    ) -> Result<(), Error> {
        match self {
            Source::Inbox(inbox) => {
                up();
                take_in(&inbox, stop, admit).await;
            }
            Source::Listener(fd, sharing) => {
                let listener = match sharing {
                    Sharing::Own => Listener::new(io, fd)?,
                    Sharing::Shared => Listener::shared(io, fd)?,
                };
                up();
                accept(io, listener, stop, async |accepted| admit(accepted), pause).await;
            }
        }
        Ok(())
    }
}

/// Watches over how busy the reactors are, where connections move, on the thread of one of them.
async fn watch<D: Driver>(exchange: Option<&Exchange>, io: &Io<D>, stop: &Stop) {
    if let Some(exchange) = exchange {
        exchange.watch(io, stop).await;
    }
}

/// Has idle connections end where slots are scarce, or somebody was turned away for want of one, until stopped.
async fn keep_room<D: Driver, F: Future<Output = ()>>(
    io: &Io<D>,
    stop: &Stop,
    executor: &Executor<F>,
    capacity: usize,
    refused: &AtomicU64,
    make_room: impl Fn(usize),
) {
    let refused = || refused.load(Ordering::Relaxed);
    let (mut pause, mut seen) = (LOOK, refused());
    while stop.or(io.sleep(io.deadline(pause))).await.is_some() {
        let now = refused();
        let spare = (capacity / SPARE).max(usize::from(now != seen));
        seen = now;
        let missing = (executor.live() + spare).saturating_sub(capacity);
        make_room(missing);
        if missing > 0 {
            executor.wake_all();
        }
        // Where nobody can make room, it is not looked for as often.
        pause = if missing > 0 && !executor.is_full() { LOOK_WHEN_SCARCE } else { LOOK };
    }
}

/// Takes in connections from other reactors until stopped; those that come too late stay where they are. None is turned
/// away: where every slot is taken the next waits until there is `room`.
async fn take_moved(
    inbox: &Inbox<Arrival>,
    stop: &Stop,
    full: impl Fn() -> bool,
    room: impl AsyncFn(),
    welcome: impl Fn(Arrival),
) {
    let mut mail = Vec::new();
    let mut goes_on = true;
    while goes_on {
        goes_on = stop.or(inbox.take(&mut mail)).await.is_some();
        if !goes_on {
            inbox.close();
            inbox.wait_closed(&mut mail).await;
        }
        for arrival in mail.drain(..) {
            // Idle connections end only after the stop, so nobody waits for them then.
            while full() && stop.or(room()).await.is_some() {}
            welcome(arrival);
        }
    }
}

/// Lets the connections end: idle ones at once, busy ones when they have finished, within the drain limit.
async fn finish<D: Driver, F: Future<Output = ()>>(
    io: &Io<D>,
    executor: &Executor<F>,
    closing: &Stop,
    limit: Duration,
) {
    // They see it when they are polled.
    closing.set();
    executor.wake_all();
    either(executor.at_most(0), io.sleep(io.deadline(limit))).await;
    if executor.live() > 0 {
        tracing::warn!(connections = executor.live(), "cut off: still busy at the end of the drain limit");
    }
}

/// Accepts until stopped, and then what had already come in by then: closing a listening socket resets the
/// connections that wait in its backlog.
pub(crate) async fn accept<D: Driver>(
    io: &Io<D>,
    listener: Listener<D>,
    stop: &Stop,
    admit: impl AsyncFn(Accepted),
    pause: impl AsyncFn(),
) {
    // One line for each time that it happens, and not for each attempt.
    let mut said = false;
    while let Some(accepted) = stop.or(listener.accept(Deadline::NEVER)).await {
        match accepted {
            Ok(accepted) => {
                said = false;
                admit(accepted).await;
            }
            Err(error) if error.is_departure() => {}
            Err(error) => {
                if !std::mem::replace(&mut said, true) {
                    tracing::warn!(%error, "accepting pauses until there is room again");
                }
                stop.or(pause()).await;
            }
        }
    }
    // A deadline in the future makes the driver look at the socket anew: what it remembers may be older than
    // the last connection.
    let last_call = io.deadline(LAST_CALL);
    for turn in 1.. {
        match listener.accept(last_call).await {
            Ok(accepted) => admit(accepted).await,
            Err(error) if error.is_departure() => {}
            Err(_) => return,
        }
        if turn % TURN == 0 {
            yield_now().await;
            if last_call.has_passed(io.now()) {
                return;
            }
        }
    }
}

async fn take_in(inbox: &Inbox<Accepted>, stop: &Stop, admit: &impl Fn(Accepted)) {
    let mut mail = Vec::new();
    while stop.or(inbox.take(&mut mail)).await.is_some() {
        mail.drain(..).for_each(admit);
    }
    // The acceptor closes the box when it has accepted the last connection.
    inbox.wait_closed(&mut mail).await;
    mail.drain(..).for_each(admit);
}

/// Tells a client that there is no room, as far as that goes without waiting for it.
pub(crate) fn refuse(fd: &OwnedFd, answer: &[u8]) {
    // Reading first: closing a socket with unread bytes resets it, and the answer could be lost.
    let _ = rustix::net::recv(fd, &mut [0u8; 4096], RecvFlags::DONTWAIT);
    let _ = rustix::net::send(fd, answer, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Write);
}

/// Runs the accepting thread of [`Spread::Acceptor`](crate::topology::Spread::Acceptor).
pub(crate) fn run_acceptor<D: Driver>(
    fd: OwnedFd,
    inboxes: &[Arc<Inbox<Accepted>>],
    balancer: Balancer,
    counters: &Counters,
    stop: &Stop,
    up: &dyn Fn(),
) -> io::Result<()> {
    let io = Io::new(D::open(Limits { sockets: BESIDE })?);
    let executor: Executor<std::future::Ready<()>> = Executor::new(0, io.driver().unpark());
    let balancer = std::cell::RefCell::new(balancer);
    let hand_over = async |accepted| {
        let index = balancer.borrow_mut().choose(io.now());
        // A closed box means that the reactor has ended, as it does when its driver failed: the connection is
        // dropped, and the process is about to end with that error.
        let _ = inboxes[index].post(accepted);
    };
    let pause = async || {
        Counters::count(&counters.paused);
        io.sleep(io.deadline(PAUSE)).await;
    };
    executor.run(&io, &counters.meter, || {}, async {
        stop.watch().await;
        let listener = Listener::new(&io, fd)?;
        up();
        accept(&io, listener, stop, hand_over, pause).await;
        Ok::<(), Error>(())
    })??;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::TcpStream;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::driver::epoll::Epoll;
    use crate::listen::{listen, local_address};

    #[test]
    fn a_connection_that_came_just_before_the_stop_is_accepted() {
        let fd = listen(([127, 0, 0, 1], 0).into(), 1, 16).unwrap().remove(0);
        let address = local_address(&fd).unwrap();
        let io = Io::new(Epoll::open(Limits { sockets: BESIDE }).unwrap());
        let listener = Listener::new(&io, fd).unwrap();
        let (stop, accepted) = (Stop::default(), Cell::new(0));
        let count = async |_| accepted.set(accepted.get() + 1);
        let mut accepting = pin!(accept(&io, listener, &stop, count, async || ()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(accepting.as_mut().poll(&mut context).is_pending());
        // The driver has just seen an empty backlog, and does not look again between these and the stop.
        let _clients = [TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap()];
        stop.set();
        while accepting.as_mut().poll(&mut context) == Poll::Pending {
            io.park(io.deadline(Duration::from_secs(10))).unwrap();
        }
        assert_eq!(accepted.get(), 2);
    }
}
