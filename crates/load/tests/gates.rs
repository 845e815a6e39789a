//! The gates of the verdict that a load can provoke: a real load that has the fault raises that suspicion, and where that does not
//! hang on the quiet of this host, the same load without it does not. The others are tested by their arithmetic, beside it
//! (docs/validity.md says which).

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use load::{Arrivals, Outcome, Plan, Rate, Spacing, Stop, run};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server that answers the `n`-th request of each connection as `answer` says, in a thread for each.
fn server(answer: impl Fn(u64) -> &'static [u8] + Send + Sync + 'static) -> SocketAddr {
    let answer = Arc::new(answer);
    common::server(move |stream| serve(stream, &*answer))
}

fn serve(mut stream: TcpStream, answer: &dyn Fn(u64) -> &'static [u8]) {
    let mut request = [0; 4096];
    for number in 0.. {
        match stream.read(&mut request) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let answer = answer(number);
        if answer.is_empty() || stream.write_all(answer).is_err() {
            return;
        }
    }
}

/// A server that takes so long for each answer.
fn slow(time: Duration) -> SocketAddr {
    server(move |_| {
        thread::sleep(time);
        OK
    })
}

/// A server that takes so long for each answer, and has many requests of a connection before it.
fn one_by_one(time: Duration) -> SocketAddr {
    common::server(move |stream| {
        let (mut received, mut answers) = (BufReader::new(stream.try_clone().unwrap()), stream);
        let mut line = String::new();
        while received.read_line(&mut line).is_ok_and(|count| count > 0) {
            if line == "\r\n" {
                thread::sleep(time);
                let _ = answers.write_all(OK);
            }
            line.clear();
        }
    })
}

fn load(address: SocketAddr, change: impl FnOnce(&mut Plan)) -> Outcome {
    let mut plan = Plan {
        connections: 4,
        threads: 1,
        stop: Stop::Seconds(1.0),
        timeout_s: 2.0,
        ..Plan::new(format!("http://{address}/"))
    };
    change(&mut plan);
    run(&plan, &mut |_| ()).unwrap()
}

fn open(rate: f64) -> Arrivals {
    Arrivals::Open { rate: Rate::Steady { rate }, spacing: Spacing::Constant, seed: 1, session: None }
}

fn says(outcome: &Outcome, part: &str) -> bool {
    outcome.verdict.reasons().iter().any(|reason| reason.contains(part))
}

/// Whether a load without the fault does not raise that suspicion, in one of some tries: a busy host may be at fault itself.
fn passes(part: &str, load: impl Fn() -> Outcome) -> bool {
    (0..5).any(|_| !says(&load(), part))
}

#[test]
fn errors_raise_suspicion() {
    // One in 50 requests gets no answer, and its connection ends.
    let faulty = load(server(|number| if number % 50 == 49 { b"" } else { OK }), |_| ());
    assert!(says(&faulty, "requests failed"), "{:?}", faulty.verdict);
    let refused = load(server(|_| b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"), |_| ());
    assert_eq!(refused.verdict.word(), "INVALID");
    // An answer, and then as many ends of connections without one as there are connections: mostly ends.
    let answers = AtomicU64::new(0);
    let ends = load(
        server(move |_| if answers.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) { OK } else { b"" }),
        |_| (),
    );
    assert!(ends.verdict.word() == "INVALID" && says(&ends, "got no proper answer"), "{:?}", ends.verdict);
    assert!(passes("requests failed", || load(slow(Duration::from_millis(1)), |_| ())));
}

#[test]
fn littles_law_is_broken_where_connections_are_not_busy() {
    // Each connection ends after every answer without a word: half of its time goes into finding that out, and
    // waiting before a new one is not part of any response time.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    // The server comes and goes: 100 ms there, 100 ms not.
    thread::spawn(move || {
        loop {
            let listener = TcpListener::bind(address).unwrap();
            listener.set_nonblocking(true).unwrap();
            let until = Instant::now() + Duration::from_millis(100);
            while Instant::now() < until {
                match listener.accept() {
                    Ok((stream, _)) => {
                        stream.set_nonblocking(false).unwrap();
                        thread::spawn(move || serve(stream, &|_| OK));
                    }
                    Err(_) => thread::sleep(Duration::from_micros(100)),
                }
            }
            drop(listener);
            thread::sleep(Duration::from_millis(100));
        }
    });
    let off = load(address, |plan| plan.close = true);
    assert!(says(&off, "off the number of connections"), "{:?}", off.verdict);
    assert!(passes("off the number of connections", || load(slow(Duration::from_millis(2)), |_| ())));
    // It answers a batch in turn, so that about half of one is under way on each connection.
    assert!(passes("rate x mean response time", || {
        load(one_by_one(Duration::from_millis(2)), |plan| plan.pipeline = 16)
    }));
}

#[test]
fn more_than_a_server_carries_is_not_sent() {
    // 4 connections and 10 ms for each answer: 400 per second.
    let over = load(slow(Duration::from_millis(10)), |plan| plan.arrivals = open(800.0));
    assert!(says(&over, "found every connection busy"), "{:?}", over.verdict);
    assert!(passes("found every connection busy", || {
        load(slow(Duration::from_millis(10)), |plan| plan.arrivals = open(100.0))
    }));
}

#[test]
fn what_a_server_falls_behind_with_is_seen_though_all_is_sent() {
    // 200 per second, whatever the connections; 400 are due, all are sent at once, and half is answered after the end.
    let turn = Mutex::new(());
    let behind = load(
        server(move |_| {
            let _turn = turn.lock();
            thread::sleep(Duration::from_millis(5));
            OK
        }),
        |plan| {
            (plan.connections, plan.stop, plan.timeout_s) = (600, Stop::Seconds(1.5), 20.0);
            plan.arrivals = open(400.0);
        },
    );
    assert!(says(&behind, "the server falls behind"), "{:?}", behind.verdict);
    assert_eq!(behind.offered.unwrap().unsent, 0);
    // As long for each answer, with many at a time.
    assert!(passes("the server falls behind", || {
        load(slow(Duration::from_millis(5)), |plan| (plan.connections, plan.arrivals) = (60, open(200.0)))
    }));
}

#[test]
fn too_few_connections_send_late() {
    // In bursts of 40 at once, of which 4 can be under way; all are sent in the end.
    let burst = |plan: &mut Plan| {
        plan.stop = Stop::Seconds(3.0);
        plan.arrivals = Arrivals::Open {
            rate: Rate::OnOff { rate: 40_000.0, on_s: 0.002, off_s: 0.05 },
            spacing: Spacing::Constant,
            seed: 1,
            session: None,
        };
    };
    let late = load(slow(Duration::from_millis(1)), burst);
    assert!(says(&late, "were sent late"), "{:?}", late.verdict);
}

#[test]
fn a_rate_that_climbs_all_the_time_is_not_steady() {
    let start = Instant::now();
    // From 10 ms down to 2 ms in 6 seconds.
    let warming = server(move |_| {
        let ms = (10.0 - 8.0 * start.elapsed().as_secs_f64() / 6.0).max(2.0);
        thread::sleep(Duration::from_secs_f64(ms / 1e3));
        OK
    });
    let climbing = load(warming, |plan| plan.stop = Stop::Seconds(6.0));
    assert!(says(&climbing, "did not settle"), "{:?} {:?}", climbing.verdict, climbing.steady);
    assert!(passes("did not settle", || {
        let level = load(slow(Duration::from_millis(5)), |plan| plan.stop = Stop::Seconds(6.0));
        assert!(level.steady.is_some());
        level
    }));
}

#[test]
fn a_full_backlog_is_seen() {
    // Room for one connection that waits, and nobody accepts before a while.
    let socket =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&socket, 1).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        for stream in listener.incoming() {
            thread::spawn(move || serve(stream.unwrap(), &|_| OK));
        }
    });
    let dropped = load(address, |plan| (plan.connections, plan.stop) = (50, Stop::Seconds(2.0)));
    assert!(says(&dropped, "at a full backlog"), "{:?} {:?}", dropped.verdict, dropped.host);
}

#[test]
fn a_host_without_ports_is_refused_before_or_seen_after() {
    // Two ports for 3 connections at a time, in a network namespace of its own: takes root.
    let script =
        "ip link set lo up && echo '40000 40001' > /proc/sys/net/ipv4/ip_local_port_range && exec \"$@\"";
    let unshared = std::process::Command::new("unshare")
        .args(["-n", "sh", "-c", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "inside_without_ports"])
        .output()
        .unwrap();
    if !unshared.status.success() && !rustix::process::geteuid().is_root() {
        eprintln!("not tested: {}", String::from_utf8_lossy(&unshared.stderr));
        return;
    }
    assert!(unshared.status.success(), "{unshared:?}");
}

#[test]
#[ignore = "part of the test above, which runs it where there are two ports"]
fn inside_without_ports() {
    let address = slow(Duration::from_millis(1));
    let plan = Plan { connections: 3, ..Plan::new(format!("http://{address}/")) };
    assert!(run(&plan, &mut |_| ()).unwrap_err().to_string().contains("has 2 ports"));
    // Ports that others hold cannot be known before.
    let _held = TcpStream::connect(address).unwrap();
    let seen = load(address, |plan| plan.connections = 2);
    assert!(says(&seen, "for want of ports"), "{:?}", seen.verdict);
}
