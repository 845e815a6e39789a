//! How many system calls a request takes, counted by strace(1).

use std::fs;

use crate::common::{Server, bench, json_of, site};
use crate::faults::{Injection, can_inject};

/// Kept connections, and the requests over them: so many that what connecting takes is next to nothing.
const CONNECTIONS: u64 = 64;
const REQUESTS: u64 = 20_000;

/// The calls of a summary (`strace -c`), without the waits, of which a busy server has one for many requests and an idle one has
/// one for each.
fn calls(summary: &str) -> u64 {
    let count = |line: &str| line.split_whitespace().next()?.parse::<u64>().ok();
    let is_counted = |line: &&str| !line.contains("total") && !line.contains("wait");
    summary.lines().filter(is_counted).filter_map(count).sum()
}

#[test]
fn a_request_over_a_kept_connection_takes_two_beside_its_share_of_a_wait() {
    if !can_inject() {
        return;
    }
    let (site, dir) = (site(), tempfile::tempdir().unwrap());
    let summary = dir.path().join("summary");
    let server = Server::start(site.path(), &["--model", "reuseport", "--reactors", "1"]);
    let watch = ["-c", "--summary-columns=calls,name", "-o", summary.to_str().unwrap()];
    let counting = Injection::with(&server, &watch);
    let (connections, requests) = (CONNECTIONS.to_string(), REQUESTS.to_string());
    let result = json_of(&mut bench(
        &server.url("/1k.html"),
        &["-c", &connections, "-n", &requests, "--warmup", "0s"],
    ));
    drop(counting);
    assert_eq!(result["requests"], REQUESTS, "{result}");
    let text = fs::read_to_string(&summary).unwrap();
    // A few for each connection, and for what the program looks at now and then.
    let (calls, most) = (calls(&text), 2 * REQUESTS + REQUESTS / 50 + 10 * CONNECTIONS);
    assert!((2 * REQUESTS..=most).contains(&calls), "{calls} calls for {REQUESTS} requests: {text}");
    server.stop();
}
