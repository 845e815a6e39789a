//! Whether the work of a pool has become another: then what was tried before says nothing about it.
//!
//! While the number of workers stays, how long a request keeps one says what it does, and so does the processor time that it
//! takes, where much of that is in use. Under another number of workers only a fall of the latter says something, or of what is
//! in use of the processors: work that computed waits now. It may rise since more workers are in each other's way, which is no
//! other work. And where few requests are finished in the time that is looked at, how many of them says little.

use super::{ALL, Observation};

/// How many times as much, or what part of it, is another kind of work: at once, or in two stretches one after the other.
const OTHER: f64 = 4.0;
const OTHER_TWICE: f64 = 1.8;

/// Share of the processor time from which it says what a request takes of it.
const MUCH: f64 = 0.5;

/// Requests that say something, and seconds in which they came; after the longer one whatever came has to do.
const ENOUGH: f64 = 32.0;
const SHORT_S: f64 = 0.19;
const LONG_S: f64 = 0.29;

/// How far a count may be from what was to be expected by chance, in standard deviations of a Poisson process.
const CHANCE: f64 = 3.0;

/// Weight of a stretch that is as before, in what is compared with.
const LATEST: f64 = 0.25;

/// Requests in a stretch of time.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    seconds: f64,
    workers: usize,
    done: f64,
    /// Seconds of workers and of processors (in units of all there are) that they took.
    busy_s: f64,
    own_s: f64,
}

/// What is known of the work.
#[derive(Clone, Debug, Default)]
pub(super) struct Nature {
    stretch: Stretch,
    known: Option<Stretch>,
    /// Whether a request took more, or less, in the last stretch.
    suspected: [bool; 2],
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
        stretch.done += seen.done as f64;
        stretch.busy_s += seen.seconds * seen.busy;
        stretch.own_s += seen.seconds * seen.own_busy;
        let is_long = stretch.seconds >= LONG_S || stretch.seconds >= SHORT_S && stretch.done >= ENOUGH;
        // A pool that hardly works says nothing.
        if !is_long || stretch.busy_s < 0.25 * stretch.seconds {
            return false;
        }
        let now = *stretch;
        *stretch = Stretch { workers: seen.workers, ..Stretch::default() };
        self.compare(now)
    }

    fn compare(&mut self, now: Stretch) -> bool {
        let Some(before) = &mut self.known else {
            self.known = Some(now);
            return false;
        };
        let factors = now.differs_from(before);
        let suspected = factors.map(|factor| factor >= OTHER_TWICE);
        let is_again = suspected.iter().zip(self.suspected).any(|(now, before)| *now && before);
        let is_other = is_again || factors.iter().any(|factor| *factor >= OTHER);
        self.suspected = suspected.map(|suspected| suspected && !is_other);
        if is_other {
            self.known = Some(now);
        } else if !suspected.contains(&true) {
            *before = before.followed_by(now);
        }
        is_other
    }
}

impl Stretch {
    /// Share of the processor time that all requests together took.
    fn own_busy(&self) -> f64 {
        self.own_s / self.seconds.max(1e-9)
    }

    /// How many times more, and how many times less, a request takes than before; 1 for the same.
    fn differs_from(&self, before: &Stretch) -> [f64; 2] {
        let is_told = self.own_busy().max(before.own_busy()) >= MUCH;
        let computing = if is_told { self.ratio_to(before, |stretch| stretch.own_s) } else { 1.0 };
        let fell = self.freed_since(before).max(1.0 / computing);
        if self.workers != before.workers {
            return [1.0, fell];
        }
        let held = self.ratio_to(before, |stretch| stretch.busy_s);
        [computing.max(held), fell.max(1.0 / held)]
    }

    /// How many times as much of something a request takes as before; 1 where that may be chance.
    fn ratio_to(&self, before: &Stretch, of: fn(&Stretch) -> f64) -> f64 {
        // Where none was finished, one is about to be.
        let (done, done_before) = (self.done.max(1.0), before.done.max(1.0));
        let expected = (of(self) / of(before).max(1e-9) * done_before).max(1e-9);
        // Requests that run in step are finished all at once: just before the end of the stretch, or just after it.
        let chance = self.workers as f64 + CHANCE * done.max(expected).sqrt();
        if (expected - done).abs() < chance { 1.0 } else { expected / done }
    }

    /// How many times less of the processors is in use than as many workers as there are now would need for what there was
    /// before, where they are all busy and much was in use.
    fn freed_since(&self, before: &Stretch) -> f64 {
        let workers = (self.workers as f64 / before.workers.max(1) as f64).min(1.0);
        let all_busy = self.busy_s >= ALL * self.workers as f64 * self.seconds;
        let is_told = all_busy && before.own_busy() >= MUCH;
        if is_told { before.own_busy() * workers / self.own_busy().max(1e-3) } else { 1.0 }
    }

    /// What to compare with from now on: all of it if the number of workers is another, otherwise a little of it.
    fn followed_by(self, now: Stretch) -> Stretch {
        if self.workers != now.workers {
            return now;
        }
        let moved = |before: f64, now: f64| before + LATEST * (now - before);
        Stretch {
            workers: now.workers,
            seconds: moved(self.seconds, now.seconds),
            done: moved(self.done, now.done),
            busy_s: moved(self.busy_s, now.busy_s),
            own_s: moved(self.own_s, now.own_s),
        }
    }
}
