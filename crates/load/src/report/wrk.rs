//! An outcome as wrk prints it, for scripts that read that.

use std::fmt::{self, Write};

use super::duration;
use crate::outcome::Outcome;

/// The outcome in the words of `wrk --latency` 4.1. What wrk says of its threads' spread is left out: it is not known here.
pub fn wrk(outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut text, outcome);
    text
}

fn write(out: &mut String, outcome: &Outcome) -> fmt::Result {
    let (plan, times, errors) = (&outcome.plan, &outcome.response_time_us, &outcome.errors);
    let short = |us: f64| duration(us).replace(' ', "");
    writeln!(out, "Running {:.0}s test @ {}", outcome.duration_s, plan.url)?;
    writeln!(out, "  {} threads and {} connections", outcome.threads, plan.connections)?;
    writeln!(out, "  Thread Stats   Avg      Stdev     Max")?;
    let (mean, sd, max) = (short(times.mean), short(times.stddev), short(times.max as f64));
    writeln!(out, "    Latency   {mean:>8}  {sd:>8}  {max:>8}")?;
    writeln!(out, "  Latency Distribution")?;
    for (percent, us) in [(50, times.p50), (75, times.p75), (90, times.p90), (99, times.p99)] {
        let us = us.map_or("n/a".into(), |us| short(us as f64));
        writeln!(out, "     {percent}%   {us}")?;
    }
    let (requests, seconds) = (outcome.requests, outcome.duration_s);
    writeln!(out, "  {requests} requests in {seconds:.2}s, {} read", bytes(outcome.bytes_received as f64))?;
    let connect = errors.connect_refused + errors.connect_timeout + errors.connect_failed;
    let read = errors.reset + errors.short_response + errors.closed_early + errors.malformed + errors.other;
    if errors.total() > 0 {
        let timeout = errors.timeouts() - errors.connect_timeout;
        writeln!(out, "  Socket errors: connect {connect}, read {read}, write 0, timeout {timeout}")?;
    }
    let bad: u64 = outcome.statuses.iter().filter(|(code, _)| **code > 399).map(|(_, count)| count).sum();
    if bad > 0 {
        writeln!(out, "  Non-2xx or 3xx responses: {bad}")?;
    }
    writeln!(out, "Requests/sec: {:>10.2}", outcome.requests_per_second)?;
    writeln!(out, "Transfer/sec: {:>10}", bytes(outcome.bytes_per_second))
}

/// A number of bytes as wrk has it: `1.23MB`, of 1024 each.
fn bytes(bytes: f64) -> String {
    super::bytes(bytes).replace("iB", "B").replace(' ', "")
}
