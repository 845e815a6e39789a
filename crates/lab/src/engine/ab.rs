//! ApacheBench: its command line, what it prints, and the file of percentiles that it writes.

use load::{Distribution, Outcome, Plan, Stop};

use super::Tool;
use super::text::{after, count};
use crate::plan::MOST_OF_AB;

/// ApacheBench. What it prints is in whole milliseconds; the file that `-e` names has microseconds.
pub(super) const TOOL: Tool = Tool { words, read, file: Some("-e") };

/// First line of the file of percentiles.
const PERCENTILES: &str = "Percentage served,Time in ms";

/// Its words for a load of so many seconds, or of a number of requests if that is over first.
fn words(plan: &Plan, seconds: &str) -> Vec<String> {
    let kept: &[&str] = if plan.close { &[] } else { &["-k"] };
    let connections = plan.connections.to_string();
    let requests = match plan.stop {
        Stop::Requests(requests) => requests,
        // More than there is time for.
        Stop::Seconds(_) => MOST_OF_AB,
    };
    // -t sets a limit of requests too, which the one behind it takes the place of.
    let load = ["-c", &connections, "-t", seconds, "-n", &requests.to_string(), &plan.url];
    [&["-q", "-r"], kept, &load].concat().into_iter().map(String::from).collect()
}

/// Reads what ab prints, and its file behind it; how many answers had another status than 2xx.
fn read(text: &str, outcome: &mut Outcome) -> Option<u64> {
    outcome.requests_per_second = after(text, "Requests per second:")?.parse().ok()?;
    outcome.requests = after(text, "Complete requests:")?.parse().ok()?;
    outcome.bytes_received = count(text, "Total transferred:");
    // "Length" counts answers of another length than the first, which is no failure.
    let kinds = text.lines().find(|line| line.trim_start().starts_with("(Connect:")).unwrap_or_default();
    let failed = |kind: &str| {
        let rest = kinds.split(kind).nth(1)?;
        rest.trim_start_matches([':', ' ']).split([',', ')']).next()?.trim().parse::<u64>().ok()
    };
    outcome.errors.connect_failed = failed("Connect").unwrap_or(0);
    outcome.errors.other = failed("Receive").unwrap_or(0) + failed("Exceptions").unwrap_or(0);
    let requests = outcome.requests;
    let row = |label| times(text, label, requests);
    outcome.connect_us = row("Connect:").unwrap_or_default();
    (outcome.processing_us, outcome.waiting_us) = (row("Processing:"), row("Waiting:"));
    outcome.response_time_us = row("Total:").unwrap_or_default();
    outcome.response_time_us.mean = after(text, "Time per request:")?.parse::<f64>().ok()? * 1e3;
    percentiles(text, &mut outcome.response_time_us);
    Some(count(text, "Non-2xx responses:"))
}

/// A row of the connection times: min, mean, deviation, median and max, in milliseconds.
fn times(text: &str, label: &str, requests: u64) -> Option<Distribution> {
    let row = text.lines().find_map(|line| line.trim_start().strip_prefix(label))?;
    let figures: Option<Vec<f64>> =
        row.split_whitespace().map(|figure| Some(figure.parse::<f64>().ok()? * 1e3)).collect();
    let [min, mean, stddev, median, max] = figures?[..] else { return None };
    Some(Distribution {
        count: requests,
        min: min as u64,
        mean,
        stddev,
        max: max as u64,
        p50: Some(median as u64),
        ..Distribution::default()
    })
}

/// Reads the percentiles: those of the file, and where it is missing those that were printed.
fn percentiles(text: &str, times: &mut Distribution) {
    let mut us: Vec<(u32, u64)> = Vec::new();
    let rows = text.split_once(PERCENTILES).map_or("", |(_, rows)| rows);
    for (percent, ms) in rows.lines().filter_map(|line| line.split_once(',')) {
        if let (Ok(percent), Ok(ms)) = (percent.parse(), ms.parse::<f64>()) {
            us.push((percent, (ms * 1e3).round() as u64));
        }
    }
    let at = |percent: u32| match us.iter().find(|(of, _)| *of == percent) {
        Some((_, us)) => Some(*us),
        None => after(text, &format!("{percent}%"))?.parse::<u64>().ok().map(|ms| ms * 1000),
    };
    let shortest = at(0).unwrap_or(times.min);
    let longest = at(100).unwrap_or(times.max);
    (times.min, times.max) = (shortest, longest);
    (times.p50, times.p75, times.p90) = (at(50), at(75), at(90));
    (times.p95, times.p99) = (at(95), at(99));
}

#[cfg(test)]
mod tests {
    use super::super::tests::seen;
    use super::*;

    /// As version 2.3 prints it.
    const PRINTED: &str = "Time taken for tests:   0.416 seconds\nComplete requests:      1000\nFailed requests:        7\n\
        \x20  (Connect: 1, Receive: 2, Length: 3, Exceptions: 4)\nNon-2xx responses:      10\n\
        Total transferred:      68000 bytes\nHTML transferred:       26000 bytes\n\
        Requests per second:    2401.58 [#/sec] (mean)\nTime per request:       2.082 [ms] (mean)\n\
        Time per request:       0.416 [ms] (mean, across)\n\
        Transfer rate:          159.48 [Kbytes/sec] received\n\nConnection Times (ms)\n\
        \x20             min  mean[+/-sd] median   max\nConnect:        0    0   0.1      0       1\n\
        Processing:     0    2   6.8      1      66\nWaiting:        0    2   6.7      1      65\n\
        Total:          0    2   6.8      1      67\n\nPercentage of the requests served within a certain time (ms)\n\
        \x20 50%      2\n  66%      2\n  99%      5\n 100%      9 (longest request)\n";

    #[test]
    fn its_words_end_a_load_by_time_or_by_requests() {
        let plan = Plan { connections: 5, close: true, stop: Stop::Requests(1000), ..Plan::new("http://x/") };
        assert_eq!(words(&plan, "3").join(" "), "-q -r -c 5 -t 3 -n 1000 http://x/");
        let plan = Plan { stop: Stop::Seconds(3.0), close: false, ..plan };
        assert_eq!(words(&plan, "3").join(" "), "-q -r -k -c 5 -t 3 -n 20000000 http://x/");
    }

    #[test]
    fn what_ab_prints_is_read() {
        let outcome = seen(read, PRINTED);
        assert_eq!((outcome.requests, outcome.requests_per_second), (1000, 2401.58));
        assert_eq!((outcome.errors.connect_failed, outcome.errors.other, outcome.statuses[&500]), (1, 6, 10));
        assert_eq!(outcome.bytes_received, 68_000);
        let times = &outcome.response_time_us;
        assert_eq!((times.mean, times.p50, times.p99), (2082.0, Some(2000), Some(5000)));
        assert_eq!((times.stddev, times.max), (6800.0, 9000));
    }

    #[test]
    fn its_table_of_connection_times_is_kept() {
        let outcome = seen(read, PRINTED);
        let row = |times: &Distribution| (times.min, times.mean, times.stddev, times.p50, times.max);
        assert_eq!(row(&outcome.connect_us), (0, 0.0, 100.0, Some(0), 1000));
        assert_eq!(row(&outcome.waiting_us.unwrap()), (0, 2000.0, 6700.0, Some(1000), 65_000));
        let processing = outcome.processing_us.unwrap();
        assert_eq!(row(&processing), (0, 2000.0, 6800.0, Some(1000), 66_000));
        assert_eq!(processing.count, 1000);
    }

    #[test]
    fn times_below_a_millisecond_are_those_of_its_file() {
        let file =
            "Percentage served,Time in ms\n0,0.258\n50,0.612\n75,0.7\n90,1.001\n95,2\n99,7.269\n100,16.264\n";
        let outcome = seen(read, &[PRINTED, file].concat());
        let times = &outcome.response_time_us;
        assert_eq!((times.min, times.p50, times.p75, times.p90), (258, Some(612), Some(700), Some(1001)));
        assert_eq!((times.p95, times.p99, times.max), (Some(2000), Some(7269), 16_264));
    }
}
