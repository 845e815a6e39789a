//! What a reactor has learned of its routes: which are quick enough for itself, and which are for workers.
//!
//! A request is quick if its handler takes little time, or computes all of it: what computes takes a processor wherever it
//! runs, while what waits would keep a whole reactor waiting with it.

mod slot;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use serde::Serialize;
use wire::{Method, RequestHead};

use crate::handler::Place;
use slot::Slot;

/// Routes that are told apart; requests of others are handled where their handler says.
const SLOTS: usize = 256;

/// Slots in which a route may be.
const TRIES: usize = 4;

/// Longest name of a route that is kept, in bytes.
const NAME: usize = 64;

/// A handler that takes this long has held up its reactor. The second of a few sends its route to the workers at once, and so
/// does one that brings what all of them take to more than a twentieth of the time; a single one may be a thread that lost its
/// processor for a moment.
const STALL: Duration = Duration::from_millis(1);

/// How long a handler may hold up a reactor before a line in the log names its route, while it still does, and no other reactor
/// runs it any more. Nobody can take a thread back from a handler, so this is when it is noticed, and not how long it lasts:
/// that reactor stands still until the handler ends. It is looked for every 25 ms, and, where nothing was asked for in between,
/// every 250 ms.
pub const LONGEST_STALL: Duration = Duration::from_millis(50);

/// The routes of one reactor. Its thread writes, any may read.
pub struct Routes {
    slots: Vec<Slot>,
    epoch: Instant,
    /// The slot whose handler runs on the reactor now, plus one, and since when, in nanoseconds since the epoch.
    running: AtomicU64,
    since_ns: AtomicU64,
    /// Handlers that held up the reactor for longer than [`STALL`].
    stalls: AtomicU64,
    /// Handlers that the reactor ran.
    calls: AtomicU64,
    /// The route that held up the reactor for longer than [`LONGEST_STALL`] since somebody took it from here; 0 for none.
    held_up_by: AtomicU64,
    /// Times that a route came to the reactor, and that one went to the workers.
    to_reactor: AtomicU64,
    to_workers: AtomicU64,
}

/// What is known of a route, as plain values.
#[derive(Clone, Debug, Serialize)]
pub struct Route {
    /// Method and first part of the path: `GET /work`, `GET *.html`.
    pub name: String,
    /// Requests so far.
    pub requests: u64,
    /// `reactor` or `workers`.
    pub place: &'static str,
    /// How long its handler takes, in microseconds, on the average of late.
    pub mean_us: f64,
    /// Share of that time in which it computes.
    pub computing: f64,
}

/// A route of a reactor: its slot, and a part of its hash, by which it is told from one that has taken the slot over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouteId {
    slot: u32,
    tag: u32,
}

impl RouteId {
    fn new(slot: usize, key: u64) -> Self {
        RouteId { slot: slot as u32, tag: (key >> 32) as u32 }
    }
}

/// A handler that holds up its reactor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Method and first part of the path.
    pub route: String,
    /// For how long by now.
    pub held_up: Duration,
    /// Hash of the route.
    pub(crate) key: u64,
}

/// How long a handler took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Took {
    pub(crate) wall: Duration,
    /// How much of it was computing, if that was measured.
    pub(crate) computing: Option<Duration>,
    /// When it was over.
    pub(crate) end: Instant,
}

impl Default for Routes {
    fn default() -> Self {
        Routes {
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            epoch: Instant::now(),
            running: AtomicU64::new(0),
            since_ns: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            held_up_by: AtomicU64::new(0),
            to_reactor: AtomicU64::new(0),
            to_workers: AtomicU64::new(0),
        }
    }
}

impl Routes {
    /// The route of a request, if it is one of those that are told apart.
    pub(crate) fn of(&self, head: &RequestHead<'_>, now: Instant) -> Option<RouteId> {
        let now = self.nanos(now);
        let (first, kind) = pattern(head.path());
        let key = hash(head.method, first, kind);
        let mut free = None;
        for at in 0..TRIES {
            let id = nth_slot(key, at);
            match self.slots[id].key() {
                known if known == key => {
                    self.slots[id].see(now);
                    return Some(RouteId::new(id, key));
                }
                // One that hardly anybody asks for, or nobody any more, gives way, so that a scan of paths does not fill the
                // table.
                other if free.is_none() && (other == 0 || self.slots[id].is_rare(now)) => free = Some(id),
                _ => {}
            }
        }
        let id = free?;
        let name: String = format!("{} {first}{kind}", head.method_text).chars().take(NAME).collect();
        self.slots[id].take_over(key, name, now);
        Some(RouteId::new(id, key))
    }

    /// Where a request belongs, as far as is known.
    pub(crate) fn place(&self, id: RouteId) -> Option<Place> {
        self.slot(id).place()
    }

    /// Whether the computing time of the next request is to be measured.
    pub(crate) fn is_measured(&self, id: RouteId) -> bool {
        self.slot(id).is_measured()
    }

    /// The reactor runs a route's handler itself, from `now` on.
    pub(crate) fn begin(&self, id: RouteId, now: Instant) {
        self.calls.store(self.calls.load(Relaxed) + 1, Relaxed);
        self.since_ns.store(self.nanos(now), Relaxed);
        // With what was stored before: whoever sees this one sees since when.
        self.running.store(u64::from(id.slot) + 1, Release);
    }

    /// The reactor has run it.
    pub(crate) fn end(&self, id: RouteId, took: Took) {
        self.running.store(0, Relaxed);
        let slot = self.slot(id);
        slot.count(took);
        let stalls = took.wall >= STALL;
        let stalls_too_much = stalls && slot.stalls_too_much(took.wall, self.nanos(took.end));
        if stalls_too_much || slot.is_slow() || took.wall >= LONGEST_STALL {
            slot.relapse(self.nanos(took.end));
            self.moved(slot, Place::Worker, "its handler takes too long for a reactor");
        }
        if stalls {
            self.stalls.fetch_add(1, Relaxed);
        }
        if took.wall >= LONGEST_STALL {
            self.held_up_by.store(slot.key(), Relaxed);
        }
    }

    /// A worker has run a route's handler.
    pub(crate) fn came_home(&self, id: RouteId, took: Took) {
        let slot = self.slot(id);
        // It was away for long, and another route has its slot by now.
        if RouteId::new(id.slot as usize, slot.key()) != id {
            return;
        }
        slot.count(took);
        let now = self.nanos(took.end);
        if took.wall >= STALL {
            slot.owe(took.wall, now);
        } else if slot.has_proved_quick(now) {
            slot.decide(Place::Reactor, now);
            self.moved(slot, Place::Reactor, "its handler is quick, or computes");
        }
    }

    /// Another reactor was held up by a route: this one gives it to the workers before that happens here too. True if it ran it
    /// itself until now. May be asked for on any thread.
    pub(crate) fn distrust(&self, key: u64, now: Instant) -> bool {
        let mut slots = (0..TRIES).map(|at| &self.slots[nth_slot(key, at)]);
        let Some(slot) = slots.find(|slot| slot.key() == key) else { return false };
        let was_here = slot.place() == Some(Place::Reactor);
        // Anew while it still holds up the other one: it has to prove itself afterwards.
        slot.decide(Place::Worker, self.nanos(now));
        if was_here {
            self.moved(slot, Place::Worker, "its handler has held up another reactor");
        }
        was_here
    }

    /// The route that held up the reactor until it ended, if there was one since this was asked for last.
    pub(crate) fn take_held_up_by(&self) -> Option<u64> {
        // Seldom more than a look: it is asked for often, and there is hardly ever one.
        let key = self.held_up_by.load(Relaxed);
        (key != 0).then(|| self.held_up_by.swap(0, Relaxed))
    }

    /// Tells of a route that has moved, which is seldom.
    fn moved(&self, slot: &Slot, to: Place, reason: &str) {
        let counter = if to == Place::Reactor { &self.to_reactor } else { &self.to_workers };
        counter.fetch_add(1, Relaxed);
        let Some(Route { name, place, mean_us, computing, .. }) = slot.known() else { return };
        tracing::debug!(route = name, to = place, reason, mean_us, computing, "a route moves");
    }

    /// Times that a route came to the reactor, and that one went to the workers.
    pub fn moves(&self) -> (u64, u64) {
        (self.to_reactor.load(Relaxed), self.to_workers.load(Relaxed))
    }

    /// The route whose handler has held up the reactor for too long by now, and for how long. It goes to the workers once the
    /// reactor has its thread back.
    pub fn stalled(&self, now: Instant) -> Option<Stall> {
        let slot = self.slots.get((self.running.load(Acquire) as usize).checked_sub(1)?)?;
        let held_up = self.nanos(now).saturating_sub(self.since_ns.load(Relaxed));
        let held_up = Duration::from_nanos(held_up);
        if held_up < LONGEST_STALL {
            return None;
        }
        Some(Stall { route: slot.name(), held_up, key: slot.key() })
    }

    /// Handlers that the reactor has run itself, that which runs now included.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// Handlers that held up the reactor.
    pub fn stalls(&self) -> u64 {
        self.stalls.load(Relaxed)
    }

    /// What is known of every route.
    pub fn known(&self) -> Vec<Route> {
        self.slots.iter().filter_map(Slot::known).collect()
    }

    fn slot(&self, id: RouteId) -> &Slot {
        &self.slots[id.slot as usize]
    }

    fn nanos(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.epoch).as_nanos() as u64
    }
}

/// What the paths of a route have in common: their first part, or, for files at the top, how their name ends.
fn pattern(path: &str) -> (&str, &str) {
    let rest = path.strip_prefix('/').unwrap_or(path);
    match rest.split_once('/') {
        Some((first, _)) => (&path[..path.len() - rest.len() + first.len()], "/*"),
        None => match rest.rsplit_once('.') {
            Some((_, ending)) => ("*.", ending),
            None => (path, ""),
        },
    }
}

/// One of the few slots that a route may be in.
fn nth_slot(key: u64, at: usize) -> usize {
    (key as usize).wrapping_add(at * 31) % SLOTS
}

/// FNV-1a; never 0.
fn hash(method: Method, first: &str, rest: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ method as u64;
    for byte in first.bytes().chain(rest.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    (hash ^ (hash >> 29)).max(1)
}

#[cfg(test)]
mod tests;
