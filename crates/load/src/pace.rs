//! When a connection sends its next request: after the last answer in a closed loop, by the schedule in an open one.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Deadline, Driver, Io};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::plan::{Arrivals, Plan, Session};
use crate::replay::Log;
use crate::schedule::Schedule;

/// A request's times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begin {
    /// When it was due; what it then waits for counts as its response time.
    pub(crate) due: Instant,
    /// When it was sent.
    pub(crate) sent: Instant,
    /// Which request a log asks for.
    pub(crate) entry: Option<u32>,
}

/// What decides when the connections of one thread send.
pub(crate) enum Pace {
    Closed { think: Duration },
    Open(Box<Open>),
}

/// The open loop of one thread.
pub(crate) struct Open {
    moments: RefCell<Moments>,
    /// Those that a connection had taken, and could not send at any more.
    given_back: RefCell<Vec<Instant>>,
    start: Instant,
    /// Nothing is due from then on.
    until: Option<Instant>,
    session: Option<Session>,
    dice: RefCell<ChaCha8Rng>,
}

/// When the requests of one thread are due.
enum Moments {
    Scheduled(Schedule),
    /// As an access log has it, every so many entries, and the speed.
    Logged {
        log: Arc<Log>,
        next: usize,
        step: usize,
        speed: f64,
    },
}

impl Iterator for Moments {
    /// Time since the start, and the request that a log asks for.
    type Item = (Duration, Option<u32>);

    fn next(&mut self) -> Option<(Duration, Option<u32>)> {
        match self {
            Moments::Scheduled(schedule) => schedule.next().map(|due| (due, None)),
            Moments::Logged { log, next, step, speed } => {
                let entry = log.entries.get(*next)?;
                *next += *step;
                Some((Duration::try_from_secs_f64(entry.at_s / *speed).ok()?, Some(entry.path)))
            }
        }
    }
}

impl Pace {
    /// The pace of the `index`-th of `threads` threads, for a load that begins at `start`, and the log that it replays.
    pub(crate) fn new(
        plan: &Plan,
        log: Option<&Arc<Log>>,
        (start, until): (Instant, Option<Instant>),
        index: u32,
        threads: u32,
    ) -> Self {
        match &plan.arrivals {
            Arrivals::Closed { think_s } => Pace::Closed { think: Duration::from_secs_f64(*think_s) },
            Arrivals::Open { rate, spacing, seed, session } => {
                let mut dice = ChaCha8Rng::seed_from_u64(*seed);
                // Away from the streams of the schedules.
                dice.set_stream(u64::from(u32::MAX) + 1 + u64::from(index));
                let schedule = Schedule::new(rate, *spacing, *seed, index, threads);
                Pace::open(Moments::Scheduled(schedule), start, until, *session, dice)
            }
            Arrivals::Replay { speed, .. } => {
                let log = log.cloned().unwrap_or_default();
                let moments =
                    Moments::Logged { log, next: index as usize, step: threads as usize, speed: *speed };
                Pace::open(moments, start, until, None, ChaCha8Rng::seed_from_u64(0))
            }
        }
    }

    fn open(
        moments: Moments,
        start: Instant,
        until: Option<Instant>,
        session: Option<Session>,
        dice: ChaCha8Rng,
    ) -> Self {
        let (moments, dice) = (RefCell::new(moments), RefCell::new(dice));
        let given_back = RefCell::default();
        Pace::Open(Box::new(Open { moments, given_back, start, until, session, dice }))
    }

    /// Whether response times count from when requests were due.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Pace::Open(_))
    }

    /// Waits for the next request of a connection, whose last exchange ended at `last`, and which is in a session if
    /// `staying`; `None` if there is none any more. `may_send` is asked before one is taken, `may_still_send` when it is due.
    pub(crate) async fn next<D: Driver>(
        &self,
        io: &Io<D>,
        last: Option<Instant>,
        staying: bool,
        may_send: impl Fn() -> bool,
        may_still_send: impl Fn() -> bool,
    ) -> Option<Begin> {
        match self {
            Pace::Closed { think } => {
                let mut now = last.unwrap_or_else(Instant::now);
                if !think.is_zero() && last.is_some() {
                    io.sleep(Deadline::at(now + *think)).await;
                    now = Instant::now();
                }
                may_send().then_some(Begin { due: now, sent: now, entry: None })
            }
            Pace::Open(open) => {
                let think =
                    open.session.map_or(Duration::ZERO, |session| Duration::from_secs_f64(session.think_s));
                let (due, entry) = match last.filter(|_| staying) {
                    Some(last) => {
                        let due = last + think;
                        open.until.is_none_or(|until| due < until).then_some((due, None))
                    }
                    // One that is due after the end was stopped before it began.
                    None if may_send() => open.take(),
                    None => None,
                }?;
                if due > Instant::now() {
                    io.sleep(Deadline::at(due)).await;
                }
                if !may_still_send() {
                    open.given_back.borrow_mut().push(due);
                    return None;
                }
                Some(Begin { due, sent: Instant::now(), entry })
            }
        }
    }

    /// Whether a connection whose exchange has ended well goes on with its session.
    pub(crate) fn goes_on(&self) -> bool {
        match self {
            Pace::Closed { .. } => true,
            Pace::Open(open) => match open.session {
                Some(session) => open.dice.borrow_mut().random::<f64>() < session.go_on,
                None => false,
            },
        }
    }

    /// Whether a connection ends with the session that it belongs to.
    pub(crate) fn closes_after(&self, goes_on: bool) -> bool {
        matches!(self, Pace::Open(open) if open.session.is_some()) && !goes_on
    }

    /// What was due before `end` and found no connection: when each was.
    pub(crate) fn left_over(&self, end: Instant) -> impl Iterator<Item = Instant> {
        let open = match self {
            Pace::Closed { .. } => None,
            Pace::Open(open) => Some(open),
        };
        open.into_iter().flat_map(move |open| {
            let given_back = open.given_back.take().into_iter().filter(move |due| *due < end);
            let never_taken = std::iter::from_fn(|| Some(open.take()?.0)).take_while(move |due| *due < end);
            given_back.chain(never_taken)
        })
    }
}

impl Open {
    fn take(&self) -> Option<(Instant, Option<u32>)> {
        let (after, entry) = self.moments.borrow_mut().next()?;
        // What is due in ages is never due.
        let due = self.start.checked_add(after)?;
        self.until.is_none_or(|until| due < until).then_some((due, entry))
    }
}
