//! Slow clients and slow servers: rates that are kept to, time-outs by phase, and rare answers that are late.

mod common;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use load::{Arrivals, Outcome, Plan, Rate, Spacing, Stop, run};

use common::{request, server};

/// An answer with so many bytes of content.
fn answer_of(bytes: usize) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
    answer.resize(answer.len() + bytes, b'x');
    answer
}

fn load(address: SocketAddr, requests: u64, change: impl FnOnce(&mut Plan)) -> Outcome {
    let mut plan = Plan {
        connections: 2,
        threads: 1,
        stop: Stop::Requests(requests),
        timeout_s: 30.0,
        ..Plan::new(format!("http://{address}/"))
    };
    change(&mut plan);
    run(&plan, &mut |_| ()).unwrap()
}

#[test]
fn a_slow_reader_has_the_first_byte_when_it_comes_and_the_last_when_it_took_it() {
    let address = server(|mut stream| {
        let answer = answer_of(960);
        while request(&mut stream) && stream.write_all(&answer).is_ok() {}
    });
    // A thousand bytes at 1,000 per second take a second; the first of them is there at once.
    let outcome = load(address, 4, |plan| plan.receive_rate = 1000.0);
    assert_eq!((outcome.requests, outcome.errors.total()), (4, 0));
    assert!(outcome.response_time_us.min >= 990_000, "{:?}", outcome.response_time_us);
    assert!(outcome.first_byte_us.min < 500_000, "{:?}", outcome.first_byte_us);
    assert!(outcome.transfer_us.max >= 500_000, "{:?}", outcome.transfer_us);
}

#[test]
fn a_slow_sender_takes_its_time_for_the_request() {
    // When each request begins to come, and when its end has.
    let took = Arc::new(AtomicU64::new(u64::MAX));
    let shortest = took.clone();
    let address = server(move |mut stream| {
        let mut first = [0];
        while stream.peek(&mut first).is_ok_and(|count| count > 0) {
            let begun = Instant::now();
            if !request(&mut stream) {
                return;
            }
            shortest.fetch_min(begun.elapsed().as_millis() as u64, Ordering::Relaxed);
            let _ = stream.write_all(&answer_of(0));
        }
    });
    let field = ("X-Filling".to_owned(), "x".repeat(900));
    let outcome = load(address, 4, |plan| (plan.send_rate, plan.fields) = (1000.0, vec![field]));
    assert_eq!((outcome.requests, outcome.errors.total()), (4, 0));
    // More than 900 bytes, a tenth of a second's at a time; the last of them is not waited for.
    let took = took.load(Ordering::Relaxed);
    assert!(
        took >= 700 && outcome.response_time_us.min >= 900_000,
        "{took} ms, {:?}",
        outcome.response_time_us
    );
}

#[test]
fn each_phase_that_lasts_too_long_is_called_by_its_name() {
    // It reads nothing, and the request is more than all buffers between hold.
    let deaf = server(|stream| {
        thread::sleep(Duration::from_secs(60));
        drop(stream);
    });
    let outcome = load(deaf, 2, |plan| {
        (plan.timeout_s, plan.method, plan.body) = (0.5, "POST".into(), "x".repeat(16 << 20));
    });
    assert_eq!((outcome.requests, outcome.errors.send_timeout, outcome.errors.total()), (0, 2, 2));
    // A byte every 100 ms: the answer begins in time and would take more than four seconds.
    let dripping = server(|mut stream| {
        while request(&mut stream) {
            for byte in answer_of(0) {
                if stream.write_all(&[byte]).is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(100));
            }
        }
    });
    let outcome = load(dripping, 2, |plan| plan.timeout_s = 1.5);
    assert_eq!((outcome.requests, outcome.errors.transfer_timeout, outcome.errors.total()), (0, 2, 2));
    // Each of them is known to have taken as long as it was waited for.
    assert_eq!((outcome.censored, outcome.failed_us.count), (2, 2));
    assert!(outcome.response_time_us.min >= 1_499_000, "{:?}", outcome.response_time_us);
    // With time enough they are answers like any other.
    let patient = load(dripping, 2, |_| ());
    assert_eq!((patient.requests, patient.errors.total()), (2, 0));
    assert!(patient.transfer_us.min >= 3_000_000 && patient.first_byte_us.count == 2, "{patient:?}");
}

/// A server that is 100 ms late with so many of every hundred answers, over all connections.
fn with_late_ones(late: u64) -> SocketAddr {
    let count = Arc::new(AtomicU64::new(0));
    server(move |mut stream| {
        let answer = answer_of(2);
        while request(&mut stream) {
            // Spread over the hundred: 37 has no factor in common with it.
            if count.fetch_add(1, Ordering::Relaxed) * 37 % 100 < late {
                thread::sleep(Duration::from_millis(100));
            }
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    })
}

#[test]
fn rare_late_answers_are_in_the_percentiles_where_arithmetic_has_them() {
    // In a closed loop: 2 of each hundred are late, and the slowest hundredth is among them.
    let closed = load(with_late_ones(2), 12_000, |plan| plan.connections = 8);
    assert_eq!((closed.requests, closed.errors.total()), (12_000, 0));
    let times = &closed.response_time_us;
    assert!(times.p99.unwrap() >= 99_900 && times.p50.unwrap() < 99_900, "{times:?}");
    // Each of them adds a millisecond to the mean of a hundred.
    assert!(times.mean >= 2_000.0 && times.p99_9.is_none(), "{times:?}");
    // In an open loop as many of those that were due, however many wait meanwhile.
    let open = load(with_late_ones(6), 2_500, |plan| {
        plan.connections = 100;
        plan.arrivals = Arrivals::Open {
            rate: Rate::Steady { rate: 1_000.0 },
            spacing: Spacing::Poisson,
            seed: 7,
            session: None,
        };
    });
    let offered = open.offered.as_ref().unwrap();
    assert_eq!((open.requests, open.errors.total(), offered.due), (2_500, 0, 2_500));
    let times = &open.response_time_us;
    assert!(times.p95.unwrap() >= 99_900 && times.p50.unwrap() < 99_900, "{times:?}");
    assert!(times.mean >= 6_000.0 && offered.service_time_us.p95.unwrap() >= 99_900, "{times:?}");
}
