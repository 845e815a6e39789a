//! The open loop against servers of known behaviour: what was due is accounted for to the last request, and a server that
//! stalls cannot hide it.

mod common;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use load::{Arrivals, Outcome, Plan, Rate, Session, Spacing, Stop, Switch, run, run_until};

/// A server that waits as `wait` does before it answers each request, on a thread for each connection.
fn server(wait: impl Fn() + Clone + Send + 'static) -> SocketAddr {
    common::server(move |mut stream| {
        while common::request(&mut stream) {
            wait();
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
    })
}

fn load(address: SocketAddr, connections: u32, seconds: f64, arrivals: Arrivals) -> Outcome {
    let plan = Plan {
        connections,
        threads: 1,
        stop: Stop::Seconds(seconds),
        timeout_s: 5.0,
        arrivals,
        ..Plan::new(format!("http://{address}/"))
    };
    run(&plan, &mut |_| ()).unwrap()
}

fn open(rate: f64, session: Option<Session>) -> Arrivals {
    Arrivals::Open { rate: Rate::Steady { rate }, spacing: Spacing::Constant, seed: 1, session }
}

/// What was due is what was answered, failed or never sent.
fn accounts_for_all(outcome: &Outcome) {
    let offered = outcome.offered.as_ref().unwrap();
    let ended = outcome.requests + outcome.drained + outcome.errors.total() + offered.unsent;
    assert_eq!(ended, offered.due);
    let timed_out = outcome.errors.timeouts();
    assert_eq!(outcome.censored, offered.unsent + timed_out);
    assert_eq!(outcome.response_time_us.count, outcome.requests + outcome.drained + outcome.censored);
}

#[test]
fn a_stall_shows_in_an_open_loop_and_hides_in_a_closed_one() {
    const PERIOD: Duration = Duration::from_secs(2);
    const STALL: Duration = Duration::from_millis(700);
    // It stands still for 0.7 of every 2 seconds, and answers at once otherwise.
    let start = Instant::now();
    let address = server(move || {
        let into = start.elapsed().as_nanos() % PERIOD.as_nanos();
        thread::sleep(STALL.saturating_sub(Duration::from_nanos(into as u64)));
    });
    let honest = load(address, 400, 4.0, open(400.0, None));
    accounts_for_all(&honest);
    assert_eq!(honest.offered.as_ref().unwrap().due, 1600);
    // A request that is due u into a stall takes 0.7 s - u, and 0.35 of them are: 10 % take longer than 0.5 s.
    let p90 = honest.response_time_us.p90.unwrap();
    assert!((440_000..560_000).contains(&p90), "{p90} us in an open loop");
    // The naive figure: one connection waits out each stall once, and asks thousands of times in between.
    let naive = load(address, 1, 4.0, Arrivals::default());
    let p90 = naive.response_time_us.p90.unwrap();
    assert!(p90 < 50_000, "{p90} us in a closed loop");
}

#[test]
fn what_finds_no_connection_is_counted_and_makes_the_figures_suspect() {
    // One at a time, 10 ms each: 100 per second, where 300 are due.
    let turn = Arc::new(Mutex::new(()));
    let address = server(move || {
        let _turn = turn.lock().unwrap();
        thread::sleep(Duration::from_millis(10));
    });
    let outcome = load(address, 10, 2.0, open(300.0, None));
    accounts_for_all(&outcome);
    let offered = outcome.offered.as_ref().unwrap();
    assert_eq!(offered.due, 600);
    assert!(offered.unsent >= 380 && outcome.requests <= 205, "{offered:?}");
    assert_eq!(outcome.verdict.word(), "SUSPECT");
    assert!(
        outcome.verdict.reasons().iter().any(|reason| reason.contains("every connection busy")),
        "{:?}",
        outcome.verdict
    );
    // Its service took 0.1 s, and its users waited for more than a second.
    assert!(outcome.response_time_us.p50.unwrap() > 500_000, "{:?}", outcome.response_time_us);
    assert!(offered.service_time_us.mean < outcome.response_time_us.mean / 2.0, "{offered:?}");
}

#[test]
fn sessions_go_on_as_often_as_they_should() {
    let address = server(|| ());
    let session = Session { go_on: 0.75, think_s: 0.001 };
    let outcome = load(address, 300, 2.0, open(500.0, Some(session)));
    // 1,000 sessions of 4 requests in the mean, but for those that the end cut off.
    let sent = outcome.requests + outcome.drained;
    assert!((3500..4500).contains(&sent), "{sent}");
    assert!((800..1200).contains(&outcome.connect_us.count), "{} connections", outcome.connect_us.count);
}

#[test]
fn a_server_that_dies_is_told_of_and_does_not_hold_up_the_load() {
    let dies = Instant::now() + Duration::from_millis(500);
    // From then on it takes requests and never answers.
    let address = server(move || {
        if Instant::now() > dies {
            thread::sleep(Duration::from_secs(60));
        }
    });
    let plan = Plan {
        connections: 20,
        threads: 2,
        stop: Stop::Seconds(1.0),
        timeout_s: 0.3,
        arrivals: open(200.0, None),
        ..Plan::new(format!("http://{address}/"))
    };
    let start = Instant::now();
    let outcome = run(&plan, &mut |_| ()).unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
    accounts_for_all(&outcome);
    assert!(outcome.errors.first_byte_timeout > 10, "{:?}", outcome.errors);
    assert!((80..=101).contains(&outcome.requests), "{}", outcome.requests);
    assert_eq!(outcome.verdict.word(), "SUSPECT");
}

#[test]
fn a_number_of_requests_is_all_that_is_due_and_its_last_answer_is_the_end() {
    let address = server(|| thread::sleep(Duration::from_millis(300)));
    let of = |requests: u64, connections: u32, rate: f64| {
        let plan = Plan {
            connections,
            threads: 1,
            stop: Stop::Requests(requests),
            arrivals: open(rate, None),
            ..Plan::new(format!("http://{address}/"))
        };
        run(&plan, &mut |_| ()).unwrap()
    };
    // When the last is answered, thirty more would have been due.
    let many = of(50, 32, 100.0);
    let offered = many.offered.as_ref().unwrap();
    assert_eq!((many.requests, offered.due, offered.unsent, many.censored), (50, 50, 0, 0));
    // The other connections wait for moments up to a minute away.
    let start = Instant::now();
    assert_eq!(of(2, 64, 1.0).requests, 2);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn every_request_that_is_due_is_refused_where_nobody_listens() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let outcome = load(nobody, 4, 1.0, open(1000.0, None));
    let offered = outcome.offered.as_ref().unwrap();
    assert_eq!((outcome.errors.connect_refused, offered.due, offered.unsent), (1000, 1000, 0), "{outcome:?}");
}

#[test]
fn a_load_that_runs_out_of_requests_lasts_as_long_as_it_says() {
    let steps = Rate::Steps { rates: vec![200.0, 0.0], each_s: 0.2 };
    let arrivals = Arrivals::Open { rate: steps, spacing: Spacing::Constant, seed: 1, session: None };
    let start = Instant::now();
    let outcome = load(server(|| ()), 10, 1.0, arrivals);
    let (took, offered) = (start.elapsed().as_secs_f64(), outcome.offered.as_ref().unwrap());
    assert_eq!((outcome.duration_s, offered.due), (1.0, 40));
    assert!(took >= 1.0, "it says {} s, and took {took}", outcome.duration_s);
}

#[test]
fn nothing_is_due_after_a_load_was_cancelled() {
    // Waiting for the last answers takes a second, in which a hundred more would be due.
    let address = server(|| thread::sleep(Duration::from_secs(1)));
    let plan = Plan {
        connections: 120,
        threads: 1,
        stop: Stop::Seconds(600.0),
        arrivals: open(100.0, None),
        ..Plan::new(format!("http://{address}/"))
    };
    let cancel = Switch::default();
    let outcome = run_until(&plan, &cancel, &mut |progress| {
        if progress.requests >= 10 {
            cancel.set();
        }
    });
    let outcome = outcome.unwrap();
    accounts_for_all(&outcome);
    let unsent = outcome.offered.as_ref().unwrap().unsent;
    assert!(unsent < 50, "{unsent} never sent, of {:?}", outcome.offered);
}
