//! A server under test as a process: started pinned, waited for until it answers, and never left behind.

mod watchdog;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::child::with_all_signals;
use load::Switch;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::thread::{CpuSet, sched_setaffinity};

use self::watchdog::{MARK, Watchdog, marked};
use crate::command::Places;
use crate::plan::Target;
use load::sample::{Process, tree};

/// How long a server may take until it answers its first request.
const READY: Duration = Duration::from_secs(10);

/// How long a server may take to stop after SIGTERM, before SIGKILL.
const STOP: Duration = Duration::from_secs(5);

/// How long processes may take to be gone after SIGKILL.
const GONE: Duration = Duration::from_secs(1);

/// Time between two looks at a server that starts or stops.
const LOOK: Duration = Duration::from_millis(10);

/// A server that runs.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    watchdog: Watchdog,
}

/// How a server is started.
pub(crate) struct Start<'a> {
    /// What is started.
    pub(crate) target: &'a Target,
    /// Where its files are.
    pub(crate) places: Places<'a>,
    /// The cores it may use.
    pub(crate) cores: &'a CpuSet,
    /// What is asked for to see whether it answers.
    pub(crate) path: &'a str,
    /// Ends the waiting.
    pub(crate) cancel: &'a Switch,
}

impl Start<'_> {
    /// Starts the target and waits until it answers a request.
    ///
    /// # Errors
    /// Why it does not serve, in words; nothing is left running.
    pub(crate) fn start(&self) -> Result<Server, String> {
        let Start { target, places, .. } = self;
        let said = |path: &Path, error| format!("{}: {error}", path.display());
        fs::create_dir_all(places.dir).map_err(|error| said(places.dir, error))?;
        for (name, content) in &target.config {
            let file = places.dir.join(name);
            fs::write(&file, places.fill(content)).map_err(|error| said(&file, error))?;
        }
        let (file, words) = places.command(target)?;
        let log = places.dir.join("log");
        let watchdog = Watchdog::start().map_err(|error| format!("sh cannot be started: {error}"))?;
        let child = spawn(&file, &words, &log, self.cores, &watchdog)
            .map_err(|error| format!("{} cannot be started: {error}", file.display()))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, places.port));
        let mut server = Server { child, address, log, watchdog };
        server.wait_until_ready(self.path, self.cancel)?;
        Ok(server)
    }
}

impl Server {
    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process that was started; its children belong to the server too.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs; if not, how it ended.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("the server ended ({status}){}", self.last_words())),
            Err(error) => Err(format!("the server cannot be watched: {error}")),
        }
    }

    fn wait_until_ready(&mut self, path: &str, cancel: &Switch) -> Result<(), String> {
        let start = Instant::now();
        let mut answer = answers(self.address, path);
        while let Err(refusal) = answer {
            self.check()?;
            if cancel.is_set() {
                return Err("interrupted".into());
            }
            if start.elapsed() > READY {
                let patience = READY.as_secs();
                return Err(format!(
                    "the server does not serve after {patience} s: {refusal}{}",
                    self.last_words()
                ));
            }
            thread::sleep(LOOK);
            answer = answers(self.address, path);
        }
        // Another server may have been there first, and answered in its place.
        thread::sleep(LOOK);
        self.check()
    }

    /// The end of what the server printed, for an error message.
    fn last_words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text[text.len().saturating_sub(500)..]).trim().to_string();
        if text.is_empty() { String::new() } else { format!("; it said: {text}") }
    }

    fn signal(&self, signal: Signal) {
        // It may be gone already, which is what is wanted.
        let _ = kill_process_group(self.watchdog.group(), signal);
    }
}

impl Drop for Server {
    /// Stops the server and all its processes: asked first, then made.
    fn drop(&mut self) {
        // Remembered before any of them ends, since those outside of the group are found by their parents, or by their mark.
        let mut members = tree(self.pid());
        let mut others = marked(self.watchdog.mark());
        others.retain(|pid| members.iter().all(|member| member.pid != *pid));
        members.extend(others.into_iter().flat_map(tree));
        self.signal(Signal::TERM);
        let start = Instant::now();
        while start.elapsed() < STOP && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(LOOK);
        }
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        kill_and_wait(&members);
    }
}

/// Kills what still runs of these processes, so that nothing of them disturbs the next run.
pub(crate) fn kill_and_wait(members: &[Process]) {
    let start = Instant::now();
    loop {
        let left: Vec<_> = members.iter().filter(|member| member.runs()).collect();
        if left.is_empty() || start.elapsed() > GONE {
            return;
        }
        for member in left {
            let _ = Pid::from_raw(member.pid as i32).map(|pid| kill_process(pid, Signal::KILL));
        }
        thread::sleep(LOOK);
    }
}

/// A port that nobody listens on, outside of those that the kernel gives to outgoing connections where there are others: of
/// those, the load could be given the server's own, or a look at a server that is not there yet could connect to itself.
pub(crate) fn free_port() -> Result<u16, String> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().map_while(|end| end.parse().ok());
    free_port_outside(ends.next().unwrap_or(32_768)..=ends.next().unwrap_or(60_999))
}

/// The same where the kernel takes these ports for outgoing connections.
fn free_port_outside(range: RangeInclusive<u16>) -> Result<u16, String> {
    /// Services that belong to a host have lower ones.
    const FIRST: u16 = 20_000;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let others: Vec<u16> = (FIRST..=u16::MAX).filter(|port| !range.contains(port)).collect();
    // Labs that run at the same time begin at different ports.
    let own = std::process::id() as usize * 37;
    for _ in &others {
        let port = others[own.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % others.len()];
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    // The kernel has all of them: it knows one that is free.
    let any = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    any.map(|address| address.port()).map_err(|error| format!("no port is free: {error}"))
}

/// Starts a process in the group of its watchdog and with its mark, on the given cores.
fn spawn(
    file: &Path,
    words: &[String],
    log: &Path,
    cores: &CpuSet,
    watchdog: &Watchdog,
) -> io::Result<Child> {
    let log = File::create(log)?;
    let mut command = Command::new(file);
    command.args(words).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.process_group(watchdog.group().as_raw_nonzero().get()).env(MARK, watchdog.mark());
    // This process waits for the signals that ask for an end, and has blocked them.
    with_all_signals(&mut command);
    // A child inherits the cores of the thread that starts it, so a thread of its own goes there first.
    let start = move || {
        sched_setaffinity(None, cores)?;
        command.spawn()
    };
    thread::scope(|scope| scope.spawn(start).join())
        .unwrap_or_else(|_| Err(io::Error::other("the thread that starts it panicked")))
}

/// Whether a request gets an answer below 500.
fn answers(address: SocketAddr, path: &str) -> io::Result<()> {
    let patience = Duration::from_secs(1);
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    let head = String::from_utf8_lossy(&head);
    match head
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.get(2..))
        .and_then(|code| code.parse::<u16>().ok())
    {
        Some(code) if code < 500 => Ok(()),
        Some(code) => Err(io::Error::other(format!("it answers with status {code}"))),
        None => Err(io::Error::other(format!("it answers with something else than HTTP/1: {head:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_outside_of_those_of_outgoing_connections_where_there_are_others() {
        let two = |range: RangeInclusive<u16>| [(); 2].map(|()| free_port_outside(range.clone()).unwrap());
        let [one, other] = two(32_768..=60_999);
        assert!(
            one != other && [one, other].iter().all(|port| (20_000..32_768).contains(port) || *port > 60_999)
        );
        // Behind them, where they begin low.
        assert!(two(1_024..=60_999).iter().all(|port| *port > 60_999));
        // The kernel may use all: any that is free will do.
        assert!(two(1_024..=65_535).iter().all(|port| *port >= 1_024));
    }
}
