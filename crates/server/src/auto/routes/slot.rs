//! What a reactor knows of one route, and what follows from it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{Route, Took};
use crate::handler::Place;

/// A handler that takes no longer than this on the average belongs on the reactor: a worker would cost about as much.
const QUICK: Duration = Duration::from_micros(25);

/// The same for one that computes all the time.
const QUICK_COMPUTING: Duration = Duration::from_micros(250);

/// Share of its time that a handler must compute to count as computing.
const COMPUTING: f64 = 0.6;

/// Requests since the last decision before there is another one.
const ENOUGH: u64 = 16;

/// Requests among which two that stall are too many.
const FEW: u64 = 16;

/// Stalls may take one part in so many of the time. Each is a debt that is paid off at that rate.
const STALLING: u64 = 20;

/// So much debt may be chance: a thread that lost its processor for a moment more than once.
const CHANCE: Duration = Duration::from_millis(10);

/// Most debt that is kept: it is paid off within a second of the last stall.
const MOST_DEBT: Duration = Duration::from_millis(50);

/// Longest time that counts for the average, as a multiple of the average and at least so long: a thread may have lost its
/// processor for a moment.
const OUTLIER: f64 = 4.0;
const LEAST_OUTLIER: Duration = Duration::from_micros(100);

/// Fewer requests than this make a route rare, once it has been there for so long.
const RARE: u64 = 16;
const RARE_AFTER: Duration = Duration::from_secs(10);

/// How long a route is looked at on workers before it is taken to the reactor.
const PROBATION: Duration = Duration::from_millis(200);

/// Longest probation of a route that has come back from the reactor again and again; each time doubles it.
const LONGEST_PROBATION: Duration = Duration::from_secs(64);

/// Who was on the reactor for so long has proved itself: the next relapse is its first.
const PROVED: Duration = Duration::from_secs(4 * LONGEST_PROBATION.as_secs());

/// Weight of the latest request in the averages: so the last dozens count.
const LATEST: f64 = 1.0 / 16.0;

/// One request in so many has its computing time measured, which is a system call or two.
const MEASURED: u64 = 8;

/// What is known of a route. Durations in nanoseconds, moments in nanoseconds since the epoch.
#[derive(Default)]
pub(super) struct Slot {
    /// Hash of the route; 0 for none.
    key: AtomicU64,
    name: Mutex<String>,
    requests: AtomicU64,
    on_reactor: AtomicBool,
    /// Whether it was ever decided where it belongs.
    decided: AtomicBool,
    mean_ns: AtomicU64,
    /// Share of the time that is spent computing, in millionths.
    computing: AtomicU64,
    /// Requests since the last decision, when that was, and how long the next one takes at least.
    since_decided: AtomicU64,
    decided_ns: AtomicU64,
    probation_ns: AtomicU64,
    /// Which request was the latest to hold up the reactor.
    latest_stall: AtomicU64,
    /// What stalls had taken at the end of the latest that was not paid off, and when that was.
    debt_ns: AtomicU64,
    stalled_ns: AtomicU64,
    /// When it was asked for last.
    seen_ns: AtomicU64,
}

impl Slot {
    /// Hash of the route; 0 for none.
    pub(super) fn key(&self) -> u64 {
        self.key.load(Relaxed)
    }

    /// What the route is called.
    pub(super) fn name(&self) -> String {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is known of the route, if it is one.
    pub(super) fn known(&self) -> Option<Route> {
        let route = || Route {
            name: self.name(),
            requests: self.requests.load(Relaxed),
            place: if self.on_reactor.load(Relaxed) { "reactor" } else { "workers" },
            mean_us: self.mean_ns.load(Relaxed) as f64 / 1e3,
            computing: self.computing.load(Relaxed) as f64 / 1e6,
        };
        (self.key() != 0).then(route)
    }

    /// Where it belongs, once that was decided.
    pub(super) fn place(&self) -> Option<Place> {
        let place = if self.on_reactor.load(Relaxed) { Place::Reactor } else { Place::Worker };
        self.decided.load(Relaxed).then_some(place)
    }

    /// Whether the computing time of the next request is to be measured: of what is so quick that it does not matter, never.
    pub(super) fn is_measured(&self) -> bool {
        self.requests.load(Relaxed).is_multiple_of(MEASURED) && self.mean() > QUICK / 2
    }

    /// Counts a request.
    pub(super) fn count(&self, took: Took) {
        let requests = self.requests.load(Relaxed);
        self.requests.store(requests + 1, Relaxed);
        self.since_decided.store(self.since_decided.load(Relaxed) + 1, Relaxed);
        // The first ones count as they are, so that the average does not begin at 0.
        let weight = LATEST.max(1.0 / (requests + 1) as f64);
        let before = self.mean_ns.load(Relaxed) as f64;
        let most = (before * OUTLIER).max(LEAST_OUTLIER.as_nanos() as f64);
        let latest =
            if requests == 0 { took.wall.as_nanos() as f64 } else { (took.wall.as_nanos() as f64).min(most) };
        self.mean_ns.store((before + weight * (latest - before)) as u64, Relaxed);
        if let Some(computing) = took.computing {
            let share = computing.as_secs_f64() / took.wall.as_secs_f64().max(1e-9);
            // One in so many is measured, and counts for the others.
            let weight = (LATEST * MEASURED as f64).max(1.0 / (1.0 + requests as f64 / MEASURED as f64));
            let before = self.computing.load(Relaxed) as f64;
            self.computing.store((before + weight * (share.min(1.0) * 1e6 - before)) as u64, Relaxed);
        }
    }

    /// It was asked for.
    pub(super) fn see(&self, now_ns: u64) {
        self.seen_ns.store(now_ns, Relaxed);
    }

    /// Whether it may give way to another: nobody has asked for it for a while, or hardly anybody since it came.
    pub(super) fn is_rare(&self, now_ns: u64) -> bool {
        let is_long_ago =
            |moment: &AtomicU64| now_ns.saturating_sub(moment.load(Relaxed)) > RARE_AFTER.as_nanos() as u64;
        is_long_ago(&self.seen_ns) || self.requests.load(Relaxed) < RARE && is_long_ago(&self.decided_ns)
    }

    /// Becomes the slot of another route.
    pub(super) fn take_over(&self, key: u64, name: String, now_ns: u64) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name;
        let counted = [&self.requests, &self.mean_ns, &self.computing, &self.since_decided];
        for cell in counted.into_iter().chain([&self.latest_stall, &self.debt_ns, &self.stalled_ns]) {
            cell.store(0, Relaxed);
        }
        self.on_reactor.store(false, Relaxed);
        self.decided.store(false, Relaxed);
        self.decided_ns.store(now_ns, Relaxed);
        self.see(now_ns);
        self.probation_ns.store(PROBATION.as_nanos() as u64, Relaxed);
        self.key.store(key, Relaxed);
    }

    /// It does not belong on the reactor, where it was: it has to prove itself for longer the next time.
    pub(super) fn relapse(&self, now_ns: u64) {
        let here = now_ns.saturating_sub(self.decided_ns.load(Relaxed));
        let before = if here > PROVED.as_nanos() as u64 {
            PROBATION.as_nanos() as u64
        } else {
            self.probation_ns.load(Relaxed)
        };
        self.probation_ns.store((before * 2).min(LONGEST_PROBATION.as_nanos() as u64), Relaxed);
        self.decide(Place::Worker, now_ns);
    }

    /// Counts a request that held up the reactor for so long, until now. True if it is one too many: the second of a few, or
    /// of those that together take too much of the time, however many quick ones there are between them.
    pub(super) fn stalls_too_much(&self, wall: Duration, now_ns: u64) -> bool {
        let request = self.requests.load(Relaxed);
        let latest = self.latest_stall.swap(request, Relaxed);
        let is_again = latest != 0 && request - latest < FEW;
        let before = self.owe(wall, now_ns);
        is_again || before > 0 && before + wall.as_nanos() as u64 > CHANCE.as_nanos() as u64
    }

    /// Adds a stall to the debt; what was left of it before, in nanoseconds.
    pub(super) fn owe(&self, wall: Duration, now_ns: u64) -> u64 {
        let before = self.debt(now_ns);
        let debt = (before + wall.as_nanos() as u64).min(MOST_DEBT.as_nanos() as u64);
        self.debt_ns.store(debt, Relaxed);
        self.stalled_ns.store(now_ns, Relaxed);
        before
    }

    /// What is left of the debt now.
    fn debt(&self, now_ns: u64) -> u64 {
        let paid = now_ns.saturating_sub(self.stalled_ns.load(Relaxed)) / STALLING;
        self.debt_ns.load(Relaxed).saturating_sub(paid)
    }

    /// Whether it was on workers for long enough, and is quick enough for the reactor.
    pub(super) fn has_proved_quick(&self, now_ns: u64) -> bool {
        let looked = now_ns.saturating_sub(self.decided_ns.load(Relaxed));
        self.is_known() && self.is_quick() && looked >= self.probation(now_ns)
    }

    /// How long it has to be looked at on workers: the longest time where it has left the reactor before and has a debt that
    /// it made on workers. Not for good, since nobody can tell what has waited there from what a worker had no processor for.
    fn probation(&self, now_ns: u64) -> u64 {
        let probation = self.probation_ns.load(Relaxed);
        let has_relapsed = probation > PROBATION.as_nanos() as u64;
        if has_relapsed && self.debt(now_ns) > 0 { LONGEST_PROBATION.as_nanos() as u64 } else { probation }
    }

    /// Whether it takes too long for the reactor, on the average.
    pub(super) fn is_slow(&self) -> bool {
        self.is_known() && !self.is_quick()
    }

    /// Whether there were requests enough since the last decision for another one.
    fn is_known(&self) -> bool {
        self.since_decided.load(Relaxed) >= ENOUGH
    }

    fn is_quick(&self) -> bool {
        let computes = self.computing.load(Relaxed) as f64 >= COMPUTING * 1e6;
        self.mean() <= QUICK || computes && self.mean() <= QUICK_COMPUTING
    }

    fn mean(&self) -> Duration {
        Duration::from_nanos(self.mean_ns.load(Relaxed))
    }

    /// Decides where it belongs. Stalls count from now on.
    pub(super) fn decide(&self, place: Place, now_ns: u64) {
        self.on_reactor.store(place == Place::Reactor, Relaxed);
        self.decided.store(true, Relaxed);
        self.since_decided.store(0, Relaxed);
        self.debt_ns.store(0, Relaxed);
        self.decided_ns.store(now_ns, Relaxed);
    }
}
