//! The emulated link is what it is said to be: delay, rate and loss as a load meets them. Takes root and /dev/net/tun.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use load::{Outcome, Plan, Stop, run};

/// A server that answers each request with so many bytes.
fn server(bytes: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n{}", "x".repeat(bytes));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let answer = answer.clone();
            thread::spawn(move || answer_all(stream.unwrap(), answer.as_bytes()));
        }
    });
    address
}

fn answer_all(mut stream: TcpStream, answer: &[u8]) {
    let mut request = [0; 4096];
    while stream.read(&mut request).is_ok_and(|length| length > 0) {
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

/// Runs a load over a link; `None` where this process may not make one.
fn load(link: &str, bytes: usize, change: impl FnOnce(&mut Plan)) -> Option<Outcome> {
    let mut plan = Plan {
        connections: 1,
        threads: 1,
        link: Some(link.parse().unwrap()),
        timeout_s: 5.0,
        ..Plan::new(format!("http://{}/", server(bytes)))
    };
    change(&mut plan);
    match run(&plan, &mut |_| ()) {
        Err(error) if !rustix::process::geteuid().is_root() || !Path::new("/dev/net/tun").exists() => {
            eprintln!("not tested: {error}");
            None
        }
        outcome => Some(outcome.unwrap()),
    }
}

#[test]
fn a_request_takes_the_way_there_and_back() {
    let Some(outcome) = load("delay=40ms", 10, |plan| plan.stop = Stop::Requests(11)) else { return };
    assert_eq!((outcome.requests, outcome.errors.total()), (11, 0));
    // The handshake is one round trip, and the first request another; never less.
    assert!((80_000..120_000).contains(&outcome.connect_us.min), "{:?}", outcome.connect_us);
    assert!((80_000..120_000).contains(&outcome.response_time_us.min), "{:?}", outcome.response_time_us);
    assert!(outcome.response_time_us.max >= 160_000, "{:?}", outcome.response_time_us);
}

#[test]
fn no_more_passes_than_the_rate_allows() {
    let Some(outcome) = load("rate=8mbit,queue=1s", 100_000, |plan| {
        (plan.stop, plan.warmup_s) = (Stop::Seconds(3.0), 0.5);
    }) else {
        return;
    };
    // 1 MB/s, of which some 40 bytes in 1,500 are heads of packets. Less passes where others have the processor.
    let mb = outcome.bytes_per_second / 1e6;
    assert!((0.4..1.0).contains(&mb), "{mb} MB/s");
    assert_eq!(outcome.errors.total(), 0);
}

#[test]
fn what_is_lost_is_sent_again_and_nothing_is_wrong() {
    let Some(outcome) = load("delay=5ms,loss=3%", 50_000, |plan| {
        (plan.stop, plan.connections) = (Stop::Requests(60), 4);
        plan.expect.length = Some(50_000);
    }) else {
        return;
    };
    assert_eq!((outcome.requests, outcome.errors.total()), (60, 0), "{:?}", outcome.errors);
    // 2,000 packets of which 60 are lost, each of which costs a round trip at least.
    assert!(
        outcome.response_time_us.max > 2 * outcome.response_time_us.min,
        "{:?}",
        outcome.response_time_us
    );
    let lost = load("loss=100%", 10, |plan| {
        (plan.stop, plan.timeout_s) = (Stop::Requests(2), 0.3);
    });
    assert_eq!(lost.unwrap().errors.connect_timeout, 2);
}

#[test]
fn a_server_elsewhere_is_refused() {
    let plan = Plan { link: Some("delay=1ms".parse().unwrap()), ..Plan::new("http://192.0.2.1/") };
    let error = run(&plan, &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("none of its addresses"), "{error}");
}
