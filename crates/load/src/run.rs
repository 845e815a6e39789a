//! Running a load: threads with an executor each, a clock, and somebody to watch.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use engine::driver::epoll::Epoll;
use engine::meter::Meter;
use engine::stop::either;
use engine::{Deadline, Driver, Executor, Io, Limits, Stop as Switch};
use rustix::time::{ClockId, clock_gettime};

use crate::client::{Job, client};
use crate::error::Error;
use crate::host::Sample;
use crate::mix::Mix;
use crate::outcome::{Host, Outcome};
use crate::pace::Pace;
use crate::plan::{Plan, Stop};
use crate::record::{Recorder, SecondPart};
use crate::sum::outcome;
use crate::target::Target;
use crate::timeline::Timeline;

/// How often the observer is called.
const TICK: Duration = Duration::from_millis(100);

/// Sockets a driver needs beside the connections, for sleeps.
const BESIDE: usize = 4;

/// Time past the time-out of the last request after which a thread gives up waiting for it.
const GRACE: Duration = Duration::from_secs(1);

/// How often it is looked whether the last requests have ended.
const LOOK: Duration = Duration::from_millis(1);

/// Where a load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Load runs, and is not recorded.
    Warmup,
    /// Load runs and is recorded.
    Measuring,
    /// Measuring has ended; requests under way are waited for.
    Draining,
}

/// What can be said while a load runs.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Where the load is. The observer is called at once when this changes.
    pub phase: Phase,
    /// Time since the load started.
    pub elapsed: Duration,
    /// Time the load takes, where that is known before.
    pub total: Option<Duration>,
    /// Complete responses so far, warm-up included.
    pub requests: u64,
    /// Errors so far, warm-up included.
    pub errors: u64,
    /// Complete responses per second since the last call.
    pub recent_per_second: f64,
}

/// Counts that threads keep for the observer.
#[derive(Debug, Default)]
pub(crate) struct Live {
    requests: AtomicU64,
    errors: AtomicU64,
}

impl Live {
    /// Counts a request that has ended.
    pub(crate) fn ended(&self, complete: bool) {
        let counter = if complete { &self.requests } else { &self.errors };
        engine::counter::add(counter, 1);
    }
}

/// Runs a load to its end.
///
/// # Errors
/// The plan cannot be used, the host has no address, or the kernel refuses what the load needs. What goes
/// wrong with single requests is counted in the outcome.
pub fn run(plan: &Plan, observer: &mut dyn FnMut(&Progress)) -> Result<Outcome, Error> {
    run_until(plan, &Switch::default(), observer)
}

/// Runs a load to its end, or until `cancel` is set; what was measured until then is the outcome.
///
/// # Errors
/// As [`run`].
pub fn run_until(
    plan: &Plan,
    cancel: &Switch,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Outcome, Error> {
    plan.validate()?;
    let target = Target::parse(&plan.url)?;
    let address = target.resolve()?;
    if plan.sources > 0 && !matches!(address.ip(), std::net::IpAddr::V4(ip) if ip.is_loopback()) {
        return Err(Error::Plan(format!(
            "sources {}: only for servers on 127.0.0.0/8, and this is {address}",
            plan.sources
        )));
    }
    let threads = plan.threads();
    let start = Instant::now();
    let from = start + Duration::from_secs_f64(plan.warmup_s);
    let schedule = Window { start, from, until: plan.stop.duration().map(|duration| from + duration) };
    let (seconds, seconds_received) = mpsc::channel();
    let (report, reports) = mpsc::channel();
    let mut live = Vec::new();
    for index in 0..threads {
        let counts = Arc::new(Live::default());
        live.push(counts.clone());
        let worker = Worker {
            schedule,
            connections: share(plan.connections.into(), index, threads) as usize,
            requests: match plan.stop {
                Stop::Seconds(_) => u64::MAX,
                Stop::Requests(n) => share(n, index, threads),
            },
            cpu: plan.cpus.get(index as usize % plan.cpus.len().max(1)).copied(),
            cancel: cancel.clone(),
            mix: Mix::new(&target, plan, index, threads),
            pipeline: plan.pipeline,
            address,
            sources: plan.sources,
            to_head: plan.method == "HEAD",
            close: plan.close,
            timeout: Duration::from_secs_f64(plan.timeout_s),
            pace: Pace::new(plan, start, schedule.until, index, threads),
            live: counts,
        };
        let (seconds, report) = (seconds.clone(), report.clone());
        thread::Builder::new().name(format!("load-{index}")).spawn(move || {
            let _ = report.send(worker.run::<Epoll>(seconds));
        })?;
    }
    // From here on only the threads hold senders, so the channels end with them.
    drop((seconds, report));
    let watch = Watch { schedule, live, cancel: cancel.clone(), timeline: Timeline::default() };
    let seen = watch.follow(&reports, &seconds_received, threads, observer)?;
    Ok(outcome(plan, &schedule, cancel, seen))
}

/// When a load starts, begins to be recorded, and ends.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    start: Instant,
    pub(crate) from: Instant,
    pub(crate) until: Option<Instant>,
}

/// The `index`-th of `parts` shares of `whole`, as even as can be.
fn share(whole: u64, index: u32, parts: u32) -> u64 {
    let (index, parts) = (u64::from(index), u64::from(parts));
    whole / parts + u64::from(index < whole % parts)
}

/// All that one thread needs.
struct Worker {
    schedule: Window,
    connections: usize,
    requests: u64,
    cpu: Option<usize>,
    cancel: Switch,
    mix: Mix,
    pipeline: u32,
    address: std::net::SocketAddr,
    sources: u32,
    to_head: bool,
    close: bool,
    timeout: Duration,
    pace: Pace,
    live: Arc<Live>,
}

/// What one thread measured.
pub(crate) struct Part {
    pub(crate) recorder: Recorder,
    /// Share of one core it used while measuring.
    pub(crate) cpu_share: f64,
}

impl Worker {
    fn run<D: Driver>(self, seconds: Sender<SecondPart>) -> Result<Part, Error> {
        if let Some(cpu) = self.cpu {
            pin(cpu)?;
        }
        // A connection can sleep until a request is due.
        let io = Io::new(D::open(Limits { sockets: self.connections * 2 + BESIDE })?);
        let executor = Executor::new(self.connections, io.driver().unpark());
        let Window { from, until, .. } = self.schedule;
        let job = Rc::new(Job {
            address: self.address,
            mix: self.mix,
            pipeline: self.pipeline,
            sources: self.sources,
            next_source: Cell::new(0),
            to_head: self.to_head,
            close: self.close,
            timeout: self.timeout,
            recorder: RefCell::new(Recorder::new(from, until, self.pace.is_open(), seconds)),
            pace: self.pace,
            under_way: Cell::new(0),
            left: Cell::new(self.requests),
            over: Cell::new(false),
            live: self.live,
        });
        let cpu_share = executor.run(&io, &Meter::default(), || {}, async {
            for _ in 0..self.connections {
                // There are as many slots as connections.
                let _ = executor.spawn(client(io.clone(), job.clone()));
            }
            self.cancel.watch().await;
            self.cancel.or(io.sleep(Deadline::at(from))).await;
            let (cpu, begun) = (clock(ClockId::ThreadCPUTime), Instant::now());
            let until = until.map_or(Deadline::NEVER, Deadline::at);
            self.cancel.or(either(executor.at_most(0), io.sleep(until))).await;
            let share = (clock(ClockId::ThreadCPUTime) - cpu).as_secs_f64() / begun.elapsed().as_secs_f64();
            job.over.set(true);
            drain(&io, &job).await;
            share
        })?;
        drop(executor);
        let job = Rc::into_inner(job).ok_or_else(|| Error::Nothing("a connection did not end".into()))?;
        let mut recorder = job.recorder.into_inner();
        let end = Instant::now();
        job.pace.left_over(end).for_each(|due| recorder.unsent(due, end));
        recorder.finish();
        Ok(Part { recorder, cpu_share })
    }
}

/// Waits for the requests that are under way, and no longer than they may take.
async fn drain<D: Driver>(io: &Io<D>, job: &Job) {
    let latest = Instant::now() + job.timeout + GRACE;
    while job.under_way.get() > 0 && Instant::now() < latest {
        io.sleep(Deadline::at(Instant::now() + LOOK)).await;
    }
}

fn pin(cpu: usize) -> Result<(), Error> {
    let mut set = rustix::thread::CpuSet::new();
    if cpu >= rustix::thread::CpuSet::MAX_CPU {
        return Err(Error::Plan(format!(
            "core {cpu}: the kernel counts no further than {}",
            rustix::thread::CpuSet::MAX_CPU
        )));
    }
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|errno| Error::Plan(format!("core {cpu}: a thread cannot be pinned to it: {errno}")))
}

/// Reads a clock of processor time.
fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32)
}

/// All that was seen of a load.
pub(crate) struct Seen {
    pub(crate) parts: Vec<Part>,
    /// Processor time of the whole process while measuring.
    pub(crate) cpu: Duration,
    pub(crate) host: Host,
    pub(crate) timeline: Timeline,
}

/// Follows a load while it runs.
struct Watch {
    schedule: Window,
    live: Vec<Arc<Live>>,
    cancel: Switch,
    timeline: Timeline,
}

impl Watch {
    /// Waits for the parts of all threads; what the process and the host did is that of the measuring phase.
    fn follow(
        mut self,
        reports: &Receiver<Result<Part, Error>>,
        seconds: &Receiver<SecondPart>,
        threads: u32,
        observer: &mut dyn FnMut(&Progress),
    ) -> Result<Seen, Error> {
        let mut parts = Vec::new();
        let mut last = (self.schedule.start, 0, None);
        let used = || (clock(ClockId::ProcessCPUTime), Sample::now());
        let (mut begin, mut end) = (used(), None);
        while parts.len() < threads as usize {
            let now = Instant::now();
            let phase = self.phase(now);
            if last.2 != Some(phase) {
                match phase {
                    Phase::Warmup => {}
                    Phase::Measuring => begin = used(),
                    Phase::Draining => end = Some(used()),
                }
            }
            let progress = self.progress(phase, now, (last.0, last.1));
            observer(&progress);
            last = (now, progress.requests, Some(phase));
            match reports.recv_timeout(self.next_look(now)) {
                Ok(part) => parts.push(part?),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Nothing("a thread of the load panicked; this is a defect".into()));
                }
            }
            seconds.try_iter().for_each(|part| self.timeline.add(part));
        }
        let end = end.unwrap_or_else(used);
        if last.2 != Some(Phase::Draining) {
            let now = Instant::now();
            observer(&self.progress(Phase::Draining, now, (last.0, last.1)));
        }
        seconds.try_iter().for_each(|part| self.timeline.add(part));
        Ok(Seen { parts, cpu: end.0 - begin.0, host: end.1.since(&begin.1), timeline: self.timeline })
    }

    fn phase(&self, now: Instant) -> Phase {
        if self.cancel.is_set() || self.schedule.until.is_some_and(|until| now >= until) {
            Phase::Draining
        } else if now >= self.schedule.from {
            Phase::Measuring
        } else {
            Phase::Warmup
        }
    }

    /// Time to the next tick or change of phase, whichever comes first.
    fn next_look(&self, now: Instant) -> Duration {
        let changes = [Some(self.schedule.from), self.schedule.until];
        let next = changes.into_iter().flatten().filter(|at| *at > now).map(|at| at - now).min();
        next.map_or(TICK, |next| next.min(TICK))
    }

    fn progress(&self, phase: Phase, now: Instant, (then, before): (Instant, u64)) -> Progress {
        let sum = |get: fn(&Live) -> &AtomicU64| {
            self.live.iter().map(|live| get(live).load(Ordering::Relaxed)).sum()
        };
        let requests: u64 = sum(|live| &live.requests);
        let past = (now - then).as_secs_f64();
        Progress {
            phase,
            elapsed: now - self.schedule.start,
            total: self.schedule.until.map(|until| until - self.schedule.start),
            requests,
            errors: sum(|live| &live.errors),
            recent_per_second: if past > 0.0 { (requests - before) as f64 / past } else { 0.0 },
        }
    }
}
