//! For tests: a server of one thread per connection that can also misbehave, and a lab that can be killed.
//!
//! `lab-test-helper serve PORT [MODE]` with MODE `ok`, `error` (status 500), `deaf` (accepts, never answers),
//! `late` (listens after a while) or `mortal` (ends while it is loaded); `lab-test-helper lab PLAN OUT` runs an
//! experiment.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use std::{env, fs, process};

/// Requests that a mortal server answers.
const LIFE: u32 = 500;

static ANSWERED: AtomicU32 = AtomicU32::new(0);

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
        thread::spawn(move || answer(stream, &mode));
    }
}

fn answer(mut stream: TcpStream, mode: &str) {
    let status = if mode == "error" { "500 Internal Server Error" } else { "200 OK" };
    let response = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok");
    let mut buffer = [0; 4096];
    // The load waits for each answer, so that a read brings one whole request.
    while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
        if mode == "deaf" {
            thread::sleep(Duration::from_secs(600));
        }
        if mode == "mortal" && ANSWERED.fetch_add(1, Ordering::Relaxed) == LIFE {
            eprintln!("this was my last request");
            process::exit(7);
        }
        if stream.write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}

fn lab(plan: &str, out: &str) {
    let options = lab::Options {
        name: "killed".into(),
        plan: fs::read_to_string(plan).unwrap(),
        quick: false,
        root: None,
        out: out.into(),
        program: env::current_exe().unwrap(),
        command: "plimsoll lab run killed.toml".into(),
        resume: false,
        budget: None,
        cancel: load::Switch::default(),
    };
    lab::run(&options, &mut |_| {}).unwrap();
}
