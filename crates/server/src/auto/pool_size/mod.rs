//! How many workers a pool should have, from what was seen of it: grow while requests wait and it helps, look now and then
//! whether fewer do as much, shrink when idle.
//!
//! Growth on a stall is that of MariaDB's thread pool; trying another number and keeping it only if the throughput says so is
//! MongoDB's throughput probing, here with a margin that noise does not pass. What must be known of a pool that sleeps: its
//! requests wait though no processor is busy, and only more workers help.

mod nature;

use nature::Nature;

/// What was seen of a pool in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observation {
    /// Length of the stretch, in seconds.
    pub seconds: f64,
    /// Workers that there were.
    pub workers: usize,
    /// How many of them worked, on the average.
    pub busy: f64,
    /// Requests that waited at its end.
    pub waiting: usize,
    /// Requests that workers finished.
    pub done: u64,
    /// Share of the processor time that the server may use which was used, by whomever: 0 to 1.
    pub cores_busy: f64,
    /// Share of it that the server itself used: 0 to 1.
    pub own_busy: f64,
}

/// Why a pool changes its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Requests wait, and all workers are busy.
    Stalled,
    /// More workers brought no more throughput.
    NoGain,
    /// Fewer workers are tried, as the processors are busy.
    TriesFewer,
    /// What was tried does less.
    Worse,
    /// Many workers had nothing to do for a while.
    Idle,
    /// Fewer or more may be used than before.
    Bounds,
}

impl Reason {
    /// All of them, in the order of their declaration.
    pub(super) const ALL: [Reason; 6] =
        [Reason::Stalled, Reason::NoGain, Reason::TriesFewer, Reason::Worse, Reason::Idle, Reason::Bounds];

    /// The reason in a word.
    pub(super) fn name(self) -> &'static str {
        match self {
            Reason::Stalled => "stalled",
            Reason::NoGain => "no_gain",
            Reason::TriesFewer => "tries_fewer",
            Reason::Worse => "worse",
            Reason::Idle => "idle",
            Reason::Bounds => "bounds",
        }
    }

    /// The reason in words.
    pub fn text(self) -> &'static str {
        match self {
            Reason::Stalled => "requests wait, and all workers are busy",
            Reason::NoGain => "more workers brought no more throughput",
            Reason::TriesFewer => "the processors are busy: do fewer workers do as much?",
            Reason::Worse => "fewer workers did less",
            Reason::Idle => "many workers had nothing to do",
            Reason::Bounds => "the bounds have changed",
        }
    }
}

/// Share of the processor time from which all of it counts as used.
const BUSY: f64 = 0.9;

/// Share of it that the server itself must use to be at the limit of its processors; others may take the rest.
const OWN: f64 = 0.75;

/// Share of the workers that must work for the pool to count as stalled.
const ALL: f64 = 0.95;

/// Least gain of throughput by a step, relative: less is no gain.
const GAIN: f64 = 1.02;

/// Requests of a step below which chance may look like a gain: at the limit of the processors, where more workers hardly help, it
/// must be as many standard deviations of their number.
const FEW: u64 = 200;
const CHANCE: f64 = 2.0;

/// Seconds of a step, and steps in a row without a gain that end the growth.
const STEP_S: f64 = 0.19;
const NO_GAIN: u32 = 2;

/// Requests that a step must have finished to be judged, as a share of the workers. With fewer of them requests take long, and
/// more workers are needed anyway; where those may not help or may not be, it is waited until this many are finished.
const TOLD: f64 = 0.5;
const TOLD_WELL: f64 = 1.0;

/// Share of the throughput that fewer workers must reach to be kept: a margin for noise.
const AS_MUCH: f64 = 0.98;

/// Share of the workers that a trial leaves.
const FEWER: f64 = 0.6;

/// Seconds that are looked at before a trial and after it, and at least so many service times.
const LOOK_S: f64 = 0.5;
const LOOK_SERVICES: f64 = 4.0;

/// Seconds to the next trial; each that fails doubles it.
const FIRST_PAUSE_S: f64 = 2.0;
const LONGEST_PAUSE_S: f64 = 64.0;

/// The longest while the processors have time to spare and requests wait: a trial then costs next to nothing.
const LONGEST_STALL_S: f64 = 16.0;

/// Seconds of idleness after which a pool shrinks.
const IDLE_S: f64 = 3.0;

/// Workers of a pool, step by step.
#[derive(Clone, Debug)]
pub struct PoolSize {
    least: usize,
    most: usize,
    state: State,
    nature: Nature,
    /// Seconds until something is tried again, and how long that is after the next failure.
    pause_s: f64,
    next_pause_s: f64,
    /// Whether fewer are tried next, and not more.
    fewer_next: bool,
    idle_s: f64,
    /// Most workers that worked at once while the pool was idle.
    idle_peak: f64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Settled,
    /// Growing step by step, of which this number did best so far, and so many since then did no better.
    Growing {
        best: (usize, f64),
        without_gain: u32,
        step: Tally,
    },
    /// About to try fewer: what the present number does is counted first.
    Weighing {
        before: Tally,
    },
    /// Fewer than `from`, which did `rate`, are being tried.
    Trying {
        from: usize,
        rate: f64,
        after: Tally,
    },
}

/// Requests in a time.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    seconds: f64,
    done: u64,
    /// Seconds of workers that they took.
    busy_s: f64,
}

impl Tally {
    fn add(&mut self, seen: &Observation) {
        self.seconds += seen.seconds;
        self.done += seen.done;
        self.busy_s += seen.busy * seen.seconds;
    }

    fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.done as f64 / self.seconds } else { 0.0 }
    }

    /// Whether it is long enough to say something about requests that take a worker as long as they do (Little's law).
    fn is_long(&self) -> bool {
        self.seconds >= LOOK_S && self.seconds * self.done as f64 >= LOOK_SERVICES * self.busy_s
    }
}

impl PoolSize {
    /// A pool of at least `least` workers and at most `most`.
    pub fn new(least: usize, most: usize) -> Self {
        PoolSize {
            least,
            most: most.max(least),
            state: State::Settled,
            nature: Nature::default(),
            pause_s: 0.0,
            next_pause_s: FIRST_PAUSE_S,
            fewer_next: false,
            idle_s: 0.0,
            idle_peak: 0.0,
        }
    }

    /// The number of workers from now on, and why it is another one; `None` to leave it.
    pub fn step(&mut self, seen: &Observation) -> Option<(usize, Reason)> {
        let now = seen.workers;
        let (wanted, reason) = self.decide(seen).unwrap_or((now, Reason::Bounds));
        let wanted = wanted.clamp(self.least, self.most);
        (wanted != now).then_some((wanted, reason))
    }

    fn decide(&mut self, seen: &Observation) -> Option<(usize, Reason)> {
        self.pause_s = (self.pause_s - seen.seconds).max(0.0);
        let stalled = seen.waiting > 0 && seen.busy >= ALL * seen.workers as f64;
        if self.nature.changes(seen) {
            // What failed before may help now.
            self.begin_anew();
        }
        if stalled && !is_at_its_limit(seen) {
            self.pause_s = self.pause_s.min(LONGEST_STALL_S);
        }
        if let Some(shrunk) = self.idle(seen) {
            return Some(shrunk);
        }
        match &mut self.state {
            State::Settled => self.settled(seen, stalled),
            State::Growing { step, .. } => {
                step.add(seen);
                self.climb(seen, stalled)
            }
            State::Weighing { before } => {
                before.add(seen);
                if !before.is_long() {
                    return None;
                }
                let rate = before.rate();
                self.state = State::Trying { from: seen.workers, rate, after: Tally::default() };
                Some(((seen.workers as f64 * FEWER) as usize, Reason::TriesFewer))
            }
            State::Trying { after, .. } => {
                after.add(seen);
                self.judge_trial()
            }
        }
    }

    fn settled(&mut self, seen: &Observation, stalled: bool) -> Option<(usize, Reason)> {
        if self.pause_s > 0.0 {
            return None;
        }
        if is_at_its_limit(seen) && (self.fewer_next || !stalled) && seen.workers > self.least {
            self.state = State::Weighing { before: Tally::default() };
            return None;
        }
        if !stalled || seen.workers >= self.most {
            return None;
        }
        // Slow work that computes: what there are do is counted first, as long as it takes.
        let waits = is_at_its_limit(seen) && (seen.done as f64) < TOLD_WELL * seen.workers as f64;
        let rate = if waits { 0.0 } else { seen.done as f64 / seen.seconds.max(1e-9) };
        self.state = State::Growing { best: (seen.workers, rate), without_gain: 0, step: Tally::default() };
        (!waits).then(|| (doubled(seen), Reason::Stalled))
    }

    /// One step more, or back to the best one, once the last can be judged.
    fn climb(&mut self, seen: &Observation, stalled: bool) -> Option<(usize, Reason)> {
        let State::Growing { best, without_gain, step } = &mut self.state else { return None };
        if step.seconds < STEP_S {
            return None;
        }
        // What computes does not gain by more of it, and beyond the most there are none.
        let may_help = seen.workers < self.most && !is_at_its_limit(seen);
        let is_told = step.done as f64 >= if may_help { TOLD } else { TOLD_WELL } * seen.workers as f64;
        let least_gain = least_gain(step.done, seen);
        if !is_told && !may_help && (stalled || seen.cores_busy >= BUSY) {
            return None;
        }
        if !stalled && (seen.cores_busy < BUSY || step.rate() >= least_gain * best.1) {
            // Nobody waits any more: the growth has done what it was for.
            self.state = State::Settled;
            self.next_pause_s = FIRST_PAUSE_S;
            return None;
        }
        if is_told {
            let is_better = step.rate() >= least_gain * best.1;
            (*best, *without_gain) =
                if is_better { ((seen.workers, step.rate()), 0) } else { (*best, *without_gain + 1) };
        }
        if stalled && *without_gain < NO_GAIN && seen.workers < self.most {
            *step = Tally::default();
            return Some((doubled(seen), Reason::Stalled));
        }
        let best = best.0;
        (self.state, self.fewer_next) = (State::Settled, true);
        self.failed();
        (best != seen.workers).then_some((best, Reason::NoGain))
    }

    /// Whether fewer do as much, once that can be said.
    fn judge_trial(&mut self) -> Option<(usize, Reason)> {
        let State::Trying { from, rate, after } = self.state else { return None };
        if !after.is_long() {
            return None;
        }
        // If they do, perhaps still fewer do.
        let do_as_much = after.rate() >= AS_MUCH * rate;
        (self.state, self.fewer_next) = (State::Settled, do_as_much);
        if do_as_much {
            self.next_pause_s = FIRST_PAUSE_S;
            return None;
        }
        self.failed();
        Some((from, Reason::Worse))
    }

    /// Nothing was tried yet with the work as it is.
    fn begin_anew(&mut self) {
        (self.state, self.fewer_next) = (State::Settled, false);
        (self.pause_s, self.next_pause_s) = (0.0, FIRST_PAUSE_S);
    }

    fn failed(&mut self) {
        self.next_pause_s = (self.next_pause_s * 2.0).min(LONGEST_PAUSE_S);
        self.pause_s = self.next_pause_s;
    }

    fn idle(&mut self, seen: &Observation) -> Option<(usize, Reason)> {
        if seen.waiting > 0 || seen.busy > 0.5 * seen.workers as f64 || seen.workers <= self.least {
            (self.idle_s, self.idle_peak) = (0.0, 0.0);
            return None;
        }
        self.idle_s += seen.seconds;
        self.idle_peak = self.idle_peak.max(seen.busy);
        if self.idle_s < IDLE_S {
            return None;
        }
        let wanted = (self.idle_peak * 1.5).ceil() as usize;
        (self.idle_s, self.idle_peak) = (0.0, 0.0);
        (self.state, self.next_pause_s) = (State::Settled, FIRST_PAUSE_S);
        Some((wanted, Reason::Idle))
    }

    /// Fewest workers.
    pub fn least(&self) -> usize {
        self.least
    }

    /// The number that was decided on cannot be had: nothing is tried for a while.
    pub fn refused(&mut self) {
        self.state = State::Settled;
        self.failed();
    }

    /// Changes the bounds: the least where the number of usable processors has changed.
    pub fn bounds(&mut self, least: usize) {
        self.least = least.min(self.most);
    }
}

/// Whether the server itself uses all that it may have of the processors.
fn is_at_its_limit(seen: &Observation) -> bool {
    seen.cores_busy >= BUSY && seen.own_busy >= OWN
}

/// Least gain of throughput by a step that finished so many requests, relative.
fn least_gain(done: u64, seen: &Observation) -> f64 {
    if is_at_its_limit(seen) && done < FEW { 1.0 + CHANCE / (done.max(1) as f64).sqrt() } else { GAIN }
}

/// Twice the workers, but no more of them than requests wait.
fn doubled(seen: &Observation) -> usize {
    seen.workers + seen.waiting.clamp(1, seen.workers.max(1))
}

#[cfg(test)]
mod tests;
