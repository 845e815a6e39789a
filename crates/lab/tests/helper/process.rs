//! For tests: a server of one thread per connection that can also misbehave, and a lab that can be killed.
//!
//! `lab-test-helper serve PORT [MODE]` with MODE `ok`, `error` (status 500), `deaf` (accepts, never answers),
//! `late` (listens after a while), `mortal` (ends while it is loaded), `hangs-N` (answers N requests and then none), `talks-N`
//! (answers N requests and then with what is no HTTP), `holds-N` (has N connections at most and closes others)
//! or `dies-N` (ends when it has N connections); `lab-test-helper lab PLAN OUT` runs an experiment.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs, process};

/// Requests that a mortal server answers.
const LIFE: u32 = 500;

/// What is no answer of HTTP.
const NONSENSE: &[u8] = b"all work and no play makes jack a dull boy\r\n\r\n";

/// Requests that came so far.
static ANSWERED: AtomicU32 = AtomicU32::new(0);

/// Connections that are open.
static OPEN: AtomicU32 = AtomicU32::new(0);

/// How long a connection that is one too many may wait for those that are just ending.
const ENDING: Duration = Duration::from_millis(50);

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", port] => serve(port, "ok"),
        ["serve", port, mode] => serve(port, mode),
        ["lab", plan, out] => lab(plan, out),
        _ => process::exit(2),
    }
}

fn serve(port: &str, mode: &str) {
    println!("serving in mode {mode}");
    if mode == "late" {
        thread::sleep(Duration::from_millis(300));
    }
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
    for stream in listener.incoming().flatten() {
        let mode = mode.to_string();
        if is_full(&mode) {
            continue;
        }
        OPEN.fetch_add(1, Ordering::SeqCst);
        thread::spawn(move || {
            answer(stream, &mode);
            OPEN.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// The number behind this word of a mode; without it there is no limit.
fn most(mode: &str, word: &str) -> u32 {
    mode.strip_prefix(word).and_then(|most| most.parse().ok()).unwrap_or(u32::MAX)
}

/// Whether there are as many connections as there may be, and stay so for a while. One that dies of as many ends.
fn is_full(mode: &str) -> bool {
    let (holds, dies) = (most(mode, "holds-"), most(mode, "dies-"));
    let start = Instant::now();
    while OPEN.load(Ordering::SeqCst) >= holds.min(dies - 1) {
        if start.elapsed() > ENDING && dies < u32::MAX {
            eprintln!("this was one too many");
            process::exit(7);
        }
        if start.elapsed() > ENDING {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

fn answer(mut stream: TcpStream, mode: &str) {
    let status = if mode == "error" { "500 Internal Server Error" } else { "200 OK" };
    // ab asks with HTTP/1.0, and takes the end of an answer that does not promise to go on for that of the connection.
    let response = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok");
    let mut buffer = [0; 4096];
    // The load waits for each answer, so that a read brings one whole request.
    while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
        if mode == "deaf" {
            thread::sleep(Duration::from_secs(600));
        }
        let before = ANSWERED.fetch_add(1, Ordering::Relaxed);
        if mode == "mortal" && before == LIFE {
            eprintln!("this was my last request");
            process::exit(7);
        }
        if before >= most(mode, "hangs-") {
            continue;
        }
        let is_sane = before < most(mode, "talks-");
        if stream.write_all(if is_sane { response.as_bytes() } else { NONSENSE }).is_err() {
            return;
        }
    }
}

fn lab(plan: &str, out: &str) {
    let plan = fs::read_to_string(plan).unwrap();
    let options = lab::Options::new("killed", plan, out, env::current_exe().unwrap());
    if let Err(error) = lab::run(&options, &mut |_| {}) {
        eprintln!("{error}");
        process::exit(1);
    }
}
