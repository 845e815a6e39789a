//! wrk: its command line, and what it prints.

use load::{Outcome, Plan};

use super::Tool;
use super::text::{after, bytes, count, micros};

/// wrk.
pub(super) const TOOL: Tool = Tool { words, read, file: None };

/// Its words for a load of so many seconds.
fn words(plan: &Plan, seconds: &str) -> Vec<String> {
    let (threads, connections) = (plan.threads().to_string(), plan.connections.to_string());
    let close: &[&str] = if plan.close { &["-H", "Connection: close"] } else { &[] };
    let load = ["--latency", "-t", &threads, "-c", &connections, "-d", seconds];
    [&load, close, &[&plan.url]].concat().into_iter().map(String::from).collect()
}

/// Reads what wrk prints.
fn read(text: &str, outcome: &mut Outcome) -> Option<u64> {
    outcome.requests_per_second = after(text, "Requests/sec:")?.parse().ok()?;
    let line = text.lines().find(|line| line.contains(" requests in "))?;
    outcome.requests = line.split_whitespace().next()?.parse().ok()?;
    outcome.bytes_received = line.split_whitespace().rev().nth(1).and_then(bytes).unwrap_or(0.0) as u64;
    let times = &mut outcome.response_time_us;
    times.mean = micros(after(text, "Latency")?)?;
    let time = |label| Some(micros(after(text, label)?)? as u64);
    (times.p50, times.p99) = (time("50%"), time("99%"));
    if let Some(errors) = text.lines().find(|line| line.contains("Socket errors:")) {
        let mut numbers =
            errors.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok());
        let mut next = || numbers.next().unwrap_or(0);
        outcome.errors.connect_failed = next();
        outcome.errors.other = next() + next();
        outcome.errors.first_byte_timeout = next();
    }
    Some(count(text, "Non-2xx or 3xx responses:"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::seen;
    use super::*;

    #[test]
    fn what_wrk_prints_is_read() {
        let outcome = seen(
            read,
            "Running 2s test @ http://x/\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency   612.34us  1.2ms 20ms 90%\n\
             \x20   Req/Sec    10k\n  Latency Distribution\n     50%  450.00us\n     75%    1.00ms\n     99%    3.20ms\n\
             \x20 33886 requests in 20.00s, 4MB read\n  Socket errors: connect 1, read 2, write 3, timeout 1677\n\
             Requests/sec:  33886.12\nTransfer/sec:  1MB\n",
        );
        assert_eq!((outcome.requests, outcome.requests_per_second), (33886, 33886.12));
        assert_eq!(outcome.bytes_received, 4 << 20);
        let errors = outcome.errors;
        assert_eq!((errors.connect_failed, errors.other, errors.first_byte_timeout), (1, 5, 1677));
        let times = &outcome.response_time_us;
        assert_eq!((times.mean, times.p50, times.p99), (612.34, Some(450), Some(3200)));
    }
}
