//! h2load, speaking HTTP/1.1: its command line, and what it prints.

use load::{Outcome, Plan};

use super::Tool;
use super::text::{micros, number_before};

/// h2load.
pub(super) const TOOL: Tool = Tool { words, read, file: None };

/// Its words for a load of so many seconds.
fn words(plan: &Plan, seconds: &str) -> Vec<String> {
    let (threads, connections) = (plan.threads().to_string(), plan.connections.to_string());
    let close: &[&str] = if plan.close { &["-H", "Connection: close"] } else { &[] };
    let load = ["--h1", "-t", &threads, "-c", &connections, "-D", seconds];
    [&load, close, &[&plan.url]].concat().into_iter().map(String::from).collect()
}

/// Reads what h2load prints; it knows no percentiles.
fn read(text: &str, outcome: &mut Outcome) -> Option<u64> {
    let line = |start: &str| text.lines().find(|line| line.starts_with(start));
    outcome.requests_per_second = line("finished in")?.split(", ").nth(1)?.split(' ').next()?.parse().ok()?;
    let requests = line("requests:")?;
    outcome.requests = number_before(requests, "done");
    outcome.errors.other = number_before(requests, "errored");
    outcome.errors.first_byte_timeout = number_before(requests, "timeout");
    let traffic = line("traffic:").and_then(|line| line.split_once('(')?.1.split(')').next()?.parse().ok());
    outcome.bytes_received = traffic.unwrap_or(0);
    // Its columns are min, max, mean.
    outcome.response_time_us.mean = micros(line("time for request:")?.split_whitespace().nth(5)?)?;
    let codes = line("status codes:").unwrap_or_default();
    Some(number_before(codes, "4xx") + number_before(codes, "5xx"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::seen;
    use super::*;

    #[test]
    fn what_h2load_prints_is_read() {
        let outcome = seen(
            read,
            "finished in 2.00s, 145000.50 req/s, 10MB/s\n\
             requests: 290001 total, 290001 started, 290001 done, 289990 succeeded, 11 failed, 3 errored, 2 timeout\n\
             status codes: 289980 2xx, 0 3xx, 8 4xx, 2 5xx\n\
             traffic: 18.63MB (19536084) total, 2.77MB (2907984) headers\n                     min         max         mean         sd        +/- sd\n\
             time for request:       30us      5.00ms       441us       100us    90.00%\n",
        );
        assert_eq!((outcome.requests, outcome.requests_per_second), (290_001, 145_000.5));
        assert_eq!((outcome.errors.other, outcome.errors.first_byte_timeout), (3, 2));
        assert_eq!((outcome.statuses[&500], outcome.response_time_us.mean), (10, 441.0));
        assert_eq!(outcome.bytes_received, 19_536_084);
    }
}
