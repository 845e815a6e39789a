//! A load from several processes, for more connections than one may have descriptors: each runs some of the threads, all
//! from the same moment, and what they recorded is put together exactly.

mod member;

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use engine::{Stop as Switch, clock};
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};

use self::member::Member;

pub(crate) use self::member::Responding;

use crate::common::Common;
use crate::error::Error;
use crate::hdr;
use crate::host::Sample;
use crate::outcome::{Outcome, Second};
use crate::plan::Plan;
use crate::progress::{Phase, Progress, Pulse, TICK, Window};
use crate::recorded::{Recorded, SecondPart};
use crate::responder::Wanted;
use crate::run::{run_threads, run_until};
use crate::steady::Rates;
use crate::sum::outcome;
use crate::watch::Seen;
use crate::webbench;

/// The argument with which a program is one process of a load, and calls [`serve`].
pub const PART: &str = "load-part";

/// Time between the last process being ready and the start of all.
const HEAD_START: Duration = Duration::from_millis(100);

/// Time past the end of the load, and the time-out of its last request, after which a process is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a process is told: first its part, then when to start.
#[derive(Serialize, Deserialize)]
enum Order {
    Part {
        plan: Box<Plan>,
        /// Which of its threads, or of its blocking clients, out of how many.
        from: u32,
        to: u32,
        of: u32,
        blocking: bool,
    },
    /// To answer a load instead, until nobody gives orders any more.
    Respond(Wanted),
    /// At this moment of the monotonic clock, which is the same for all processes of a host.
    Start { at: Duration },
}

/// What a process says.
#[derive(Serialize, Deserialize)]
enum Report {
    Ready,
    /// It answers at this address.
    Responds(SocketAddr),
    Progress {
        requests: u64,
        errors: u64,
    },
    Done(Box<Record>),
    Failed(String),
}

/// What a process has seen of its part.
#[derive(Serialize, Deserialize)]
struct Record {
    recorded: Recorded,
    threads: u32,
    busiest: f64,
    cpu: Duration,
    seconds: Vec<Second>,
}

/// Runs a load from as many processes as its plan asks for: from this one, or from several, each of them `program` with
/// `arguments`, which must call [`serve`].
///
/// # Errors
/// As [`run_until`]; or a process cannot be started, or ends before its time.
pub fn run(
    program: &Path,
    arguments: &[&str],
    plan: &Plan,
    cancel: &Switch,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Outcome, Error> {
    if plan.processes == 1 {
        return run_until(plan, cancel, observer);
    }
    // Whatever is wrong with the plan is said once.
    let driver = Common::new(plan, cancel)?.driver();
    let (window, seen) = run_parts(program, arguments, plan, (plan.threads(), false), cancel, observer)?;
    Ok(outcome(plan, &window, cancel, driver, seen))
}

/// Runs so many threads of a load, or blocking clients, from as many processes as its plan asks for.
pub(crate) fn run_parts(
    program: &Path,
    arguments: &[&str],
    plan: &Plan,
    (whole, blocking): (u32, bool),
    cancel: &Switch,
    observer: &mut dyn FnMut(&Progress),
) -> Result<(Window, Seen), Error> {
    let count = plan.processes.min(whole);
    let (sender, reports) = mpsc::channel();
    let mut members = Vec::new();
    for index in 0..count {
        let part = |index: u32| (u64::from(whole) * u64::from(index) / u64::from(count)) as u32;
        members.push(Member::start(program, arguments, index, sender.clone())?);
        let (from, to) = (part(index), part(index + 1));
        let order = Order::Part { plan: Box::new(plan.clone()), from, to, of: whole, blocking };
        members[index as usize].tell(&order)?;
    }
    drop(sender);
    let mut fleet = Fleet { members, reports, heard: vec![Heard::default(); count as usize] };
    fleet.until_ready()?;
    let window = Window::new(plan, Instant::now() + HEAD_START);
    let at = monotonic(window.start);
    fleet.members.iter_mut().try_for_each(|member| member.tell(&Order::Start { at }))?;
    let seen = fleet.follow(plan, &window, cancel, observer)?;
    Ok((window, seen))
}

/// What a process has said so far.
#[derive(Clone, Copy, Default)]
struct Heard {
    ready: bool,
    requests: u64,
    errors: u64,
    done: bool,
}

struct Fleet {
    members: Vec<Member>,
    reports: Receiver<(usize, Report)>,
    heard: Vec<Heard>,
}

impl Fleet {
    fn until_ready(&mut self) -> Result<(), Error> {
        while !self.heard.iter().all(|heard| heard.ready) {
            match self.reports.recv_timeout(PATIENCE) {
                Ok((index, Report::Ready)) => self.heard[index].ready = true,
                Ok((index, Report::Failed(why))) => return Err(failed(index, &why)),
                Ok(_) => {}
                Err(_) => return Err(Error::Nothing("a process of the load does not get ready".into())),
            }
        }
        Ok(())
    }

    /// Waits for the records of all.
    fn follow(
        mut self,
        plan: &Plan,
        window: &Window,
        cancel: &Switch,
        observer: &mut dyn FnMut(&Progress),
    ) -> Result<Seen, Error> {
        let mut records: Vec<Record> = Vec::new();
        let latest = window.until.map(|until| until + Duration::from_secs_f64(plan.timeout_s) + PATIENCE);
        let (mut pulse, mut last_phase) = (Pulse::new(window.start), None);
        let (mut begin, mut end, mut rates) = (Sample::now(), None, Rates::default());
        while records.len() < self.members.len() {
            if cancel.is_set() {
                // Each of them ends when nobody tells it anything any more.
                self.members.iter_mut().for_each(|member| member.orders = None);
            }
            let now = Instant::now();
            let phase = window.phase(now, cancel);
            match phase {
                Phase::Measuring if last_phase != Some(phase) => begin = Sample::now(),
                Phase::Draining if end.is_none() => end = Some(Sample::now()),
                _ => {}
            }
            let progress = self.progress(window, phase, now, &mut pulse);
            rates.look(&progress);
            observer(&progress);
            last_phase = Some(phase);
            match self.reports.recv_timeout(TICK) {
                Ok((index, Report::Progress { requests, errors })) => {
                    self.heard[index] = Heard { requests, errors, ..self.heard[index] };
                }
                Ok((index, Report::Done(record))) => {
                    self.heard[index].done = true;
                    records.push(*record);
                }
                // The end of a process comes behind its record.
                Ok((index, Report::Failed(why))) if !self.heard[index].done => {
                    return Err(failed(index, &why));
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if latest.is_some_and(|latest| now > latest) => {
                    return Err(Error::Nothing("a process of the load does not end".into()));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Nothing("a process of the load ended without a word".into()));
                }
            }
        }
        let host = end.unwrap_or_else(Sample::now).since(&begin);
        // So many requests end when the last process does: whoever looks at the server is told.
        if last_phase != Some(Phase::Draining) {
            observer(&self.progress(window, Phase::Draining, Instant::now(), &mut pulse));
        }
        let mut seen = Seen { host, rates, ..Seen::default() };
        records.iter().try_for_each(|record| record.add_to(&mut seen)).map_err(|error| {
            Error::Nothing(format!("a process of the load recorded what cannot be read: {error}"))
        })?;
        Ok(seen)
    }

    fn progress(&self, window: &Window, phase: Phase, now: Instant, pulse: &mut Pulse) -> Progress {
        let requests = self.heard.iter().map(|heard| heard.requests).sum();
        let errors = self.heard.iter().map(|heard| heard.errors).sum();
        Progress::new(window, phase, now, (requests, errors), pulse.beat(now, requests))
    }
}

fn failed(index: usize, why: &str) -> Error {
    Error::Nothing(format!("process {} of the load: {why}", index + 1))
}

/// A process of a load: reads its orders from standard input, says how it goes on standard output.
///
/// # Errors
/// The orders cannot be read, or nobody listens.
pub fn serve(orders: impl std::io::Read + Send + 'static) -> Result<(), Error> {
    let mut lines = BufReader::new(orders).lines();
    let mut order = move || -> Result<Option<Order>, Error> {
        let Some(line) = lines.next() else { return Ok(None) };
        Ok(Some(serde_json::from_str(&line?).map_err(std::io::Error::from)?))
    };
    let (plan, from, to, of, blocking) = match order()? {
        Some(Order::Part { plan, from, to, of, blocking }) => (plan, from, to, of, blocking),
        Some(Order::Respond(wanted)) => return respond(&wanted, order),
        _ => return Err(Error::Nothing("there is no order on the standard input".into())),
    };
    let cancel = Switch::default();
    let ended = cancel.clone();
    // Ready, and then at the start, once that is told.
    let begin = || {
        say(&Report::Ready)?;
        let Some(Order::Start { at }) = order()? else {
            return Err(Error::Nothing("nobody starts it".into()));
        };
        let start = Instant::now() + at.saturating_sub(monotonic(Instant::now()));
        // Whoever gave the orders is gone, or wants an end.
        thread::Builder::new().name("orders".into()).spawn(move || {
            while let Ok(Some(_)) = order() {}
            ended.set();
        })?;
        thread::sleep(start.saturating_duration_since(Instant::now()));
        Ok(Window::new(&plan, start))
    };
    let mut tell = |progress: &Progress| {
        // Where nobody listens the orders have ended too.
        let _ = say(&Report::Progress { requests: progress.requests, errors: progress.errors });
    };
    let seen = if blocking {
        webbench::run_part(&plan, from..to, &cancel, begin, &mut tell).map(|(_, seen)| seen)
    } else {
        Common::new(&plan, &cancel).and_then(|common| run_threads(&common, begin()?, from..to, of, &mut tell))
    };
    match seen {
        Ok(seen) => say(&Report::Done(Box::new(Record::of(seen)))),
        Err(error) => say(&Report::Failed(error.to_string())),
    }
}

/// Answers a load until there are no orders any more.
fn respond(wanted: &Wanted, mut order: impl FnMut() -> Result<Option<Order>, Error>) -> Result<(), Error> {
    let responder = match wanted.start() {
        Ok(responder) => responder,
        Err(error) => return say(&Report::Failed(error.to_string())),
    };
    say(&Report::Responds(responder.address()))?;
    while let Ok(Some(_)) = order() {}
    responder.stop().set();
    Ok(responder.join()?)
}

fn say(report: &Report) -> Result<(), Error> {
    let text = serde_json::to_string(report).map_err(std::io::Error::from)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// A moment on the monotonic clock, which `Instant` is made of and does not show.
fn monotonic(instant: Instant) -> Duration {
    clock::read(ClockId::Monotonic) + instant.saturating_duration_since(Instant::now())
}

impl Record {
    fn of(seen: Seen) -> Self {
        let Seen { recorded, threads, busiest, cpu, timeline, .. } = seen;
        Record { recorded, threads, busiest, cpu, seconds: timeline.finish() }
    }

    fn add_to(&self, seen: &mut Seen) -> Result<(), hdr::BadLog> {
        seen.recorded.add(&self.recorded);
        seen.threads += self.threads;
        seen.busiest = seen.busiest.max(self.busiest);
        seen.cpu += self.cpu;
        for second in &self.seconds {
            let mut part = SecondPart { errors: second.errors, ..SecondPart::new(second.at_s) };
            if second.requests > 0 {
                part.times = hdr::decode(&second.histogram)?;
            }
            seen.timeline.add(part);
        }
        Ok(())
    }
}
