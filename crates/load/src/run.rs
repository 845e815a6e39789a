//! Running a load: threads with an executor each, a clock, and somebody to watch.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
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
use crate::outcome::{Client, Errors, Outcome, SCHEMA};
use crate::plan::{Plan, Stop};
use crate::record::{Recorder, SecondPart, distribution, whole};
use crate::target::Target;
use crate::timeline::Timeline;

/// How often the observer is called.
const TICK: Duration = Duration::from_millis(250);

/// Sockets a driver needs beside the connections, for sleeps.
const BESIDE: usize = 4;

/// Time past the time-out of the last request after which a thread gives up waiting for it.
const GRACE: Duration = Duration::from_secs(1);

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
    /// Counts a request that has ended. One thread writes each `Live`, so no locked instruction is needed.
    pub(crate) fn ended(&self, complete: bool) {
        let counter = if complete { &self.requests } else { &self.errors };
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
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
    let threads = plan.threads();
    let start = Instant::now();
    let from = start + Duration::from_secs_f64(plan.warmup_s);
    let schedule = Schedule { start, from, until: plan.stop.duration().map(|duration| from + duration) };
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
            request: target.request(plan),
            address,
            to_head: plan.method == "HEAD",
            close: plan.close,
            timeout: Duration::from_secs_f64(plan.timeout_s),
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
    let (parts, cpu, timeline) = watch.follow(&reports, &seconds_received, threads, observer)?;
    Ok(outcome(plan, &schedule, cancel, parts, cpu, timeline))
}

/// When a load starts, begins to be recorded, and ends.
#[derive(Clone, Copy)]
struct Schedule {
    start: Instant,
    from: Instant,
    until: Option<Instant>,
}

/// The `index`-th of `parts` shares of `whole`, as even as can be.
fn share(whole: u64, index: u32, parts: u32) -> u64 {
    let (index, parts) = (u64::from(index), u64::from(parts));
    whole / parts + u64::from(index < whole % parts)
}

/// All that one thread needs.
struct Worker {
    schedule: Schedule,
    connections: usize,
    requests: u64,
    cpu: Option<usize>,
    cancel: Switch,
    request: Vec<u8>,
    address: std::net::SocketAddr,
    to_head: bool,
    close: bool,
    timeout: Duration,
    live: Arc<Live>,
}

/// What one thread measured.
struct Part {
    recorder: Recorder,
    /// Share of one core it used while measuring.
    cpu_share: f64,
}

impl Worker {
    fn run<D: Driver>(self, seconds: Sender<SecondPart>) -> Result<Part, Error> {
        if let Some(cpu) = self.cpu {
            pin(cpu)?;
        }
        let io = Io::new(D::open(Limits { sockets: self.connections + BESIDE })?);
        let executor = Executor::new(self.connections, io.driver().unpark());
        let Schedule { from, until, .. } = self.schedule;
        let job = Rc::new(Job {
            address: self.address,
            request: self.request,
            to_head: self.to_head,
            close: self.close,
            timeout: self.timeout,
            left: Cell::new(self.requests),
            over: Cell::new(false),
            recorder: RefCell::new(Recorder::new(from, until, seconds)),
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
            either(executor.at_most(0), io.sleep(Deadline::at(Instant::now() + self.timeout + GRACE))).await;
            share
        })?;
        drop(executor);
        let job = Rc::into_inner(job).ok_or_else(|| Error::Nothing("a connection did not end".into()))?;
        let mut recorder = job.recorder.into_inner();
        recorder.finish();
        Ok(Part { recorder, cpu_share })
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

/// Follows a load while it runs.
struct Watch {
    schedule: Schedule,
    live: Vec<Arc<Live>>,
    cancel: Switch,
    timeline: Timeline,
}

impl Watch {
    /// Waits for the parts of all threads; the processor time is that of the measuring phase.
    fn follow(
        mut self,
        reports: &Receiver<Result<Part, Error>>,
        seconds: &Receiver<SecondPart>,
        threads: u32,
        observer: &mut dyn FnMut(&Progress),
    ) -> Result<(Vec<Part>, Duration, Timeline), Error> {
        let mut parts = Vec::new();
        let mut last = (self.schedule.start, 0, None);
        let (mut cpu_from, mut cpu_until) = (Duration::ZERO, None);
        while parts.len() < threads as usize {
            let now = Instant::now();
            let phase = self.phase(now);
            if last.2 != Some(phase) {
                match phase {
                    Phase::Warmup => {}
                    Phase::Measuring => cpu_from = clock(ClockId::ProcessCPUTime),
                    Phase::Draining => cpu_until = Some(clock(ClockId::ProcessCPUTime)),
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
        let cpu = cpu_until.unwrap_or_else(|| clock(ClockId::ProcessCPUTime)) - cpu_from;
        if last.2 != Some(Phase::Draining) {
            let now = Instant::now();
            observer(&self.progress(Phase::Draining, now, (last.0, last.1)));
        }
        seconds.try_iter().for_each(|part| self.timeline.add(part));
        Ok((parts, cpu, self.timeline))
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

/// Puts the parts of all threads together. Histograms of equal precision add up bucket by bucket, exactly.
fn outcome(
    plan: &Plan,
    schedule: &Schedule,
    cancel: &Switch,
    parts: Vec<Part>,
    cpu: Duration,
    timeline: Timeline,
) -> Outcome {
    let mut times = whole();
    let mut statuses = BTreeMap::new();
    let mut errors = Errors::default();
    let (mut requests, mut drained, mut bytes) = (0, 0, 0);
    let mut last = schedule.from;
    for Part { recorder, .. } in &parts {
        times.add(&recorder.times).expect("all histograms have the same bounds");
        errors.add(&recorder.errors);
        requests += recorder.requests;
        drained += recorder.drained;
        bytes += recorder.bytes;
        last = last.max(recorder.last);
        for (code, count) in (0u16..).zip(recorder.statuses.iter()).filter(|(_, count)| **count > 0) {
            *statuses.entry(code).or_default() += count;
        }
    }
    // A load that was cut off, or that ends with its last request, has lasted until then.
    let end = if cancel.is_set() { last } else { schedule.until.unwrap_or(last) };
    let duration_s = (end - schedule.from).as_secs_f64();
    let per_second = |count: u64| if duration_s > 0.0 { count as f64 / duration_s } else { 0.0 };
    Outcome {
        schema: SCHEMA.into(),
        plan: plan.clone(),
        threads: parts.len() as u32,
        duration_s,
        requests,
        requests_per_second: per_second(requests),
        drained,
        bytes_received: bytes,
        bytes_per_second: per_second(bytes),
        response_time_us: distribution(&times),
        statuses,
        errors,
        client: Client {
            cpu_s: cpu.as_secs_f64(),
            cpu_us_per_request: if requests > 0 { cpu.as_secs_f64() * 1e6 / requests as f64 } else { 0.0 },
            busiest_thread_share: parts.iter().map(|part| part.cpu_share).fold(0.0, f64::max),
        },
        timeline: timeline.finish(),
    }
}
