//! `plimsoll capacity` against a server whose capacity is known.

use std::process::Stdio;
use std::thread;

use serde_json::Value;

use crate::common::{Server, plimsoll, site};

/// Searches the capacity of a server of its own: what was found, if anything, and the exit status.
fn run(args: &[&str]) -> (Option<Value>, Option<i32>) {
    let site = site();
    // Four workers with 10 ms for each request: 400 per second at the most.
    let flags = ["--model", "reactor-pool", "--workers", "4", "--work", "10ms"];
    let server = Server::start(site.path(), &flags);
    let mut capacity = plimsoll();
    capacity.args(["capacity", &server.url("/1k.html"), "--json", "-"]).args(args);
    let output = capacity.stdin(Stdio::null()).stderr(Stdio::null()).output().unwrap();
    server.stop();
    (serde_json::from_slice(&output.stdout).ok(), output.status.code())
}

#[test]
fn the_load_that_workers_can_carry_is_found() {
    // Mostly they wait for sleeping workers.
    thread::scope(|scope| {
        scope.spawn(requests_per_second_are_found);
        scope.spawn(clients_are_found);
        scope.spawn(|| assert_eq!(run(&["--slo", "max=1ns", "--probe", "200ms"]).1, Some(1)));
    });
    assert_eq!(run(&["--slo", "p98=1s"]).1, Some(2));
}

fn requests_per_second_are_found() {
    let (found, status) =
        run(&["--slo", "p50=100ms,errors=0.1%", "--probe", "1s", "--precision", "10", "-t", "1"]);
    let found = found.unwrap();
    let (at_least, below) = (found["at_least"].as_f64().unwrap(), found["below"].as_f64().unwrap());
    // Four sleeps of 10 ms at a time cannot be beaten; a busy machine may well stay below.
    assert!(at_least >= 1.0 && below > at_least && at_least < 450.0, "{found:#}");
    assert_eq!(status, Some(if found["confirmed"] == true { 0 } else { 1 }));
    assert!(found["probes"].as_array().unwrap().len() >= 3, "{found:#}");
}

fn clients_are_found() {
    // 40 clients, each of which waits for 10 others' 10 ms, take 100 ms.
    let (found, _) =
        run(&["--clients", "--slo", "p50=100ms", "--probe", "500ms", "--most", "200", "-t", "1"]);
    let at_least = found.as_ref().unwrap()["at_least"].as_f64().unwrap();
    assert!((1.0..50.0).contains(&at_least), "{found:#?}");
}
