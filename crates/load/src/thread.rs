//! One thread of a load: an executor with the thread's share of the connections, and what they recorded.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use engine::meter::Meter;
use engine::stop::either;
use engine::{Deadline, Driver, Executor, Io, Limits, Stop as Switch, clock};

use crate::client::{Job, client};
use crate::common::Common;
use crate::error::Error;
use crate::exchange::Manner;
use crate::expect::Expected;
use crate::left::Left;
use crate::link::Emulated;
use crate::mix::Mix;
use crate::pace::Pace;
use crate::progress::{Live, Window};
use crate::record::Recorder;
use crate::recorded::{Recorded, SecondPart};

/// Sockets a driver needs beside the connections, for sleeps.
const BESIDE: usize = 4;

/// Time past the time-out of the last request after which a thread gives up waiting for it.
const GRACE: Duration = Duration::from_secs(1);

/// How often it is looked whether the last requests have ended.
const LOOK: Duration = Duration::from_millis(1);

/// The `index`-th of `parts` shares of `whole`, as even as can be.
pub(crate) fn share(whole: u64, index: u32, parts: u32) -> u64 {
    let (index, parts) = (u64::from(index), u64::from(parts));
    whole / parts + u64::from(index < whole % parts)
}

/// All that one thread needs.
pub(crate) struct Worker {
    schedule: Window,
    connections: usize,
    left: Arc<Left>,
    cpu: Option<usize>,
    cancel: Switch,
    mix: Mix,
    pipeline: u32,
    /// The far end of the emulated link.
    namespace: Option<Arc<File>>,
    address: SocketAddr,
    sources: u32,
    /// So that threads do not all begin with the same.
    first_source: u32,
    manner: Manner,
    close: bool,
    timeout: Duration,
    pace: Pace,
    live: Arc<Live>,
}

/// What one thread measured.
pub(crate) struct Part {
    pub(crate) recorded: Recorded,
    /// Processor time it used while measuring.
    pub(crate) cpu: Duration,
    /// The same as a share of one core.
    pub(crate) cpu_share: f64,
}

impl Worker {
    /// The `index`-th of a load's `threads` threads, which starts requests as long as any are `left`.
    ///
    /// # Errors
    /// A place in a request is not known.
    pub(crate) fn new(
        common: &Common<'_>,
        schedule: Window,
        (index, threads): (u32, u32),
        left: Arc<Left>,
        live: Arc<Live>,
    ) -> Result<Self, Error> {
        let Common { plan, target, address, log, link, cancel, .. } = common;
        let rate = |rate: f64| (rate > 0.0).then_some(rate);
        Ok(Worker {
            schedule,
            connections: share(plan.connections.into(), index, threads) as usize,
            left,
            cpu: plan.cpus.get(index as usize % plan.cpus.len().max(1)).copied(),
            cancel: (*cancel).clone(),
            mix: Mix::new(target, plan, log.as_deref(), index, threads).map_err(Error::Plan)?,
            pipeline: plan.pipeline,
            address: *address,
            namespace: link.as_ref().map(Emulated::namespace),
            sources: plan.sources,
            first_source: index % plan.sources.max(1),
            manner: Manner {
                to_head: plan.method == "HEAD",
                expected: Expected::new(&plan.expect),
                send_rate: rate(plan.send_rate),
                receive_rate: rate(plan.receive_rate),
            },
            close: plan.close,
            timeout: Duration::from_secs_f64(plan.timeout_s),
            pace: Pace::new(plan, log.as_ref(), (schedule.start, schedule.until), index, threads),
            live,
        })
    }

    /// Sends the thread's part of the load, and records it.
    pub(crate) fn run<D: Driver>(self, seconds: Sender<SecondPart>) -> Result<Part, Error> {
        if let Some(cpu) = self.cpu {
            pin(cpu)?;
        }
        if let Some(namespace) = &self.namespace {
            crate::link::enter(namespace)?;
        }
        // A connection can sleep until a request is due.
        let io = Io::new(D::open(Limits { sockets: self.connections * 2 + BESIDE })?);
        let executor = Executor::new(self.connections, io.driver().unpark());
        let (window, connections, cancel) = (self.schedule, self.connections, self.cancel.clone());
        let job = Rc::new(self.into_job(seconds));
        let load = async {
            for _ in 0..connections {
                // There are as many slots as connections.
                let _ = executor.spawn(client(io.clone(), job.clone()));
            }
            measure(&io, &executor, &job, window, &cancel).await
        };
        let Used { cpu, cpu_share, stopped } = executor.run(&io, &Meter::default(), || {}, load)?;
        drop(executor);
        let job = Rc::into_inner(job).ok_or_else(|| Error::Nothing("a connection did not end".into()))?;
        let mut recorder = job.recorder.into_inner();
        let end = Instant::now();
        if cancel.is_set() {
            recorder.cut_off(stopped);
        }
        // What was asked for, and no more: not what is due after the last request, or while the end is waited for.
        let unsent = job.pace.left_over(stopped).take_while(|due| *due < window.from || job.left.take());
        unsent.for_each(|due| recorder.unsent(due, end));
        Ok(Part { recorded: recorder.finish(), cpu, cpu_share })
    }

    /// What its connections share.
    fn into_job(self, seconds: Sender<SecondPart>) -> Job {
        let Window { from, until, .. } = self.schedule;
        Job {
            address: self.address,
            mix: self.mix,
            pipeline: self.pipeline,
            sources: self.sources,
            next_source: Cell::new(self.first_source),
            manner: self.manner,
            close: self.close,
            timeout: self.timeout,
            recorder: RefCell::new(Recorder::new(from, until, self.pace.is_open(), seconds)),
            pace: self.pace,
            under_way: Cell::new(0),
            from,
            left: self.left,
            all_ended: Switch::default(),
            over: Cell::new(false),
            cancelled: Cell::new(false),
            live: self.live,
        }
    }
}

/// What a thread used while measuring, and when that ended.
struct Used {
    cpu: Duration,
    cpu_share: f64,
    stopped: Instant,
}

/// Measures: waits for the beginning, for the end, and for the requests that are under way then.
async fn measure<D: Driver>(
    io: &Io<D>,
    executor: &Executor<impl Future<Output = ()>>,
    job: &Job,
    Window { from, until, .. }: Window,
    cancel: &Switch,
) -> Used {
    cancel.watch().await;
    cancel.or(io.sleep(Deadline::at(from))).await;
    let (used, begun) = (clock::of_thread(), Instant::now());
    job.left.watch().await;
    job.all_ended.watch().await;
    let end = async {
        match until {
            // A load that runs out of requests earlier is one that has none for the rest of its time.
            Some(until) => io.sleep(Deadline::at(until)).await,
            // The last of a number of requests may leave connections that sleep until a later one is due.
            None => either(job.served(), executor.at_most(0)).await,
        }
    };
    cancel.or(end).await;
    let cpu = clock::of_thread() - used;
    let cpu_share = cpu.as_secs_f64() / begun.elapsed().as_secs_f64();
    job.over.set(true);
    job.cancelled.set(cancel.is_set());
    let stopped = Instant::now();
    drain(io, job).await;
    Used { cpu, cpu_share, stopped }
}

/// Waits for the requests that are under way, and no longer than they may take.
async fn drain<D: Driver>(io: &Io<D>, job: &Job) {
    // Counted in looks and not in time, of which a host that stalls may take all at once: whoever is waited for has its turn.
    let looks = (job.timeout + GRACE).as_micros() / LOOK.as_micros();
    // Connections whose moment came with the end, or shortly before, have their turn first.
    io.sleep(Deadline::at(Instant::now() + LOOK)).await;
    for _ in 0..looks {
        if job.under_way.get() == 0 {
            break;
        }
        io.sleep(Deadline::at(Instant::now() + LOOK)).await;
    }
}

fn pin(cpu: usize) -> Result<(), Error> {
    engine::host::pin(&[cpu])
        .map_err(|error| Error::Plan(format!("core {cpu}: a thread cannot be pinned to it: {error}")))
}
