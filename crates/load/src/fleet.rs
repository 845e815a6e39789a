//! A load from several processes, for more connections than one may have descriptors: each runs some of the threads, all
//! from the same moment, and what they recorded is put together exactly.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use engine::Stop as Switch;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::hdr;
use crate::host::Sample;
use crate::outcome::{Errors, Outcome, Second};
use crate::plan::Plan;
use crate::record::{Histograms, Recorder, SecondPart};
use crate::run::{Phase, Progress, Window, run_threads};
use crate::steady::Rates;
use crate::sum::outcome;
use crate::thread::{Common, Part};
use crate::timeline::Timeline;
use crate::watch::Seen;

/// Time between the last process being ready and the start of all.
const HEAD_START: Duration = Duration::from_millis(100);

/// How often the observer is called.
const TICK: Duration = Duration::from_millis(100);

/// Time past the end of the load, and the time-out of its last request, after which a process is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a process is told: first its part, then when to start.
#[derive(Serialize, Deserialize)]
enum Order {
    Part {
        plan: Box<Plan>,
        from: u32,
        to: u32,
        of: u32,
    },
    /// At this moment of the monotonic clock, which is the same for all processes of a host.
    Start {
        at: Duration,
    },
}

/// What a process says.
#[derive(Serialize, Deserialize)]
enum Report {
    Ready,
    Progress { requests: u64, errors: u64 },
    Done(Box<Record>),
    Failed(String),
}

/// What the threads of a process recorded.
#[derive(Serialize, Deserialize)]
struct Record {
    threads: Vec<ThreadRecord>,
    cpu: Duration,
    seconds: Vec<Second>,
}

#[derive(Serialize, Deserialize)]
struct ThreadRecord {
    histograms: Vec<String>,
    requests: u64,
    drained: u64,
    censored: u64,
    unsent: u64,
    bytes: u64,
    statuses: BTreeMap<u16, u64>,
    unexpected: BTreeMap<u16, u64>,
    errors: Errors,
    /// From the beginning of measuring to the last response.
    last: Duration,
    cpu_share: f64,
}

/// Runs a load from several processes, each of them `program` with `arguments`, which must call [`serve`].
///
/// # Errors
/// As [`crate::run_until`]; or a process cannot be started, or ends before its time.
pub fn run_until(
    program: &Path,
    arguments: &[&str],
    plan: &Plan,
    cancel: &Switch,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Outcome, Error> {
    // Whatever is wrong with the plan is said once.
    let driver = Common::new(plan, cancel)?.driver();
    let threads = plan.threads();
    let count = plan.processes.min(threads);
    let (sender, reports) = mpsc::channel();
    let mut members = Vec::new();
    for index in 0..count {
        let part = |index: u32| threads * index / count;
        members.push(Member::start(program, arguments, index, sender.clone())?);
        let (from, to) = (part(index), part(index + 1));
        let order = Order::Part { plan: Box::new(plan.clone()), from, to, of: threads };
        members[index as usize].tell(&order)?;
    }
    drop(sender);
    let mut fleet = Fleet { members, reports, heard: vec![Heard::default(); count as usize] };
    fleet.until_ready()?;
    let window = Window::new(plan, Instant::now() + HEAD_START);
    let at = monotonic(window.start);
    fleet.members.iter_mut().try_for_each(|member| member.tell(&Order::Start { at }))?;
    let seen = fleet.follow(plan, &window, cancel, observer)?;
    Ok(outcome(plan, &window, cancel, driver, seen))
}

/// One process, which ends when it is dropped.
struct Member {
    child: Child,
    orders: Option<ChildStdin>,
}

impl Member {
    fn start(
        program: &Path,
        arguments: &[&str],
        index: u32,
        reports: Sender<(usize, Report)>,
    ) -> Result<Self, Error> {
        let mut child =
            Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let orders = child.stdin.take();
        if let Some(output) = child.stdout.take() {
            thread::Builder::new().name(format!("process-{index}")).spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let report = serde_json::from_str(&line)
                        .unwrap_or_else(|error| Report::Failed(format!("it said {line:?}: {error}")));
                    let _ = reports.send((index as usize, report));
                }
                let _ = reports.send((index as usize, Report::Failed("it ended before its time".into())));
            })?;
        }
        Ok(Member { child, orders })
    }

    fn tell(&mut self, order: &Order) -> Result<(), Error> {
        let Some(orders) = &mut self.orders else { return Ok(()) };
        let text = serde_json::to_string(order).map_err(std::io::Error::from)?;
        Ok(writeln!(orders, "{text}")?)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
        let (mut before, mut last_phase) = ((window.start, 0), None);
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
            let progress = self.progress(window, phase, now, before);
            rates.look(&progress);
            observer(&progress);
            (before, last_phase) = ((now, progress.requests), Some(phase));
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
        let mut seen =
            Seen { parts: Vec::new(), cpu: Duration::ZERO, host, timeline: Timeline::default(), rates };
        records.into_iter().try_for_each(|record| record.add_to(&mut seen, window)).map_err(|error| {
            Error::Nothing(format!("a process of the load recorded what cannot be read: {error}"))
        })?;
        Ok(seen)
    }

    fn progress(
        &self,
        window: &Window,
        phase: Phase,
        now: Instant,
        (then, before): (Instant, u64),
    ) -> Progress {
        let requests = self.heard.iter().map(|heard| heard.requests).sum();
        let errors = self.heard.iter().map(|heard| heard.errors).sum();
        Progress::new(window, phase, now, (requests, errors), (then, before))
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
    let Some(Order::Part { plan, from, to, of }) = order()? else {
        return Err(Error::Nothing("there is no order on the standard input".into()));
    };
    let cancel = Switch::default();
    let common = match Common::new(&plan, &cancel) {
        Ok(common) => common,
        Err(error) => return say(&Report::Failed(error.to_string())),
    };
    say(&Report::Ready)?;
    let Some(Order::Start { at }) = order()? else { return Ok(()) };
    let start = Instant::now() + at.saturating_sub(monotonic(Instant::now()));
    // Whoever gave the orders is gone, or wants an end.
    let ended = cancel.clone();
    thread::Builder::new().name("orders".into()).spawn(move || {
        while let Ok(Some(_)) = order() {}
        ended.set();
    })?;
    thread::sleep(start.saturating_duration_since(Instant::now()));
    let window = Window::new(&plan, start);
    let seen = run_threads(&common, window, from..to, of, &mut |progress| {
        // Where nobody listens the orders have ended too.
        let _ = say(&Report::Progress { requests: progress.requests, errors: progress.errors });
    });
    match seen {
        Ok(seen) => say(&Report::Done(Box::new(Record::of(seen, &window)))),
        Err(error) => say(&Report::Failed(error.to_string())),
    }
}

fn say(report: &Report) -> Result<(), Error> {
    let text = serde_json::to_string(report).map_err(std::io::Error::from)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// A moment on the monotonic clock, which `Instant` is made of and does not show.
fn monotonic(instant: Instant) -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    let now = Duration::new(now.tv_sec.max(0) as u64, now.tv_nsec as u32);
    now + instant.saturating_duration_since(Instant::now())
}

impl Record {
    fn of(seen: Seen, window: &Window) -> Self {
        let threads = seen.parts.iter().map(|Part { recorder, cpu_share }| ThreadRecord {
            histograms: recorder.histograms.all().map(hdr::encode).into(),
            requests: recorder.requests,
            drained: recorder.drained,
            censored: recorder.censored,
            unsent: recorder.unsent,
            bytes: recorder.bytes,
            statuses: recorder.statuses().collect(),
            unexpected: recorder.unexpected().collect(),
            errors: recorder.errors,
            last: recorder.last.saturating_duration_since(window.from),
            cpu_share: *cpu_share,
        });
        Record { threads: threads.collect(), cpu: seen.cpu, seconds: seen.timeline.finish() }
    }

    fn add_to(self, seen: &mut Seen, window: &Window) -> Result<(), hdr::BadLog> {
        seen.cpu += self.cpu;
        for second in self.seconds.iter().filter(|second| !second.histogram.is_empty()) {
            let times = hdr::decode(&second.histogram)?;
            seen.timeline.add(SecondPart { index: second.at_s, times, errors: second.errors });
        }
        for record in self.threads {
            let histograms: Vec<_> =
                record.histograms.iter().map(|text| hdr::decode(text)).collect::<Result<_, _>>()?;
            let histograms = <[_; 7]>::try_from(histograms)
                .map_err(|all| hdr::BadLog(format!("{} histograms", all.len())))?;
            // What it would send to has ended: this one records nothing more.
            let mut recorder = Recorder::new(window.from, window.until, false, mpsc::channel().0);
            recorder.histograms = Histograms::from(histograms);
            recorder.requests = record.requests;
            recorder.drained = record.drained;
            recorder.censored = record.censored;
            recorder.unsent = record.unsent;
            recorder.bytes = record.bytes;
            recorder.errors = record.errors;
            recorder.last = window.from + record.last;
            for (code, count) in record.statuses {
                recorder.count_status(code, count);
            }
            for (code, count) in record.unexpected {
                recorder.count_unexpected(code, count);
            }
            seen.parts.push(Part { recorder, cpu_share: record.cpu_share });
        }
        Ok(())
    }
}
