//! A server under test as a process: started pinned, waited for until it answers, and never left behind.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::plan::Target;

/// How long a server may take until it answers its first request.
const READY: Duration = Duration::from_secs(10);

/// How long a server may take to stop after SIGTERM, before SIGKILL.
const STOP: Duration = Duration::from_secs(5);

/// Time between two looks at a server that starts or stops.
const LOOK: Duration = Duration::from_millis(10);

/// A server that runs.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

/// What is filled in for the words of a command.
pub(crate) struct Places<'a> {
    /// The directory that is served.
    pub(crate) root: &'a Path,
    /// A directory for the server's own files.
    pub(crate) dir: &'a Path,
    /// This program.
    pub(crate) program: &'a Path,
}

impl Places<'_> {
    fn fill(&self, text: &str, port: u16) -> String {
        let bin_dir = self.program.parent().unwrap_or(Path::new("."));
        text.replace("{port}", &port.to_string())
            .replace("{root}", &self.root.display().to_string())
            .replace("{dir}", &self.dir.display().to_string())
            .replace("{bin_dir}", &bin_dir.display().to_string())
    }

    fn command(&self, target: &Target, port: u16) -> Vec<String> {
        match &target.model {
            Some(model) => {
                let listen = format!("127.0.0.1:{port}");
                let own = [&self.program.display().to_string(), "serve", &self.root.display().to_string()];
                let flags = ["--listen", &listen, "--model", model];
                own.into_iter().chain(flags).map(String::from).chain(target.args.iter().cloned()).collect()
            }
            None => target.command.iter().map(|word| self.fill(word, port)).collect(),
        }
    }
}

impl Server {
    /// Starts a target and waits until it answers a request for `path`.
    ///
    /// # Errors
    /// Why it does not serve, in words; nothing is left running.
    pub(crate) fn start(
        target: &Target,
        places: &Places<'_>,
        cpus: &[usize],
        path: &str,
    ) -> Result<Self, String> {
        let port = free_port().map_err(|error| format!("no free port: {error}"))?;
        fs::create_dir_all(places.dir).map_err(|error| format!("{}: {error}", places.dir.display()))?;
        for (name, content) in &target.config {
            let file = places.dir.join(name);
            fs::write(&file, places.fill(content, port))
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let words = places.command(target, port);
        let log = places.dir.join("log");
        let child = spawn(&words, &log, cpus).map_err(|error| match (error.kind(), &target.install) {
            (io::ErrorKind::NotFound, Some(install)) => format!("{} is not installed: {install}", words[0]),
            _ => format!("{} cannot be started: {error}", words[0]),
        })?;
        let mut server = Server { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), log };
        server.wait_until_ready(path)?;
        Ok(server)
    }

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

    fn wait_until_ready(&mut self, path: &str) -> Result<(), String> {
        let start = Instant::now();
        loop {
            self.check()?;
            if answers(self.address, path).is_ok() {
                return Ok(());
            }
            if start.elapsed() > READY {
                return Err(format!(
                    "the server answers nothing after {} s{}",
                    READY.as_secs(),
                    self.last_words()
                ));
            }
            thread::sleep(LOOK);
        }
    }

    /// The end of what the server printed, for an error message.
    fn last_words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text[text.len().saturating_sub(500)..]).trim().to_string();
        if text.is_empty() { String::new() } else { format!("; it said: {text}") }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            // It may be gone already, which is what is wanted.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Server {
    /// Stops the server and all its children: asked first, then made.
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let start = Instant::now();
        while start.elapsed() < STOP && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(LOOK);
        }
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Starts a process in a group of its own, on the given cores.
fn spawn(words: &[String], log: &Path, cpus: &[usize]) -> io::Result<Child> {
    let log = File::create(log)?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    if cpus.is_empty() {
        return command.spawn();
    }
    // A child inherits the cores of the thread that starts it, so this thread goes there for a moment.
    let own = sched_getaffinity(None)?;
    let mut set = CpuSet::new();
    cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set)?;
    let child = command.spawn();
    sched_setaffinity(None, &own)?;
    child
}

/// Whether a request gets an answer below 500.
fn answers(address: SocketAddr, path: &str) -> io::Result<()> {
    let patience = Duration::from_secs(1);
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    match &head {
        b"HTTP/1.1 500" => Err(io::Error::other("500")),
        [b'H', b'T', b'T', b'P', ..] if head[9] < b'5' => Ok(()),
        _ => Err(io::Error::other("not an answer below 500")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> Result<Server, String> {
        let dir = tempfile::tempdir().unwrap();
        let text =
            format!("name = \"x\"\ncommand = [\"sh\", \"-c\", {script:?}]\ninstall = \"apt-get install x\"");
        let target: Target = toml::from_str(&text).unwrap();
        let places = Places { root: dir.path(), dir: dir.path(), program: Path::new("/nowhere/plimsoll") };
        Server::start(&target, &places, &[], "/")
    }

    #[test]
    fn a_server_that_dies_is_reported_with_its_last_words() {
        let error = start("echo cannot bind; exit 3").err().unwrap();
        assert_eq!(error, "the server ended (exit status: 3); it said: cannot bind");
    }

    #[test]
    fn a_server_that_is_not_installed_is_reported_with_the_command_that_installs_it() {
        let dir = tempfile::tempdir().unwrap();
        let target: Target =
            toml::from_str("name = \"x\"\ncommand = [\"no-such-server\"]\ninstall = \"apt-get install x\"")
                .unwrap();
        let places = Places { root: dir.path(), dir: dir.path(), program: Path::new("/nowhere/plimsoll") };
        let error = Server::start(&target, &places, &[], "/").err().unwrap();
        assert_eq!(error, "no-such-server is not installed: apt-get install x");
    }

    #[test]
    fn stopping_ends_the_children_too_even_those_that_ignore_it() {
        let dir = tempfile::tempdir().unwrap();
        let pids = dir.path().join("pids");
        let script =
            format!("trap '' TERM; sleep 600 & echo $! > {0}; echo ready >> {0}; wait", pids.display());
        let words: Vec<String> = ["sh", "-c", &script].map(String::from).to_vec();
        let child = spawn(&words, &dir.path().join("log"), &[]).unwrap();
        let server = Server { child, address: ([127, 0, 0, 1], 1).into(), log: dir.path().join("log") };
        while !fs::read_to_string(&pids).unwrap_or_default().contains("ready") {
            thread::sleep(LOOK);
        }
        let sleeper = fs::read_to_string(&pids).unwrap().lines().next().unwrap().to_string();
        drop(server);
        // A zombie that waits for its new parent has ended too.
        let state = fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    }
}
