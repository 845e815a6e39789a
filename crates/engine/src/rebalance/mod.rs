//! Connections move: from a reactor that is busy to one that is not, between two of their requests.
//!
//! Every so often the first reactor looks at how busy each one was and leaves an order with those that should give some
//! of their work away. A connection that has answered all it was asked looks whether there is an order, and goes if its
//! own share of the work fits it. It takes its socket along, with whatever the client has sent meanwhile.
//!
//! Of a reactor that rests every connection leaves in this way, and new ones are handed on as they come. So they are by one that
//! is full, to whoever has room.

mod decide;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::accept::Accepted;
use crate::counter::add;
use crate::driver::Driver;
use crate::inbox::Inbox;
use crate::meter::Counters;
use crate::places::{Place, Places};
use crate::shift::Shift;
use crate::stop::Stop;
use crate::stream::Io;
use crate::sync::{Mutex, lock};
use decide::{Decider, Load, Order};

/// How often the reactors are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// How often while nobody has much to do.
const IDLE_LOOK: Duration = Duration::from_secs(1);

/// The busy share below which a reactor has not much to do.
const IDLE: f64 = 0.05;

/// One place in so many, and at least one, is left to those that come to a reactor by themselves: for the sake of one that moves
/// nobody has to go, nor to be turned away.
const KEPT_FREE: usize = 32;

/// Looks for which a connection stays where it came to: at least one that saw all of it, and after a move so many that
/// nothing goes back and forth.
const STAY_NEW: u32 = 2;
const STAY_MOVED: u32 = 5;

/// A connection on its way to another reactor.
pub(crate) struct Arrival {
    pub(crate) fd: OwnedFd,
    pub(crate) peer: SocketAddr,
    /// Requests it has answered so far; 0 for a new one, which a reactor that rests or is full has handed on.
    pub(crate) answers: u32,
    /// The place that it has on that reactor.
    pub(crate) place: Place,
}

impl Arrival {
    /// A new connection with one of these places.
    ///
    /// # Errors
    /// The connection: none is free.
    pub(crate) fn new((fd, peer): Accepted, places: &Arc<Places>) -> Result<Self, Accepted> {
        match places.take(0) {
            Some(place) => Ok(Arrival { fd, peer, answers: 0, place }),
            None => Err((fd, peer)),
        }
    }
}

/// What the reactors of a server share so that connections can move.
pub(crate) struct Exchange {
    /// Looks so far.
    look: AtomicU32,
    seats: Box<[Seat]>,
    shift: Shift,
}

/// One reactor's part of it, in cache lines of its own.
#[repr(align(128))]
struct Seat {
    counters: Arc<Counters>,
    places: Arc<Places>,
    /// Requests that its connections answered. Its thread writes.
    answered: AtomicU64,
    /// Whether there is an order, or the reactor rests; a hint, so that looking takes no lock.
    asked: AtomicBool,
    order: Mutex<Option<Order>>,
    inbox: Inbox<Arrival>,
}

impl Seat {
    /// Places that those that move leave to those that come by themselves.
    fn kept_free(&self) -> usize {
        self.places.capacity().div_ceil(KEPT_FREE)
    }

    /// Places that those that move may take now.
    fn room(&self) -> usize {
        self.places.room(self.kept_free())
    }

    /// Takes one of them.
    fn take(&self) -> Option<Place> {
        self.places.take(self.kept_free())
    }
}

impl Exchange {
    /// For reactors with these counters and places, of which those work that the shift says.
    pub(crate) fn new(reactors: impl Iterator<Item = (Arc<Counters>, Arc<Places>)>, shift: Shift) -> Self {
        let seat = |(counters, places)| Seat {
            counters,
            places,
            answered: AtomicU64::new(0),
            asked: AtomicBool::new(false),
            order: Mutex::new(None),
            inbox: Inbox::default(),
        };
        Exchange { look: AtomicU32::new(0), seats: reactors.map(seat).collect(), shift }
    }

    /// Who works and who rests.
    pub(crate) fn shift(&self) -> &Shift {
        &self.shift
    }

    /// So many reactors work from now on, and the others rest.
    pub(crate) fn set_working(&self, reactors: usize) {
        self.shift.set_working(reactors);
        // What was ordered before is void.
        (0..self.seats.len()).for_each(|reactor| self.give(reactor, None));
    }

    fn rests(&self, reactor: usize) -> bool {
        reactor >= self.shift.working()
    }

    /// Leaves an order with a reactor, or none.
    fn give(&self, reactor: usize, order: Option<Order>) {
        let seat = &self.seats[reactor];
        let mut standing = lock(&seat.order);
        *standing = order.filter(|order| !self.rests(order.to));
        // Under the lock: who comes last has seen how many work.
        seat.asked.store(standing.is_some() || self.rests(reactor), Ordering::Relaxed);
    }

    /// Where a connection of a reactor should go that rests, and its place there: of those that work and have room, the one
    /// with the fewest. `None` where it works itself, or nobody has room.
    fn relief(&self, reactor: usize) -> Option<(usize, Place)> {
        let working = self.shift.working();
        if reactor < working {
            return None;
        }
        let seats = self.seats.iter().take(working).enumerate().filter(|(_, seat)| seat.room() > 0);
        let (index, seat) = seats.min_by_key(|(_, seat)| seat.places.taken())?;
        Some((index, seat.take()?))
    }

    /// A place for a new connection that came to a reactor: elsewhere where that rests, otherwise there, and where it is full
    /// with whoever has one. Who works comes before who rests, and who has few before who has many.
    fn place(&self, reactor: usize) -> Option<(usize, Place)> {
        let own = || Some((reactor, self.seats[reactor].places.take(0)?));
        self.relief(reactor).or_else(own).or_else(|| {
            let started = &self.seats[..self.shift.started().min(self.seats.len())];
            let free = |index: &usize| started[*index].places.free() > 0;
            let mut order: Vec<usize> = (0..started.len()).filter(free).collect();
            // Each is looked at once: they change all the time, and sorting may panic where no order holds.
            order.sort_by_cached_key(|index| (self.rests(*index), started[*index].places.taken()));
            order.into_iter().find_map(|index| Some((index, started[index].places.take(0)?)))
        })
    }

    /// Finds a place for a new connection that came to a reactor: gives it back with the place if that is there, and sends it
    /// there if it is elsewhere.
    ///
    /// # Errors
    /// The connection: nobody has a place.
    pub(crate) fn admit(&self, reactor: usize, (fd, peer): Accepted) -> Result<Option<Arrival>, Accepted> {
        let Some((to, place)) = self.place(reactor) else { return Err((fd, peer)) };
        let arrival = Arrival { fd, peer, answers: 0, place };
        if to == reactor {
            return Ok(Some(arrival));
        }
        match self.send(reactor, to, arrival) {
            Ok(()) => {
                let counters = &self.seats[reactor].counters;
                Counters::count(&counters.accepted);
                Counters::count(&counters.closed);
                Ok(None)
            }
            // That reactor is about to end, and so are all of them.
            Err(Arrival { fd, peer, place, .. }) => {
                // It may be the last of all.
                drop(place);
                Arrival::new((fd, peer), &self.seats[reactor].places).map(Some)
            }
        }
    }

    /// Hands a connection over to a reactor; gives it back if that takes none any more.
    fn send(&self, from: usize, to: usize, arrival: Arrival) -> Result<(), Arrival> {
        self.seats[to].inbox.post(arrival)?;
        Counters::count(&self.seats[from].counters.moved_out);
        Ok(())
    }

    /// Where connections come in that move to this reactor.
    pub(crate) fn inbox(&self, reactor: usize) -> &Inbox<Arrival> {
        &self.seats[reactor].inbox
    }

    /// Looks at the reactors and gives orders until stopped. On one reactor's thread.
    pub(crate) async fn watch<D: Driver>(&self, io: &Io<D>, stop: &Stop) {
        let mut watch = Watch::new(self, io.now());
        let mut pause = LOOK;
        while stop.or(io.sleep(io.deadline(pause))).await.is_some() {
            pause = if watch.look(Instant::now()) { LOOK } else { IDLE_LOOK };
        }
        (0..self.seats.len()).for_each(|reactor| self.give(reactor, None));
    }
}

/// What was seen at the last look.
struct Watch<'a> {
    exchange: &'a Exchange,
    decider: Decider,
    at: Instant,
    /// Busy time and requests of each reactor.
    seen: Vec<(Duration, u64)>,
}

impl<'a> Watch<'a> {
    fn new(exchange: &'a Exchange, now: Instant) -> Self {
        let seen = vec![Default::default(); exchange.seats.len()];
        let mut watch = Watch { exchange, decider: Decider::default(), at: now, seen };
        watch.loads(now);
        watch
    }

    /// What each reactor did since the last time.
    fn loads(&mut self, now: Instant) -> Vec<Load> {
        let passed = now.saturating_duration_since(self.at).max(Duration::from_micros(1));
        self.at = now;
        let loads = self.exchange.seats.iter().zip(&mut self.seen).map(|(seat, seen)| {
            let is = (seat.counters.meter.busy(now), seat.answered.load(Ordering::Relaxed));
            let was = std::mem::replace(seen, is);
            Load {
                busy: is.0.saturating_sub(was.0).div_duration_f64(passed).min(1.0),
                requests: is.1 - was.1,
                room: seat.room() as u64,
            }
        });
        loads.collect()
    }

    /// Looks once; whether anybody has much to do.
    fn look(&mut self, now: Instant) -> bool {
        let loads = self.loads(now);
        // Before the orders: who follows one has seen the look that it came of.
        self.exchange.look.fetch_add(1, Ordering::Relaxed);
        let working = self.exchange.shift.working().min(loads.len());
        if let Some(orders) = self.decider.look(&loads[..working]) {
            let order = |from| orders.iter().find(|order| order.from == from).copied();
            (0..loads.len()).for_each(|reactor| self.exchange.give(reactor, order(reactor)));
        }
        loads.iter().any(|load| load.busy >= IDLE)
    }
}

/// One connection's part: how much of its reactor's work it is, and whether it may leave.
pub(crate) struct Mover {
    exchange: Arc<Exchange>,
    reactor: u32,
    /// Requests it has answered, on all reactors.
    answers: u32,
    /// The look in which it was last heard of, and the requests it had answered when that began.
    look: u32,
    since: u32,
    /// Requests per look before that.
    rate: f32,
    /// The look until which it stays.
    stays: u32,
}

impl Mover {
    /// A connection that has answered so many requests, elsewhere, and is now on this reactor.
    pub(crate) fn new(exchange: Arc<Exchange>, reactor: usize, answers: u32) -> Self {
        let look = exchange.look.load(Ordering::Relaxed);
        let stays = look.wrapping_add(if answers == 0 { STAY_NEW } else { STAY_MOVED });
        Mover { exchange, reactor: reactor as u32, answers, look, since: answers, rate: 0.0, stays }
    }

    /// Requests it has answered so far.
    pub(crate) fn answers(&self) -> u32 {
        self.answers
    }

    fn seat(&self) -> &Seat {
        &self.exchange.seats[self.reactor as usize]
    }

    /// Notes that it has answered so many requests by now; whether it may be among those that are to move.
    pub(crate) fn note(&mut self, answers: u32) -> bool {
        let seat = self.seat();
        add(&seat.answered, u64::from(answers.saturating_sub(self.answers)));
        let (look, asked) = (self.exchange.look.load(Ordering::Relaxed), seat.asked.load(Ordering::Relaxed));
        if look != self.look {
            let looks = look.wrapping_sub(self.look);
            self.rate = answers.saturating_sub(self.since) as f32 / looks as f32;
            (self.look, self.since) = (look, answers);
        }
        self.answers = answers;
        asked && (look.wrapping_sub(self.stays) as i32 >= 0 || self.exchange.rests(self.reactor as usize))
    }

    /// The reactor it should move to, and its place there, if its own rests, or the order has room for what it does.
    pub(crate) fn destination(&self) -> Option<(usize, Place)> {
        if self.exchange.rests(self.reactor as usize) {
            return self.exchange.relief(self.reactor as usize);
        }
        let seat = self.seat();
        let mut standing = lock(&seat.order);
        let order = standing.as_mut()?;
        // Without a place it stays, and the order stands as long as it would anyway.
        let (to, place) = (order.to, self.exchange.seats[order.to].take()?);
        let goes = order.takes(f64::from(self.rate));
        if order.is_over() {
            *standing = None;
            seat.asked.store(self.exchange.rests(self.reactor as usize), Ordering::Relaxed);
        }
        goes.then_some((to, place))
    }

    /// Hands the connection's socket over; gives it back if the other reactor takes none any more.
    pub(crate) fn send(
        &self,
        (to, place): (usize, Place),
        fd: OwnedFd,
        peer: SocketAddr,
    ) -> Result<(), OwnedFd> {
        let arrival = Arrival { fd, peer, answers: self.answers, place };
        self.exchange.send(self.reactor as usize, to, arrival).map_err(|arrival| arrival.fd)
    }
}

#[cfg(test)]
mod tests;
