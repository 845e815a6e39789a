//! The generator against servers of known behaviour: its counts are exact, its times agree with arithmetic.

mod common;

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use load::{Arrivals, Expect, Outcome, Plan, Rate, Spacing, Stop, Switch, Threshold, run, run_until};

use common::{request, server};

/// A server that answers every request with these bytes.
fn answering(answer: &'static [u8]) -> SocketAddr {
    server(move |mut stream| {
        while request(&mut stream) {
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    })
}

/// A server that reads a request, sends these bytes, and closes.
fn closing_after(answer: &'static [u8]) -> SocketAddr {
    server(move |mut stream| {
        if request(&mut stream) {
            let _ = stream.write_all(answer);
        }
    })
}

fn plan(address: SocketAddr, requests: u64) -> Plan {
    Plan {
        connections: 2,
        threads: 1,
        stop: Stop::Requests(requests),
        timeout_s: 0.3,
        ..Plan::new(format!("http://{address}/"))
    }
}

fn load(address: SocketAddr, requests: u64) -> Outcome {
    run(&plan(address, requests), &mut |_| ()).unwrap()
}

/// The same on a server that answers everything: a busy host may take its time.
fn patient_load(address: SocketAddr, requests: u64) -> Outcome {
    run(&Plan { timeout_s: 30.0, ..plan(address, requests) }, &mut |_| ()).unwrap()
}

#[test]
fn every_framing_of_an_answer_is_understood() {
    for (answer, code, bytes) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..], 200, 43),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, 27),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200, 62),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 404, 70),
    ] {
        let outcome = patient_load(answering(answer), 50);
        assert_eq!((outcome.requests, outcome.errors.total()), (50, 0), "{outcome:?}");
        assert_eq!(outcome.statuses[&code], 50);
        assert_eq!(outcome.bytes_received, 50 * bytes);
    }
    let until_close = patient_load(closing_after(b"HTTP/1.1 200 OK\r\n\r\nup to the end"), 20);
    assert_eq!((until_close.requests, until_close.errors.total()), (20, 0));
    assert_eq!(until_close.bytes_received, 20 * 32);
}

#[test]
fn a_server_that_closes_after_each_answer_costs_no_error_if_it_says_so() {
    let said = patient_load(
        closing_after(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"),
        20,
    );
    assert_eq!((said.requests, said.errors.total()), (20, 0));
    let unsaid = load(closing_after(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), 20);
    // Every second request finds the connection closed (or reset, when it is sent just then).
    let lost = unsaid.errors.closed_early + unsaid.errors.reset;
    // Each of the two connections alternates, and begins with an answer.
    let errors = unsaid.errors;
    assert_eq!((unsaid.requests + lost, errors.total()), (20, lost), "{errors:?}");
    assert!((0..=2).contains(&(unsaid.requests - lost)), "{} answers: {errors:?}", unsaid.requests);
}

#[test]
fn what_goes_wrong_is_counted_by_kind_and_never_as_success() {
    let kinds: [(SocketAddr, &str); 5] = [
        (closing_after(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), "short_response"),
        (closing_after(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf"), "short_response"),
        (closing_after(b""), "closed_early"),
        (closing_after(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), "malformed"),
        (server(|mut stream| while request(&mut stream) {}), "first_byte_timeout"),
    ];
    for (address, kind) in kinds {
        let outcome = load(address, 6);
        let counted = outcome.errors.named().into_iter().find(|(name, _)| *name == kind).unwrap().1;
        assert_eq!(
            (outcome.requests, counted, outcome.errors.total()),
            (0, 6, 6),
            "{kind}: {:?}",
            outcome.errors
        );
        // Those that took too long count with how long they took, so that they do not disappear.
        let expected = if kind == "first_byte_timeout" { 6 } else { 0 };
        assert_eq!((outcome.response_time_us.count, outcome.censored), (expected, expected), "{kind}");
    }
    let reset = server(|mut stream| {
        request(&mut stream);
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    });
    assert_eq!(load(reset, 6).errors.reset, 6);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(load(nobody, 6).errors.connect_refused, 6);
}

#[test]
fn times_agree_with_a_server_of_known_delay() {
    let delay = Duration::from_millis(20);
    let address = server(move |mut stream| {
        while request(&mut stream) {
            thread::sleep(delay);
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    });
    let plan = Plan { connections: 4, stop: Stop::Seconds(1.0), warmup_s: 0.1, ..plan(address, 0) };
    let outcome = run(&plan, &mut |_| ()).unwrap();
    // No answer can come sooner than the delay. How much later is the machine's affair, so the bound is wide.
    assert!(outcome.response_time_us.min >= 20_000, "{}", outcome.response_time_us.min);
    assert!(outcome.requests_per_second <= 4.0 / 0.020 * 1.05, "{}", outcome.requests_per_second);
    let in_flight = outcome.requests_per_second * outcome.response_time_us.mean / 1e6;
    assert!((in_flight / 4.0 - 1.0).abs() < 0.15, "Little's law: {in_flight} under way, and 4 connections");
}

#[test]
fn connections_are_busy_to_the_last_of_a_number_of_requests() {
    let address = server(|mut stream| {
        while request(&mut stream) {
            thread::sleep(Duration::from_millis(10));
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    });
    // One thread has two of them, the other one: with half of the requests for each that one would be alone for a third of the time.
    let plan = Plan { connections: 3, threads: 2, timeout_s: 30.0, ..plan(address, 150) };
    let outcome = run(&plan, &mut |_| ()).unwrap();
    let under_way = outcome.requests_per_second * outcome.response_time_us.mean / 1e6;
    assert_eq!((outcome.requests, outcome.errors.total()), (150, 0));
    assert!(under_way > 2.6, "{under_way} under way on average, {outcome:?}");
}

#[test]
fn slow_answers_at_the_end_are_waited_for_and_not_dropped() {
    let address = server(|mut stream| {
        while request(&mut stream) {
            thread::sleep(Duration::from_millis(250));
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    });
    let plan = Plan { connections: 3, stop: Stop::Seconds(0.1), timeout_s: 5.0, ..plan(address, 0) };
    let outcome = run(&plan, &mut |_| ()).unwrap();
    assert_eq!((outcome.requests, outcome.drained, outcome.errors.total()), (0, 3, 0));
    assert_eq!(outcome.response_time_us.count, 3);
}

#[test]
fn a_server_that_vanishes_ends_in_errors_and_not_in_silence() {
    let address = server(|mut stream| {
        for _ in 0..5 {
            request(&mut stream);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
        // From here on it neither answers nor closes.
        thread::sleep(Duration::from_secs(60));
    });
    let start = Instant::now();
    let plan = Plan { stop: Stop::Seconds(0.5), ..plan(address, 0) };
    let outcome = run(&plan, &mut |_| ()).unwrap();
    assert!(outcome.requests >= 10 && outcome.errors.first_byte_timeout >= 2, "{outcome:?}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn time_in_which_nothing_was_answered_is_part_of_the_load() {
    // Each connection is answered five times, and then no more.
    let silent = || {
        server(|mut stream| {
            for _ in 0..5 {
                request(&mut stream);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
            while request(&mut stream) {}
        })
    };
    // Ten answers, and then two time-outs of 0.3 s.
    let outcome = run(&plan(silent(), 12), &mut |_| ()).unwrap();
    assert_eq!((outcome.requests, outcome.errors.first_byte_timeout), (10, 2), "{outcome:?}");
    assert!(outcome.duration_s >= 0.3, "{} s", outcome.duration_s);
    // One that is cut off half a second later has lasted until then.
    let (cancel, start) = (Switch::default(), Instant::now());
    let plan = Plan { stop: Stop::Seconds(600.0), timeout_s: 5.0, ..plan(silent(), 0) };
    let outcome = run_until(&plan, &cancel, &mut |progress| {
        if progress.elapsed > Duration::from_millis(500) {
            cancel.set();
        }
    });
    let outcome = outcome.unwrap();
    assert!((0.5..=start.elapsed().as_secs_f64()).contains(&outcome.duration_s), "{} s", outcome.duration_s);
}

#[test]
fn a_load_that_is_cancelled_keeps_what_was_measured() {
    let address = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let cancel = Switch::default();
    let plan = Plan { stop: Stop::Seconds(600.0), ..plan(address, 0) };
    let trigger = cancel.clone();
    let outcome = run_until(&plan, &cancel, &mut |progress| {
        if progress.requests > 100 {
            trigger.set();
        }
    });
    let outcome = outcome.unwrap();
    assert!(
        outcome.requests > 100 && outcome.duration_s < 60.0,
        "{} in {} s",
        outcome.requests,
        outcome.duration_s
    );
}

#[test]
fn the_observer_sees_the_phases_in_order() {
    let address = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let plan = Plan { stop: Stop::Seconds(0.3), warmup_s: 0.2, ..plan(address, 0) };
    let mut phases = Vec::new();
    run(&plan, &mut |progress| {
        if phases.last() != Some(&progress.phase) {
            phases.push(progress.phase);
        }
    })
    .unwrap();
    use load::Phase::*;
    assert_eq!(phases, [Warmup, Measuring, Draining]);
}

#[test]
fn the_requests_of_a_warm_up_are_none_of_those_that_were_asked_for() {
    let address = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let rate = Rate::Steady { rate: 500.0 };
    let open = Arrivals::Open { rate, spacing: Spacing::Constant, seed: 1, session: None };
    let closed = Plan { warmup_s: 0.3, ..plan(address, 50) };
    for plan in [
        closed.clone(),
        Plan { pipeline: 8, ..closed.clone() },
        Plan { arrivals: open, timeout_s: 10.0, ..closed },
    ] {
        let mut warm = 0;
        let outcome = run(&plan, &mut |progress| warm = warm.max(progress.requests)).unwrap();
        let times = outcome.response_time_us.count - outcome.censored;
        assert_eq!((outcome.requests, times), (50, 50), "{outcome:?}");
        assert!(warm > 50, "{warm} with those of the warm-up");
        assert!(outcome.duration_s > 0.0 && outcome.verdict.word() != "INVALID", "{outcome:?}");
    }
}

#[test]
fn an_error_status_that_is_expected_is_no_failure() {
    let address = answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    let expecting = |statuses: &[u16]| {
        let expect = Expect { statuses: statuses.into(), ..Expect::default() };
        run(&Plan { expect, ..plan(address, 50) }, &mut |_| ()).unwrap()
    };
    let none_fail: Threshold = "errors<0%".parse().unwrap();
    let fine = expecting(&[404]);
    assert!(fine.verdict.word() != "INVALID" && fine.statuses[&404] == 50, "{:?}", fine.verdict);
    assert!(!fine.verdict.reasons().iter().any(|reason| reason.contains("failed")), "{:?}", fine.verdict);
    assert_eq!(none_fail.missed_by(&fine), None);
    for other in [expecting(&[]), expecting(&[200])] {
        assert_eq!(other.verdict.word(), "INVALID");
        assert!(none_fail.missed_by(&other).is_some());
    }
}

#[test]
fn a_log_of_histograms_has_the_slowest_too() {
    // Two connections and 20 ms for each answer: 100 per second, and 400 are due.
    let slow = server(|mut stream| {
        while request(&mut stream) {
            thread::sleep(Duration::from_millis(20));
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    });
    let rate = Rate::Steady { rate: 400.0 };
    let arrivals = Arrivals::Open { rate, spacing: Spacing::Constant, seed: 1, session: None };
    let overloaded = Plan { arrivals, stop: Stop::Seconds(1.0), timeout_s: 10.0, ..plan(slow, 0) };
    let silent = server(|mut stream| while request(&mut stream) {});
    let timed_out = Plan { stop: Stop::Seconds(0.5), ..plan(silent, 0) };
    for plan in [overloaded, timed_out] {
        let outcome = run(&plan, &mut |_| ()).unwrap();
        let times = &outcome.response_time_us;
        assert!(outcome.censored > 0, "{outcome:?}");
        let (merged, time) = load::hdr::merge([load::hdr::log(&outcome).as_str()]).unwrap();
        assert_eq!(merged.count, times.count);
        // Seconds have histograms of two digits.
        assert!(merged.max.abs_diff(times.max) <= times.max / 100, "{merged:?} {times:?}");
        assert!(time.as_secs_f64() <= outcome.duration_s + 1e-3, "{time:?}");
    }
}

#[test]
fn a_plan_that_cannot_be_run_is_explained() {
    let good = Plan::new("http://127.0.0.1:1/");
    let at_rate = |rate: &str| {
        let (rate, spacing) = (rate.parse().unwrap(), Spacing::Constant);
        Plan { arrivals: Arrivals::Open { rate, spacing, seed: 1, session: None }, ..good.clone() }
    };
    for (plan, part) in [
        (Plan { connections: 0, ..good.clone() }, "connections 0: must be at least 1"),
        (Plan { connections: 4_000_000_000, ..good.clone() }, "a process may have"),
        (Plan { stop: Stop::Requests(0), ..good.clone() }, "requests 0: must be at least 1"),
        (Plan { stop: Stop::Seconds(f64::NAN), ..good.clone() }, "duration of NaN s"),
        (Plan { stop: Stop::Seconds(-1.0), ..good.clone() }, "duration of -1 s"),
        (Plan { timeout_s: 0.0, ..good.clone() }, "time-out of 0 s"),
        (Plan { method: "GET /".into(), ..good.clone() }, "must be a word such as GET"),
        (
            Plan { fields: vec![("A".into(), "b\r\nC: d".into())], ..good.clone() },
            "the value without control bytes",
        ),
        (
            Plan { fields: vec![("Connection".into(), "close".into())], ..good.clone() },
            "the load sets it itself",
        ),
        (at_rate("1e-19"), "must be 0.000001 to 100000000, or 0 for none"),
        (Plan { cpus: vec![5000], ..good.clone() }, "core 5000"),
    ] {
        let error = run(&plan, &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn requests_that_are_sent_at_once_are_all_answered_or_counted() {
    let address = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let outcome = run(&Plan { pipeline: 16, ..plan(address, 100) }, &mut |_| ()).unwrap();
    assert_eq!((outcome.requests, outcome.errors.total(), outcome.response_time_us.count), (100, 0, 100));
    // It answers three and closes: of each batch of 8, five are lost, and said to be.
    let address = server(|mut stream| {
        for _ in 0..3 {
            if !request(&mut stream) {
                return;
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
        // Read what else was sent, so that the close is no reset.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        while request(&mut stream) {}
    });
    let outcome = run(&Plan { pipeline: 8, ..plan(address, 80) }, &mut |_| ()).unwrap();
    assert_eq!((outcome.requests, outcome.errors.closed_early, outcome.errors.total()), (30, 50, 50));
    let bad = Plan { pipeline: 8, close: true, ..plan(address, 80) };
    assert!(run(&bad, &mut |_| ()).unwrap_err().to_string().contains("pipelining is for closed loops"));
}

#[test]
fn clients_that_block_count_what_a_server_answers_and_what_it_does_not() {
    let of = |address: SocketAddr, seconds: f64| {
        let stop = Stop::Seconds(seconds);
        let plan = Plan { connections: 40, stop, close: true, ..Plan::new(format!("http://{address}/")) };
        load::webbench::run(Path::new(""), &[], &plan, &Switch::default(), &mut |_| {}).unwrap()
    };
    // Each client has one request at a time, of 50 ms: 40 x 20 per second at most.
    let slow = server(|mut stream| {
        assert!(request(&mut stream));
        thread::sleep(Duration::from_millis(50));
        let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nhello");
    });
    let outcome = of(slow, 1.0);
    assert!((40..=800).contains(&outcome.requests) && outcome.errors.total() == 0, "{outcome:?}");
    assert_eq!(outcome.statuses[&200], outcome.requests + outcome.drained);
    assert_eq!(outcome.bytes_received, outcome.requests * 24);
    assert!(outcome.response_time_us.min >= 50_000 && outcome.connect_us.count > 0, "{outcome:?}");
    assert_eq!((outcome.threads, outcome.duration_s), (40, 1.0));
    let cut = of(closing_after(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), 0.3);
    assert!(cut.requests == 0 && cut.errors.short_response > 0, "{cut:?}");
    let silent = of(closing_after(b""), 0.3);
    assert!(silent.requests == 0 && silent.errors.closed_early > 0, "{silent:?}");
    let wrong = of(closing_after(b"SSH-2.0-x\r\n"), 0.3);
    assert!(wrong.requests == 0 && wrong.errors.malformed > 0, "{wrong:?}");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(of(nobody, 0.3).errors.connect_refused > 0);
}
