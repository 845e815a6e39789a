//! ApacheBench: its command line, and what it prints.

use load::{Outcome, Plan};

use super::text::{after, count};

/// Its words for a load of so many seconds.
pub(super) fn words(plan: &Plan, seconds: &str) -> Vec<String> {
    let kept: &[&str] = if plan.close { &[] } else { &["-k"] };
    let connections = plan.connections.to_string();
    // The limit of requests that -t sets is lifted behind it; ab reserves 32 bytes for each.
    let load = ["-c", &connections, "-t", seconds, "-n", "20000000", &plan.url];
    [&["-q", "-r"], kept, &load].concat().into_iter().map(String::from).collect()
}

/// Reads what ab prints; how many answers had another status than 2xx.
pub(super) fn read(text: &str, outcome: &mut Outcome) -> Option<u64> {
    outcome.requests_per_second = after(text, "Requests per second:")?.parse().ok()?;
    outcome.requests = after(text, "Complete requests:")?.parse().ok()?;
    // "Length" counts answers of another length than the first, which is no failure.
    let kinds = text.lines().find(|line| line.trim_start().starts_with("(Connect:")).unwrap_or_default();
    let failed = |kind: &str| {
        let rest = kinds.split(kind).nth(1)?;
        rest.trim_start_matches([':', ' ']).split([',', ')']).next()?.trim().parse::<u64>().ok()
    };
    outcome.errors.connect_failed = failed("Connect").unwrap_or(0);
    outcome.errors.other = failed("Receive").unwrap_or(0) + failed("Exceptions").unwrap_or(0);
    let millis = |label| Some(after(text, label)?.parse::<f64>().ok()? * 1e3);
    let times = &mut outcome.response_time_us;
    times.mean = millis("Time per request:")?;
    (times.p50, times.p99) = (millis("50%").map(|us| us as u64), millis("99%").map(|us| us as u64));
    Some(count(text, "Non-2xx responses:"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::seen;
    use super::*;

    #[test]
    fn what_ab_prints_is_read() {
        let outcome = seen(
            read,
            "Complete requests:      1000\nFailed requests:        7\n   (Connect: 1, Receive: 2, Length: 3, Exceptions: 4)\n\
             Non-2xx responses:      10\nRequests per second:    2401.58 [#/sec] (mean)\n\
             Time per request:       2.082 [ms] (mean)\nTime per request:       0.416 [ms] (mean, across)\n\
             Percentage\n  50%      2\n  66%      2\n  99%      5\n 100%      9 (longest request)\n",
        );
        assert_eq!((outcome.requests, outcome.requests_per_second), (1000, 2401.58));
        assert_eq!((outcome.errors.connect_failed, outcome.errors.other, outcome.statuses[&500]), (1, 6, 10));
        let times = &outcome.response_time_us;
        assert_eq!((times.mean, times.p50, times.p99), (2082.0, Some(2000), Some(5000)));
    }
}
