//! System calls that fail: strace(1) makes them, in a server that is running.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Client, PATIENCE, Server, at_once, has, site, until};

const EVENT_DRIVEN: [&[&str]; 3] = [
    &["--model", "reactor"],
    &["--model", "multi-reactor-pool"],
    &["--model", "reuseport", "--spread", "shared"],
];

const THREADS: [&[&str]; 2] = [&["--model", "thread-pool"], &["--model", "thread-per-connection"]];

const RINGS: [&[&str]; 2] = [&["--model", "proactor"], &["--model", "proactor-pool"]];

/// Makes system calls of a process fail, or counts them, until it is dropped.
pub(crate) struct Injection(Child);

impl Injection {
    /// Every third of these calls, in each thread, fails with this error instead of being made. Only up to the fifteenth: the
    /// tracer, when it lets go in the middle of one that is to fail, leaves it failed with ENOSYS, which no kernel does.
    fn into(server: &Server, call: &str, error: &str) -> Self {
        Injection::at(server, call, error, "1..15+3")
    }

    /// The calls with these numbers fail.
    fn at(server: &Server, call: &str, error: &str, when: &str) -> Self {
        let (trace, inject) = (format!("trace={call}"), format!("inject={call}:error={error}:when={when}"));
        Injection::with(server, &["-o", "/dev/null", "-e", &trace, "-e", &inject])
    }

    /// Attaches strace with these arguments.
    pub(crate) fn with(server: &Server, args: &[&str]) -> Self {
        let mut strace = Command::new("strace")
            .arg("-f")
            .args(args)
            .args(["-p", &server.pid().to_string()])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(strace.stderr.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains("attached"), "{line}");
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Injection(strace)
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Whether system calls can be made to fail here: strace is installed, and the machine lets it trace.
pub(crate) fn can_inject() -> bool {
    if !has("strace", "strace") {
        return false;
    }
    let output = Command::new("strace").args(["-o", "/dev/null", "true"]).output().unwrap();
    if !output.status.success() {
        eprintln!("skipped: no tracing here: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

/// One request on a new connection; `None` if the connection broke instead.
fn try_get(server: &Server, path: &str) -> Option<Vec<u8>> {
    let mut stream = Client::connect(server.address).0;
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let body = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let whole = answer.starts_with(b"HTTP/1.1 200 ") && answer.len() > body;
    whole.then(|| answer.split_off(body))
}

/// Injects one failure into each of the servers, side by side, since some wait a moment before they go on, and says how many of the requests on new connections were answered.
fn survive(models: &[&[&str]], call: &str, error: &str, all_answered: bool) {
    at_once(models, |root, flags| {
        let server = Server::start(root, flags);
        let mut kept = server.connect();
        assert_eq!(kept.get("/1k.html").status, 200);
        let injection = Injection::into(&server, call, error);
        let start = Instant::now();
        let answered =
            (0..24).filter(|_| try_get(&server, "/1k.html").is_some_and(|body| body.len() == 1024)).count();
        let large = try_get(&server, "/large.bin").is_some_and(|body| body.len() == 20 << 20);
        assert!(start.elapsed() < PATIENCE, "{flags:?} {call} {error}: it took {:?}", start.elapsed());
        if all_answered {
            assert!(answered == 24 && large, "{flags:?} {call} {error}: {answered} of 24, large: {large}");
        }
        drop(injection);
        // Whatever it did to single connections, the server lives, and so does who had nothing to do with it.
        for _ in 0..5 {
            assert!(try_get(&server, "/1k.html").is_some(), "{flags:?} {call} {error}");
        }
        // A thread that waits in the very call is hit too, and who is idle makes room where there are no descriptors.
        let stays = all_answered || !flags[1].starts_with("thread");
        if stays && !["EMFILE", "ENFILE"].contains(&error) {
            assert_eq!(kept.get("/1k.html").status, 200, "{flags:?} {call} {error}");
        }
        server.stop();
    });
}

#[test]
fn interrupted_calls_are_made_again() {
    if !can_inject() {
        return;
    }
    for call in ["accept4", "recvfrom", "sendto", "sendfile", "epoll_pwait"] {
        survive(&EVENT_DRIVEN, call, "EINTR", true);
    }
    for call in ["accept4", "recvfrom", "sendto", "sendfile"] {
        survive(&THREADS, call, "EINTR", true);
    }
    survive(&RINGS, "io_uring_enter", "EINTR", true);
}

#[test]
fn accepting_goes_on_after_it_failed() {
    if !can_inject() {
        return;
    }
    let models = [&EVENT_DRIVEN[..], &THREADS].concat();
    for error in ["ECONNABORTED", "EMFILE", "ENFILE", "ENOMEM"] {
        survive(&models, "accept4", error, true);
    }
}

#[test]
fn a_failed_receive_or_send_costs_one_connection_and_not_the_server() {
    if !can_inject() {
        return;
    }
    let models = [&EVENT_DRIVEN[..], &THREADS].concat();
    for (call, error) in
        [("recvfrom", "ENOMEM"), ("sendto", "ENOMEM"), ("sendto", "ECONNRESET"), ("sendfile", "EIO")]
    {
        survive(&models, call, error, false);
    }
}

#[test]
fn a_kernel_short_of_memory_is_asked_again() {
    if !can_inject() {
        return;
    }
    for error in ["EAGAIN", "ENOMEM", "EBUSY"] {
        survive(&RINGS, "io_uring_enter", error, true);
    }
}

#[test]
fn files_that_cannot_be_opened_for_want_of_descriptors_are_503_and_not_404() {
    if !can_inject() {
        return;
    }
    let site = site();
    for flags in [EVENT_DRIVEN[0], THREADS[0], RINGS[0]] {
        let server = Server::start(site.path(), flags);
        let injection = Injection::into(&server, "openat2", "EMFILE");
        let statuses: Vec<u16> = (0..9).map(|_| server.connect().get("/large.bin").status).collect();
        assert!(
            statuses.contains(&503) && statuses.iter().all(|status| [200, 503].contains(status)),
            "{statuses:?}"
        );
        drop(injection);
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(server.connect().get("/large.bin").status, 200);
        server.stop();
    }
}

#[test]
fn a_file_that_is_held_back_is_503_and_not_asked_for_without_end() {
    if !can_inject() {
        return;
    }
    let site = site();
    for flags in [EVENT_DRIVEN[0], THREADS[0], RINGS[0]] {
        let server = Server::start(site.path(), flags);
        // As a lease does, and as renames without end would.
        let injection = Injection::at(&server, "openat2", "EAGAIN", "1+");
        for _ in 0..3 {
            let answer = server.connect().get("/large.bin");
            assert_eq!((answer.status, answer.field("Retry-After")), (503, Some("1")), "{flags:?}");
        }
        drop(injection);
        until("it can be opened again", || server.connect().get("/large.bin").status == 200);
        server.stop();
    }
}

#[test]
fn a_file_is_sent_though_the_one_compressed_beforehand_cannot_be_read() {
    if !can_inject() {
        return;
    }
    let site = site();
    std::fs::write(site.path().join("large.bin.br"), vec![b'b'; 20_000]).unwrap();
    let request = "HEAD /large.bin HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n";
    let ask = |server: &Server| {
        let answer = server.connect().send(request).head_of_answer();
        (answer.status, answer.field("Content-Length").unwrap().to_owned())
    };
    for flags in [EVENT_DRIVEN[0], THREADS[0], RINGS[0]] {
        let server = Server::start(site.path(), flags);
        assert_eq!(ask(&server), (200, "20000".into()), "{flags:?}");
        // Both are too large to be kept in memory, so each request opens the file, and then what is beside it.
        for error in ["EACCES", "EIO"] {
            let _injection = Injection::at(&server, "openat2", error, "2+2");
            for _ in 0..3 {
                assert_eq!(ask(&server), (200, (20 << 20).to_string()), "{flags:?} {error}");
            }
        }
        let said = server.stop();
        assert_eq!(said.matches("since it cannot be read").count(), 1, "{said}");
    }
}
