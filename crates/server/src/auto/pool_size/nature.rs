//! Whether the work of a pool has become another: then what was tried before says nothing about it.
//!
//! While the number of workers stays, how long a request keeps one says what it does, and so does the processor time that it
//! takes, where much of that is in use. Under another number of workers only a fall of the latter says something, or of what is
//! in use of the processors: work that computed waits now. It may rise since more workers are in each other's way, which is no
//! other work.

use super::{ALL, Observation};

/// How many times as much, or what part of it, is another kind of work: at once, or in two stretches one after the other.
const OTHER: f64 = 4.0;
const OTHER_TWICE: f64 = 1.8;

/// Share of the processor time from which it says what a request takes of it.
const MUCH: f64 = 0.5;

/// Requests that say something, and seconds in which they came; after the longer one whatever came has to do.
const ENOUGH: u64 = 32;
const SHORT_S: f64 = 0.19;
const LONG_S: f64 = 0.29;

/// Weight of a stretch that is as before, in what is compared with.
const LATEST: f64 = 0.25;

/// Requests in a stretch of time.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    seconds: f64,
    workers: usize,
    done: u64,
    /// Seconds of workers and of processors (in units of all there are) that they took.
    busy_s: f64,
    own_s: f64,
}

/// What a request takes.
#[derive(Clone, Copy, Debug)]
struct Cost {
    workers: usize,
    /// Of the time of a worker and of the processors (in units of all there are), in seconds.
    held_s: f64,
    computing_s: f64,
    /// Share of the processor time that all requests together took.
    own_busy: f64,
    /// No worker was idle.
    all_busy: bool,
}

/// What is known of the work.
#[derive(Clone, Debug, Default)]
pub(super) struct Nature {
    stretch: Stretch,
    known: Option<Cost>,
    /// The last stretch was of another kind.
    suspected: bool,
}

impl Nature {
    /// Takes what was seen in a stretch of time; true if the work has become another, which is what it is compared with from then on.
    pub(super) fn changes(&mut self, seen: &Observation) -> bool {
        if self.stretch.workers != seen.workers {
            // What began under another number of workers still ends now.
            self.stretch = Stretch { workers: seen.workers, ..Stretch::default() };
            return false;
        }
        let stretch = &mut self.stretch;
        stretch.seconds += seen.seconds;
        stretch.done += seen.done;
        stretch.busy_s += seen.seconds * seen.busy;
        stretch.own_s += seen.seconds * seen.own_busy;
        let is_long = stretch.seconds >= LONG_S || stretch.seconds >= SHORT_S && stretch.done >= ENOUGH;
        // A pool that hardly works says nothing.
        if !is_long || stretch.busy_s < 0.25 * stretch.seconds {
            return false;
        }
        let cost = stretch.cost();
        *stretch = Stretch { workers: seen.workers, ..Stretch::default() };
        self.compare(cost)
    }

    fn compare(&mut self, now: Cost) -> bool {
        let Some(before) = &mut self.known else {
            self.known = Some(now);
            return false;
        };
        let factor = now.differs_from(before);
        let is_other = factor >= OTHER || self.suspected && factor >= OTHER_TWICE;
        self.suspected = !is_other && factor >= OTHER_TWICE;
        if is_other {
            self.known = Some(now);
        } else if !self.suspected {
            *before = before.followed_by(now);
        }
        is_other
    }
}

impl Stretch {
    /// What each request took. Where none was finished, one is about to be.
    fn cost(&self) -> Cost {
        let done = self.done.max(1) as f64;
        Cost {
            workers: self.workers,
            held_s: self.busy_s / done,
            computing_s: self.own_s / done,
            own_busy: self.own_s / self.seconds.max(1e-9),
            all_busy: self.busy_s >= ALL * self.workers as f64 * self.seconds,
        }
    }
}

impl Cost {
    /// How many times as much, or as little, something is; 1 for the same.
    fn differs_from(&self, before: &Cost) -> f64 {
        let ratio = |now: f64, before: f64| now.max(1e-9) / before.max(1e-9);
        let is_told = self.own_busy.max(before.own_busy) >= MUCH;
        let computing = if is_told { ratio(self.computing_s, before.computing_s) } else { 1.0 };
        let fell = self.freed_since(before).max(1.0 / computing);
        if self.workers != before.workers {
            return fell;
        }
        let held = ratio(self.held_s, before.held_s);
        fell.max(computing).max(held).max(1.0 / held)
    }

    /// How many times less of the processors is in use than as many workers as there are now would need for what there was
    /// before, where they are all busy and much was in use.
    fn freed_since(&self, before: &Cost) -> f64 {
        let workers = (self.workers as f64 / before.workers.max(1) as f64).min(1.0);
        let is_told = self.all_busy && before.own_busy >= MUCH;
        if is_told { before.own_busy * workers / self.own_busy.max(1e-3) } else { 1.0 }
    }

    /// What to compare with from now on: all of it if the number of workers is another, otherwise a little of it.
    fn followed_by(self, now: Cost) -> Cost {
        if self.workers != now.workers {
            return now;
        }
        let moved = |before: f64, now: f64| before + LATEST * (now - before);
        Cost {
            workers: now.workers,
            held_s: moved(self.held_s, now.held_s),
            computing_s: moved(self.computing_s, now.computing_s),
            own_busy: moved(self.own_busy, now.own_busy),
            all_busy: now.all_busy,
        }
    }
}
