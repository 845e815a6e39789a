//! More load than a server carries: who is let in is answered in time, and the others are told at once.

use std::process::Stdio;

use serde_json::Value;

use crate::common::{Client, Server, plimsoll, site};

/// Twice what one worker of 5 ms carries, for 3 seconds, in open loop.
fn overload(server: &Server) -> Value {
    let output = plimsoll()
        .args([
            "bench",
            &server.url("/work?sleep=5ms"),
            "--rate",
            "400",
            "-d",
            "3s",
            "-c",
            "200",
            "-q",
            "--json",
            "-",
        ])
        .args(["--expect-status", "200"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_bound_on_the_wait_keeps_those_who_are_let_in_quick() {
    let site = site();
    let flags = ["--model", "reactor-pool", "--workers", "1", "--workloads", "--admin", "127.0.0.1:0"];
    for queue in ["mutex", "lock-free", "stealing"] {
        let server =
            Server::start(site.path(), &[&flags[..], &["--queue", queue, "--queue-delay", "10ms"]].concat());
        let result = overload(&server);
        let (answered, away) = (&result["requests"], &result["unexpected_statuses"]["503"]);
        let (answered, away) = (answered.as_u64().unwrap(), away.as_u64().unwrap());
        // One worker carries 190 per second or so; the rest is turned away, and nothing is lost.
        assert!(answered > 250 && away > 200, "{answered} answered, {away} turned away");
        assert_eq!(result["errors"]["bad_status"], away);
        // Its queue would be a second long and more by the end.
        let p90 = result["response_time_us"]["p90"].as_u64();
        let mean = result["response_time_us"]["mean"].as_f64().unwrap();
        assert!(mean < 300_000.0, "mean {mean} us, p90 {p90:?}");
        let metrics = Client::connect(server.admin()).get("/metrics").text();
        let counted = metrics.lines().find(|line| line.contains("reason=\"queue_delay\"")).unwrap();
        assert!(counted.ends_with(&format!(" {away}")), "{counted}");
        server.stop();
    }
}

#[test]
fn without_a_bound_everybody_waits() {
    let site = site();
    let server = Server::start(site.path(), &["--model", "reactor-pool", "--workers", "1", "--workloads"]);
    let result = overload(&server);
    assert_eq!(result["unexpected_statuses"].as_object().unwrap().len(), 0);
    assert!(result["response_time_us"]["max"].as_u64().unwrap() > 800_000, "{}", result["response_time_us"]);
    server.stop();
}
