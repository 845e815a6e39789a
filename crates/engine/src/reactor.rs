//! One thread that owns connections: it takes them in, runs them, and lets them finish when it stops.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::accept::{Accepted, BESIDE, PAUSE, accept, last_call, refuse, turn_away};
use crate::driver::{Driver, Limits};
use crate::executor::Executor;
use crate::host;
use crate::inbox::Inbox;
use crate::listen::begin;
use crate::meter::Counters;
use crate::op::Error;
use crate::places::Places;
use crate::pressure::Pressure;
use crate::rebalance::{Arrival, Exchange, Mover};
use crate::service::{Connections, Service};
use crate::stop::{Stop, both, either};
use crate::stream::{Io, Listener, Stream};

/// One slot in so many is kept free, as long as there are idle connections that can make room.
const SPARE: usize = 64;

/// While memory is scarce one connection in so many is to end at each look, of those that are idle.
const SHED: usize = 4;

/// How often it is looked whether slots are scarce, and how often while they are.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_WHEN_SCARCE: Duration = Duration::from_millis(200);

/// Where a reactor's connections come from.
pub(crate) enum Source {
    /// A listening socket, its own or one that all reactors share.
    Listener(OwnedFd, Sharing),
    /// A socket of its own that is bound and does not listen yet, and how many connections may wait there once it does.
    Bound(OwnedFd, u32),
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
    /// The connections it can hold, and those it has.
    pub(crate) places: Arc<Places>,
    pub(crate) source: Source,
    pub(crate) service: Arc<S>,
    pub(crate) counters: Arc<Counters>,
    /// How connections move between the reactors, if they do.
    pub(crate) exchange: Option<Arc<Exchange>>,
    pub(crate) stop: Stop,
    /// Whether memory is scarce.
    pub(crate) pressure: Pressure,
    pub(crate) drain: Duration,
    /// The only processor it runs on, if it is to stay on one.
    pub(crate) cpu: Option<usize>,
}

impl<S: Service> Reactor<S> {
    /// Runs on the calling thread until stopped and drained; calls `up` when it serves.
    pub(crate) fn run<D: Driver>(self, up: &dyn Fn()) -> io::Result<()> {
        self.cpu.map_or(Ok(()), stay_on)?;
        let capacity = self.places.capacity();
        let io = Io::new(D::open(Limits { sockets: capacity + BESIDE })?);
        let local = self.service.on_reactor(self.index, &io);
        let executor = Executor::new(capacity, io.driver().unpark());
        // What the connections watch. It is set later than the reactor's own, when accepting is over.
        let closing = Stop::default();
        let take = |Arrival { fd, peer, answers, place }, counter| {
            let mover = |exchange: &Arc<Exchange>| Mover::new(exchange.clone(), self.index, answers);
            let Ok(stream) = Stream::movable(&io, fd, self.exchange.as_ref().map(mover)) else {
                Counters::count(&self.counters.refused);
                return;
            };
            Counters::count(counter);
            let connection = local.serve(stream, peer, closing.clone());
            let counters = self.counters.clone();
            // There is a slot for each place, and a place is free only after its connection is over.
            let _ = executor.spawn(async move {
                connection.await;
                Counters::count(&counters.closed);
                drop(place);
            });
        };
        let admit = |accepted| match find_place(self.exchange.as_deref(), self.index, &self.places, accepted)
        {
            Ok(Some(arrival)) => take(arrival, &self.counters.accepted),
            Ok(None) => {}
            Err((fd, _)) => {
                Counters::count(&self.counters.refused);
                refuse(&fd, self.service.refusal());
            }
        };
        let welcome = |arrival| take(arrival, &self.counters.moved_in);
        let ended = executor.run(&io, &self.counters.meter, || local.end_of_turn(), async {
            self.stop.watch().await;
            let pause = async || {
                Counters::count(&self.counters.paused);
                either(executor.one_less(), io.sleep(io.deadline(PAUSE))).await;
            };
            let turn_away = |accepted| turn_away(accepted, &self.counters, self.service.refusal());
            let new = self.source.bring(&io, (&self.stop, &self.pressure), &admit, turn_away, pause, up);
            let moved = async {
                let Some(exchange) = &self.exchange else { return };
                take_moved(exchange.inbox(self.index), &self.stop, welcome).await;
            };
            let watch = watch(self.exchange.as_deref().filter(|_| self.index == 0), &io, &self.stop);
            let make_room = |connections| local.make_room(connections);
            let switches = (&self.stop, &self.pressure);
            let room = keep_room(&io, switches, &executor, &self.places, &self.counters.refused, make_room);
            both(both(both(new, moved), watch), room).await?;
            io.sleep(last_call()).await;
            finish(&io, &executor, &closing, self.drain).await;
            Ok::<(), Error>(())
        });
        // Whatever is still under way is given up with its tasks; then the driver waits for the kernel.
        drop((executor, local));
        ended??;
        io.close()
    }
}

/// Keeps the calling thread on a processor.
fn stay_on(cpu: usize) -> io::Result<()> {
    host::pin(&[cpu]).map_err(|error| io::Error::new(error.kind(), format!("processor {cpu}: {error}")))
}

impl Source {
    /// Brings new connections until stopped, and the last that had come in by then; calls `up` when it begins.
    async fn bring<D: Driver>(
        self,
        io: &Io<D>,
        (stop, pressure): (&Stop, &Pressure),
        admit: &impl Fn(Accepted),
        turn_away: impl Fn(Accepted),
        pause: impl AsyncFn(),
        up: &dyn Fn(),
    ) -> Result<(), Error> {
        let listener = match self {
            Source::Inbox(inbox) => {
                up();
                take_in(&inbox, stop, admit).await;
                return Ok(());
            }
            Source::Listener(fd, Sharing::Own) => Listener::new(io, fd)?,
            Source::Listener(fd, Sharing::Shared) => Listener::shared(io, fd)?,
            Source::Bound(fd, backlog) => {
                begin(&fd, backlog)?;
                Listener::new(io, fd)?
            }
        };
        up();
        accept(listener, (stop, pressure), async |accepted| admit(accepted), turn_away, pause).await;
        Ok(())
    }
}

/// A new connection with its place on a reactor, or none if another one has taken it in.
///
/// # Errors
/// The connection: nobody has a place.
fn find_place(
    exchange: Option<&Exchange>,
    reactor: usize,
    places: &Arc<Places>,
    accepted: Accepted,
) -> Result<Option<Arrival>, Accepted> {
    match exchange {
        Some(exchange) => exchange.admit(reactor, accepted),
        None => Arrival::new(accepted, places).map(Some),
    }
}

/// Watches over how busy the reactors are, where connections move, on the thread of one of them.
async fn watch<D: Driver>(exchange: Option<&Exchange>, io: &Io<D>, stop: &Stop) {
    if let Some(exchange) = exchange {
        exchange.watch(io, stop).await;
    }
}

/// Has idle connections end where slots are scarce, or somebody was turned away for want of one, or memory is scarce or
/// descriptors have run out, until stopped.
async fn keep_room<D: Driver, F: Future<Output = ()>>(
    io: &Io<D>,
    (stop, pressure): (&Stop, &Pressure),
    executor: &Executor<F>,
    places: &Places,
    refused: &AtomicU64,
    make_room: impl Fn(usize),
) {
    let refused = || refused.load(Ordering::Relaxed);
    let (mut pause, mut seen) = (LOOK, refused());
    while stop.or(io.sleep(io.deadline(pause))).await.is_some() {
        let now = refused();
        let spare = (places.capacity() / SPARE).max(usize::from(now != seen));
        seen = now;
        let missing = if pressure.is_on() {
            executor.live().div_ceil(SHED)
        } else if pressure.lacks_descriptors() {
            executor.live().div_ceil(SPARE)
        } else {
            spare.saturating_sub(places.free())
        };
        make_room(missing);
        if missing > 0 {
            executor.wake_all();
        }
        // Where nobody can make room, it is not looked for as often.
        pause = if missing > 0 && places.free() > 0 { LOOK_WHEN_SCARCE } else { LOOK };
    }
}

/// Takes in connections from other reactors until stopped; those that come too late stay where they are. Each has its place
/// here already, so none waits and none is turned away.
async fn take_moved(inbox: &Inbox<Arrival>, stop: &Stop, welcome: impl Fn(Arrival)) {
    let mut mail = Vec::new();
    let mut goes_on = true;
    while goes_on {
        goes_on = stop.or(inbox.take(&mut mail)).await.is_some();
        if !goes_on {
            inbox.close();
            inbox.wait_closed(&mut mail).await;
        }
        mail.drain(..).for_each(&welcome);
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

async fn take_in(inbox: &Inbox<Accepted>, stop: &Stop, admit: &impl Fn(Accepted)) {
    let mut mail = Vec::new();
    while stop.or(inbox.take(&mut mail)).await.is_some() {
        mail.drain(..).for_each(admit);
    }
    // The acceptor closes the box when it has accepted the last connection.
    inbox.wait_closed(&mut mail).await;
    mail.drain(..).for_each(admit);
}
