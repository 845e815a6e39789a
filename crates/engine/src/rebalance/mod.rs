//! Connections move: from a reactor that is busy to one that is not, between two of their requests.
//!
//! Every so often the first reactor looks at how busy each one was and leaves an order with those that should give some
//! of their work away. A connection that has answered all it was asked looks whether there is an order, and goes if its
//! own share of the work fits it. It takes its socket along, with whatever the client has sent meanwhile.

mod decide;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::counter::add;
use crate::driver::Driver;
use crate::inbox::Inbox;
use crate::meter::Counters;
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

/// Looks for which a connection stays where it came to: at least one that saw all of it, and after a move so many that
/// nothing goes back and forth.
const STAY_NEW: u32 = 2;
const STAY_MOVED: u32 = 5;

/// A connection on its way to another reactor.
pub(crate) struct Arrival {
    pub(crate) fd: OwnedFd,
    pub(crate) peer: SocketAddr,
    /// Requests it has answered so far; at least one.
    pub(crate) answers: u32,
}

/// What the reactors of a server share so that connections can move.
pub(crate) struct Exchange {
    /// Looks so far.
    look: AtomicU32,
    /// Connections that each reactor can hold.
    capacity: usize,
    seats: Box<[Seat]>,
}

/// One reactor's part of it, in cache lines of its own.
#[repr(align(128))]
struct Seat {
    counters: Arc<Counters>,
    /// Requests that its connections answered. Its thread writes.
    answered: AtomicU64,
    /// Whether there is an order; a hint, so that looking takes no lock.
    asked: AtomicBool,
    order: Mutex<Option<Order>>,
    inbox: Inbox<Arrival>,
}

impl Seat {
    fn give(&self, order: Option<Order>) {
        self.asked.store(order.is_some(), Ordering::Relaxed);
        *lock(&self.order) = order;
    }

    /// Connections it has.
    fn open(&self) -> u64 {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { accepted, moved_in, closed, .. } = &*self.counters;
        (read(accepted) + read(moved_in)).saturating_sub(read(closed))
    }
}

impl Exchange {
    /// For reactors with these counters, of which each can hold `capacity` connections.
    pub(crate) fn new(counters: &[Arc<Counters>], capacity: usize) -> Self {
        let seat = |counters: &Arc<Counters>| Seat {
            counters: counters.clone(),
            answered: AtomicU64::new(0),
            asked: AtomicBool::new(false),
            order: Mutex::new(None),
            inbox: Inbox::default(),
        };
        Exchange { look: AtomicU32::new(0), capacity, seats: counters.iter().map(seat).collect() }
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
        self.seats.iter().for_each(|seat| seat.give(None));
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
                room: (self.exchange.capacity as u64).saturating_sub(seat.open()),
            }
        });
        loads.collect()
    }

    /// Looks once; whether anybody has much to do.
    fn look(&mut self, now: Instant) -> bool {
        let loads = self.loads(now);
        // Before the orders: who follows one has seen the look that it came of.
        self.exchange.look.fetch_add(1, Ordering::Relaxed);
        if let Some(orders) = self.decider.look(&loads) {
            let seats = self.exchange.seats.iter().enumerate();
            seats.for_each(|(at, seat)| seat.give(orders.iter().find(|order| order.from == at).copied()));
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
        asked && look.wrapping_sub(self.stays) as i32 >= 0
    }

    /// The reactor it should move to, if the order has room for what it does.
    pub(crate) fn destination(&self) -> Option<usize> {
        let seat = self.seat();
        let mut standing = lock(&seat.order);
        let order = standing.as_mut()?;
        let to = order.takes(f64::from(self.rate)).then_some(order.to);
        if order.is_over() {
            *standing = None;
            seat.asked.store(false, Ordering::Relaxed);
        }
        to
    }

    /// Hands the connection's socket over; gives it back if the other reactor takes none any more.
    pub(crate) fn send(&self, to: usize, fd: OwnedFd, peer: SocketAddr) -> Result<(), OwnedFd> {
        let arrival = Arrival { fd, peer, answers: self.answers };
        self.exchange.seats[to].inbox.post(arrival).map_err(|arrival| arrival.fd)?;
        Counters::count(&self.seat().counters.moved_out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(reactors: usize) -> Arc<Exchange> {
        let counters: Vec<Arc<Counters>> = (0..reactors).map(|_| Arc::default()).collect();
        Arc::new(Exchange::new(&counters, 100))
    }

    /// Lets connections answer so many requests in each of many looks, the first reactor busy and the others not; who
    /// was told to move, and at which look first.
    fn follow(exchange: &Arc<Exchange>, movers: &mut [Mover], each: u32) -> (Vec<usize>, u32) {
        let start = Instant::now();
        let mut watch = Watch::new(exchange, start);
        exchange.seats[0].counters.meter.begin(start);
        let (mut went, mut first) = (Vec::new(), 0);
        for look in 1..=4 {
            for mover in movers.iter_mut() {
                for _ in 0..each {
                    assert!(!mover.note(mover.answers() + 1) || look > 2, "asked before anything was seen");
                }
            }
            watch.look(start + LOOK * look);
            for (index, mover) in movers.iter_mut().enumerate() {
                if mover.note(mover.answers()) && !went.contains(&index) && mover.destination() == Some(1) {
                    went.push(index);
                    first = if first == 0 { look } else { first };
                }
            }
        }
        (went, first)
    }

    #[test]
    fn half_of_the_work_is_asked_for_once_it_has_been_seen() {
        let exchange = exchange(2);
        let mut movers: Vec<Mover> = (0..8).map(|_| Mover::new(exchange.clone(), 0, 0)).collect();
        let (went, first) = follow(&exchange, &mut movers, 50);
        assert_eq!((went.len(), first), (4, 2), "{went:?}");
        assert!(!exchange.seats[0].asked.load(Ordering::Relaxed), "and then no more");
    }

    #[test]
    fn who_has_just_come_from_elsewhere_stays() {
        let exchange = exchange(2);
        let mut movers: Vec<Mover> = (0..8).map(|_| Mover::new(exchange.clone(), 0, 1)).collect();
        assert_eq!(follow(&exchange, &mut movers, 50).0, []);
    }

    #[test]
    fn a_closed_door_gives_the_socket_back() {
        let exchange = exchange(2);
        let mover = Mover::new(exchange.clone(), 0, 3);
        let fd = || OwnedFd::from(std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let peer = ([127, 0, 0, 1], 1).into();
        assert!(mover.send(1, fd(), peer).is_ok());
        exchange.inbox(1).close();
        assert!(mover.send(1, fd(), peer).is_err());
        assert_eq!(exchange.seats[0].counters.moved_out.load(Ordering::Relaxed), 1);
    }
}
