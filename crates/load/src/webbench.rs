//! A load like Webbench's, which source A measured with: each client is a blocking loop of its own that connects, asks with
//! HTTP/1.0, reads to the end of the connection, and counts.
//!
//! Webbench forks a process for each client; here it is a thread with a small stack. The server sees the same: as many
//! clients, each with one connection per request, and none of them faster than the scheduler lets it run. What differs is the
//! load's own cost (a thread is switched to and made for less than a process), and that times are recorded, where Webbench
//! only counts. More clients than one process may have threads are spread over several.

mod answer;
mod limits;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use engine::{Stop as Switch, clock};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SocketFlags, connect};

use self::answer::Reading;

use crate::common::Common;
use crate::error::Error;
use crate::fault::Fault;
use crate::fleet;
use crate::outcome::Outcome;
use crate::plan::{Plan, Stop};
use crate::progress::{Live, Phase, Progress, Window};
use crate::record::{Phases, Recorder, Times};
use crate::socket::{BACK_OFF, socket, source};
use crate::sum::outcome;
use crate::thread::{Part, share};
use crate::watch::{Seen, Watch};

pub use limits::processes_for;

/// Stack of a client, in bytes: 20,000 of them take little more than what the kernel needs for their threads.
const STACK: usize = 64 * 1024;

/// What a client reads at once, in bytes.
const PIECE: usize = 4096;

/// Clients record into so many places in turn: one each would take a megabyte each, and one for all would have them wait.
const SHARDS: u32 = 16;

/// What all clients have in common.
struct Job {
    address: SocketAddr,
    sources: u32,
    /// The first of the clients that are in this process.
    first: u32,
    request: Vec<u8>,
    timeout: Duration,
    cancel: Switch,
    /// Held until every client is there, so that all begin at once; empty where they could not all be had.
    shards: RwLock<Vec<Shard>>,
}

/// What some of the clients record.
struct Shard {
    window: Window,
    /// Taken by the last client, which hands it over.
    recorder: Mutex<Option<Recorder>>,
    /// Clients that have not ended.
    left: AtomicU32,
    /// Processor time of those that have, while measuring, in nanoseconds.
    used: AtomicU64,
    live: Arc<Live>,
}

/// Runs such a load to its end, or until `cancel` is set; what was measured until then is the outcome. It makes a connection
/// per request, whatever the plan says about that. Where the plan asks for several processes each of them has a part of the
/// clients, and is `program` with `arguments`, which must call [`fleet::serve`].
///
/// # Errors
/// The plan asks for more than one page again and again for some seconds, the host has no address, or there cannot be as
/// many threads as clients.
pub fn run(
    program: &Path,
    arguments: &[&str],
    plan: &Plan,
    cancel: &Switch,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Outcome, Error> {
    // Whatever is wrong with the plan is said once.
    Job::new(plan, cancel)?;
    limits::of_threads(plan.connections)?;
    let (window, seen) = if plan.processes == 1 {
        let begin = || Ok(Window::new(plan, Instant::now()));
        run_part(plan, 0..plan.connections, cancel, begin, observer)?
    } else {
        fleet::run_parts(program, arguments, plan, (plan.connections, true), cancel, observer)?
    };
    // None of them is told apart: all together, over as many cores as they may use.
    let seconds = window.until.map_or(0.0, |until| (until - window.from).as_secs_f64());
    let busiest = seen.cpu.as_secs_f64() / seconds.max(1e-9) / plan.cores() as f64;
    let seen = Seen { threads: plan.connections, busiest, ..seen };
    Ok(outcome(plan, &window, cancel, "blocking", seen))
}

/// Runs some of the clients of a load in this process. When all of them are there `begin` waits for the start, and gives the
/// times of the load.
pub(crate) fn run_part(
    plan: &Plan,
    which: Range<u32>,
    cancel: &Switch,
    begin: impl FnOnce() -> Result<Window, Error>,
    observer: &mut dyn FnMut(&Progress),
) -> Result<(Window, Seen), Error> {
    let job = Job { first: which.start, ..Job::new(plan, cancel)? };
    let clients = which.len() as u32;
    let (seconds, seconds_received) = mpsc::channel();
    let (report, reports) = mpsc::channel();
    thread::scope(|scope| {
        let mut held = job.shards.write().unwrap_or_else(PoisonError::into_inner);
        for index in which {
            let (job, report) = (&job, report.clone());
            let client = thread::Builder::new().name(format!("client-{index}")).stack_size(STACK);
            client
                .spawn_scoped(scope, move || job.client(index, &report))
                .map_err(|error| limits::refused(index, plan.connections, &error))?;
        }
        drop(report);
        let window = begin()?;
        let shards = SHARDS.min(clients);
        let shard = |index| {
            let recorder = Recorder::new(window.from, window.until, false, seconds.clone());
            let clients = share(clients.into(), index, shards) as u32;
            Shard {
                window,
                recorder: Mutex::new(Some(recorder)),
                left: clients.into(),
                used: AtomicU64::new(0),
                live: Arc::default(),
            }
        };
        held.extend((0..shards).map(shard));
        let live: Vec<_> = held.iter().map(|shard| shard.live.clone()).collect();
        drop(held);
        let watch = Watch { schedule: window, live, cancel: cancel.clone(), link: None };
        Ok((window, watch.follow(&reports, &seconds_received, observer)?))
    })
}

impl Job {
    fn new(plan: &Plan, cancel: &Switch) -> Result<Self, Error> {
        let Plan { connections, threads, stop, warmup_s, timeout_s, close, sources, processes, .. } = *plan;
        let able = Plan { connections, threads, stop, warmup_s, timeout_s, close, ..Plan::new(&plan.url) };
        if (Plan { sources, processes, cpus: plan.cpus.clone(), ..able }) != *plan
            || !matches!(stop, Stop::Seconds(_))
        {
            let text =
                "clients that block can do nothing but ask for one page again and again for some seconds";
            return Err(Error::Plan(text.into()));
        }
        limits::of_mappings(connections, processes)?;
        let Common { target, address, .. } = Common::new(plan, cancel)?;
        Ok(Job {
            address,
            sources,
            first: 0,
            request: target.request_of_1_0(),
            timeout: Duration::from_secs_f64(timeout_s),
            cancel: cancel.clone(),
            shards: RwLock::default(),
        })
    }

    /// One client, from when all are there to the end of the load.
    fn client(&self, index: u32, report: &Sender<Result<Part, Error>>) {
        let shards = self.shards.read().unwrap_or_else(PoisonError::into_inner);
        let Some(shard) = shards.get(((index - self.first) % SHARDS) as usize) else { return };
        // From its first request that begins while measuring to the end of the last: one that was under way at the start counts in
        // place of the one that is under way at the end.
        let mut begun = None;
        loop {
            match shard.window.phase(Instant::now(), &self.cancel) {
                Phase::Warmup => {}
                Phase::Measuring => begun = begun.or_else(|| Some(clock::of_thread())),
                Phase::Draining => break,
            }
            let sent = Instant::now();
            let mut phases = Phases::default();
            let answer = self.ask(index, sent, &mut phases);
            let times = Times { due: sent, sent, end: Instant::now(), phases };
            if let Some(recorder) = &mut *locked(&shard.recorder) {
                match answer {
                    Ok((code, bytes)) => recorder.response(code, bytes, &times),
                    Err(fault) => recorder.fault(fault, &times),
                }
                shard.live.ended(answer.is_ok());
            }
            if answer.is_err() && phases.connect.is_none() {
                thread::sleep(BACK_OFF);
            }
        }
        let used = begun.map_or(Duration::ZERO, |begun| clock::of_thread() - begun);
        shard.used.fetch_add(used.as_nanos() as u64, Ordering::Relaxed);
        if shard.left.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(mut recorder) = locked(&shard.recorder).take()
        {
            if self.cancel.is_set() {
                recorder.cut_off(Instant::now());
            }
            // Nobody listens any more once the load has failed.
            let cpu = Duration::from_nanos(shard.used.load(Ordering::Relaxed));
            let _ = report.send(Ok(Part { recorded: recorder.finish(), cpu, cpu_share: 0.0 }));
        }
    }

    /// Connects, asks, and reads to the end; the status of the answer, and its bytes.
    fn ask(&self, index: u32, start: Instant, phases: &mut Phases) -> Result<(u16, u64), Fault> {
        let mut stream = self.connect(index)?;
        phases.connect = Some(start.elapsed());
        stream.write_all(&self.request).map_err(|error| fault(&error, Fault::SendTimeout))?;
        let (mut piece, mut received, mut answer) = ([0; PIECE], 0, Reading::default());
        loop {
            let late = if received == 0 { Fault::FirstByteTimeout } else { Fault::TransferTimeout };
            match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(_) | Err(_) if start.elapsed() > self.timeout => return Err(late),
                Ok(count) => {
                    if received == 0 {
                        phases.first_byte = Some(start.elapsed());
                    }
                    answer.take(&piece[..count])?;
                    received += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(fault(&error, late)),
            }
        }
        if received == 0 {
            return Err(Fault::ClosedEarly);
        }
        Ok((answer.end()?, received))
    }

    fn connect(&self, index: u32) -> Result<TcpStream, Fault> {
        let from = (self.sources > 0).then(|| source(index % self.sources));
        let socket = socket(self.address, SocketFlags::empty(), from)?;
        // That of sending is that of connecting too (socket(7)).
        for which in [Timeout::Send, Timeout::Recv] {
            set_socket_timeout(&socket, which, Some(self.timeout)).map_err(|_| Fault::ConnectFailed)?;
        }
        match connect(&socket, &self.address) {
            Ok(()) => Ok(socket.into()),
            Err(Errno::CONNREFUSED) => Err(Fault::ConnectRefused),
            Err(Errno::INPROGRESS | Errno::TIMEDOUT) => Err(Fault::ConnectTimeout),
            Err(_) => Err(Fault::ConnectFailed),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an error of a connection is, where running out of time means `late`.
fn fault(error: &io::Error, late: Fault) -> Fault {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => late,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => Fault::Reset,
        _ => Fault::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_such_clients_cannot_make_is_refused() {
        let refused = |plan: &Plan| {
            run(Path::new(""), &[], plan, &Switch::default(), &mut |_| {}).unwrap_err().to_string()
        };
        let plan = Plan { stop: Stop::Seconds(1.0), ..Plan::new("http://127.0.0.1:1/") };
        assert!(
            refused(&Plan { pipeline: 2, ..plan.clone() })
                .starts_with("clients that block can do nothing but")
        );
        assert!(refused(&Plan { stop: Stop::Requests(1), ..plan }).starts_with("clients that block can do"));
    }
}
