//! `plimsoll bench` against the server and against nothing.

use std::process::Stdio;

use serde_json::Value;

use crate::common::{Server, output_of, plimsoll, site};

fn bench(args: &[&str]) -> Value {
    let output =
        plimsoll().arg("bench").args(args).args(["--json", "-"]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_number_of_requests_is_kept_exactly() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    for extra in [&[][..], &["--close"]] {
        let result = bench(&[&[server.url("/1k.html").as_str(), "-n", "1234", "-c", "7"], extra].concat());
        assert_eq!(result["requests"], 1234);
        assert_eq!(result["statuses"]["200"], 1234);
        assert_eq!(result["response_time_us"]["count"], 1234);
        assert!(
            result["errors"].as_object().unwrap().values().all(|count| count == 0),
            "{}",
            result["errors"]
        );
        // Each answer has 1,024 bytes and a head.
        let bytes = result["bytes_received"].as_u64().unwrap();
        assert!((1234 * 1124..1234 * 1324).contains(&bytes), "{bytes}");
    }
    // The server has counted the same.
    assert!(server.stop().contains("stopped: 2468 requests answered"));
}

#[test]
fn a_time_is_kept_and_the_parts_agree() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let result =
        bench(&[&server.url("/1k.html"), "-d", "1500ms", "--warmup", "200ms", "-c", "16", "-t", "1"]);
    let number = |name: &str| result[name].as_f64().unwrap();
    assert!((number("duration_s") - 1.5).abs() < 0.001);
    assert!((number("requests_per_second") * 1.5 - number("requests")).abs() < 1.0);
    let timeline = result["timeline"].as_array().unwrap();
    assert_eq!(timeline.len(), 2);
    let seconds: f64 = timeline.iter().map(|second| second["requests"].as_f64().unwrap()).sum();
    assert_eq!(seconds, number("requests"));
    assert_eq!(result["response_time_us"]["count"].as_f64().unwrap(), number("requests") + number("drained"));
    // Little's law: in a closed loop the connections are the rate times the mean response time. The bound is
    // wide, since a busy machine may stop a thread for a while.
    let in_flight =
        number("requests_per_second") * result["response_time_us"]["mean"].as_f64().unwrap() / 1e6;
    assert!((in_flight / 16.0 - 1.0).abs() < 0.25, "{in_flight}");
    server.stop();
}

#[test]
fn head_and_other_statuses_are_answers_too() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let result = bench(&[&server.url("/large.bin"), "--method", "HEAD", "-n", "100", "-c", "4"]);
    assert_eq!(result["statuses"]["200"], 100);
    let result = bench(&[&server.url("/missing"), "-n", "100", "-c", "4"]);
    assert_eq!((&result["statuses"]["404"], &result["requests"]), (&100.into(), &100.into()));
    server.stop();
}

#[test]
fn a_server_that_is_not_there_is_a_failed_run() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let output = plimsoll()
        .args(["bench", &format!("http://127.0.0.1:{port}/"), "-n", "20", "-c", "2"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("gave no complete response: connect refused (20 times)"), "{said}");
}

#[test]
fn the_text_has_what_matters() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let text = output_of(plimsoll().arg("bench").arg(server.url("/1k.html")).args(["-n", "2000", "-c", "8"]));
    for part in [
        "closed loop, 8 connections, keep-alive",
        "status 200",
        "p50",
        "p99.999",
        "n/a",
        "errors",
        "of CPU per request",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    server.stop();
}
