//! A server process under test, a site for it, and a client that sees exact bytes.

use std::fmt::Display;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The flags of every architecture there is; each test of behaviour runs on all of them.
pub(crate) const MODELS: [&[&str]; 14] = [
    &["--model", "auto"],
    &["--model", "thread-per-connection"],
    &["--model", "thread-pool"],
    &["--model", "reactor"],
    &["--model", "reactor-pool"],
    &["--model", "multi-reactor"],
    &["--model", "multi-reactor-pool", "--queue", "lock-free"],
    &["--model", "multi-reactor", "--balance", "least-busy", "--spread", "acceptor"],
    &["--model", "reuseport", "--reactors", "3"],
    &["--model", "reuseport", "--spread", "shared"],
    &["--model", "reuseport-pool", "--workers", "3", "--queue", "stealing"],
    &["--model", "proactor"],
    &["--model", "proactor-pool", "--order", "priority"],
    &["--model", "multi-reactor", "--driver", "uring", "--balance", "two-choices"],
];

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The program.
pub(crate) fn plimsoll() -> Command {
    Command::new(env!("CARGO_BIN_EXE_plimsoll"))
}

/// A server that runs as a process of its own.
pub(crate) struct Server {
    child: Child,
    /// `None` once nobody listens to it any more.
    log: Option<BufReader<ChildStderr>>,
    pub(crate) address: SocketAddr,
    /// What it said before it served.
    pub(crate) said: String,
    stopped: bool,
}

impl Server {
    /// Serves a directory on a free port.
    pub(crate) fn start(root: &Path, flags: &[&str]) -> Self {
        let mut command = plimsoll();
        command.arg("serve").arg(root).args(["--listen", "127.0.0.1:0"]).args(flags);
        Server::spawn(command)
    }

    /// Starts a command that ends up serving, and waits until it says where.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "the server ended: {said}");
            if let Some(url) = line.strip_prefix("listening on http://") {
                break url.trim_end().trim_end_matches('/').parse().unwrap();
            }
            said.push_str(&line);
        };
        Server { child, log: Some(log), address, said, stopped: false }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), signal).unwrap();
    }

    /// Closes the pipe that it writes its messages to.
    pub(crate) fn hang_up(&mut self) {
        self.log = None;
    }

    /// Whether its process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Stops it in order and returns the rest of what it said.
    pub(crate) fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits for its end, which must be an orderly one.
    pub(crate) fn wait(&mut self) -> String {
        self.stopped = true;
        let mut said = String::new();
        if let Some(log) = &mut self.log {
            log.read_to_string(&mut said).unwrap();
        }
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status} (signal {:?}): {said}", status.signal());
        said
    }

    /// Where the operator connects, if it was started with `--admin`.
    pub(crate) fn admin(&self) -> SocketAddr {
        let line = self.said.lines().find(|line| line.trim_start().starts_with("admin")).unwrap();
        let url = line.split_whitespace().nth(1).unwrap();
        url.trim_start_matches("http://").trim_end_matches('/').parse().unwrap()
    }

    /// What it tells the operator.
    pub(crate) fn metrics(&self) -> Value {
        serde_json::from_slice(&Client::connect(self.admin()).get("/metrics.json").body).unwrap()
    }

    /// The first sample of that, as Prometheus reads it, with this in its line.
    pub(crate) fn sample(&self, part: &str) -> String {
        let page = Client::connect(self.admin()).get("/metrics").text();
        page.lines().find(|line| !line.starts_with('#') && line.contains(part)).expect(part).to_owned()
    }

    /// A connection to it.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Bytes of memory that are really there.
    pub(crate) fn resident(&self) -> u64 {
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.pid())).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64
    }

    /// Processor time it has used so far.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.stopped {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A client that sends what it is told and sees what comes.
pub(crate) struct Client(pub(crate) TcpStream);

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (other, value) = line.split_once(": ")?;
            other.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client(stream)
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.0.write_all(bytes.as_ref()).unwrap();
        self
    }

    /// Sends a request for a path and reads its answer.
    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n")).answer()
    }

    /// Reads one answer by its Content-Length.
    pub(crate) fn answer(&mut self) -> Answer {
        let mut answer = self.head_of_answer();
        let length = answer.field("Content-Length").expect("an answer has a length").parse().unwrap();
        answer.body.resize(length, 0);
        self.0.read_exact(&mut answer.body).unwrap();
        answer
    }

    /// Reads the head of an answer and nothing more.
    pub(crate) fn head_of_answer(&mut self) -> Answer {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            assert_eq!(self.0.read(&mut byte).unwrap(), 1, "the connection ended in a head: {head:?}");
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        Answer { status: head[9..12].parse().unwrap(), head, body: Vec::new() }
    }

    /// Everything up to the end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).unwrap();
        rest
    }
}

/// A site with something of everything.
pub(crate) fn site() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::create_dir_all(root.join("files")).unwrap();
    let page = "<!doctype html><title>loading</title><link rel=stylesheet href=style.css><script src=app.js></script>\
                <img src=dot.svg onload=\"document.title = 'loaded ' + greeting + ' ' + \
                getComputedStyle(document.body).color\"><p>hello</p>";
    fs::write(root.join("index.html"), page).unwrap();
    fs::write(root.join("style.css"), "body { color: rgb(1, 2, 3) }").unwrap();
    fs::write(root.join("app.js"), "const greeting = 'hi';").unwrap();
    let dot = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"><circle cx=\"4\" cy=\"4\" r=\"4\"/></svg>";
    fs::write(root.join("dot.svg"), dot).unwrap();
    fs::write(root.join("sub/index.html"), "<h1>sub</h1>").unwrap();
    fs::write(root.join("1k.html"), "k".repeat(1024)).unwrap();
    fs::write(root.join("empty"), "").unwrap();
    fs::write(root.join("text.txt"), "all work and no play, ".repeat(500)).unwrap();
    fs::write(root.join("files/größe 100%.txt"), "named").unwrap();
    fs::write(root.join("large.bin"), large()).unwrap();
    // Settled, so that they have their dates.
    let settled = SystemTime::now() - Duration::from_secs(3600);
    let settle = [
        "index.html",
        "style.css",
        "app.js",
        "dot.svg",
        "1k.html",
        "empty",
        "text.txt",
        "large.bin",
        "sub/index.html",
    ];
    for name in settle {
        fs::File::options().write(true).open(root.join(name)).unwrap().set_modified(settled).unwrap();
    }
    dir
}

/// Twenty MiB without a pattern that a shifted copy would share.
pub(crate) fn large() -> &'static [u8] {
    // Made once: it takes longer than many a test.
    static LARGE: OnceLock<Vec<u8>> = OnceLock::new();
    LARGE.get_or_init(|| {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..20 << 20).map(|_| next()).collect()
    })
}

/// Runs a test on every model.
pub(crate) fn on_every_model(test: impl Fn(&Server)) {
    on_each(&MODELS, test);
}

/// Runs a test on a model of each driver, and on those with workers: for clients that take seconds to start.
pub(crate) fn on_every_driver(test: impl Fn(&Server)) {
    on_each(&[MODELS[0], MODELS[2], MODELS[3], MODELS[6], MODELS[12]], test);
}

fn on_each(models: &[&[&str]], test: impl Fn(&Server)) {
    let site = site();
    for flags in models {
        let server = Server::start(site.path(), flags);
        test(&server);
        server.stop();
    }
}

/// Runs a test on several models side by side: for tests that wait, and do not measure how quick the server is.
pub(crate) fn at_once<'a>(models: &[&'a [&'a str]], test: impl Fn(&Path, &'a [&'a str]) + Sync) {
    let (site, test) = (site(), &test);
    thread::scope(|scope| {
        for flags in models {
            let root = site.path();
            scope.spawn(move || test(root, flags));
        }
    });
}

/// Whether a client is installed. Where it is not the test is skipped and says so, or fails if the clients are
/// required, as they are under `make test`.
pub(crate) fn has(client: &str, package: &str) -> bool {
    let found =
        Command::new("sh").args(["-c", &format!("command -v {client}")]).stdout(Stdio::null()).status();
    found.unwrap().success() || is_missing(client, package)
}

/// False, and what that means for a test.
pub(crate) fn is_missing(client: &str, package: &str) -> bool {
    let required = std::env::var_os("PLIMSOLL_REQUIRE_CLIENTS").is_some();
    assert!(!required, "{client} is not installed: apt-get install {package}");
    eprintln!("skipped: {client} is not installed: apt-get install {package}");
    false
}

/// Waits until something holds; if it never does, says what.
pub(crate) fn until(what: impl Display, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "it never came to this: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A load on a URL, whose result is JSON.
pub(crate) fn bench(url: &str, args: &[&str]) -> Command {
    let mut command = plimsoll();
    command.args(["bench", url, "--json", "-", "--quiet"]).args(args);
    command
}

/// Runs a command to its end and reads the JSON that it printed; it must succeed.
pub(crate) fn json_of(command: &mut Command) -> Value {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs a command that must fail: its exit status and what it said.
pub(crate) fn failed(command: &mut Command) -> (i32, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success(), "{command:?} succeeded: {output:?}");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Runs a command to its end and returns what it printed; it must succeed.
pub(crate) fn output_of(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {text}", output.status);
    text
}
