//! An outcome as a line of numbers, for spreadsheets.

use crate::outcome::Outcome;

/// A line of names and a line of values.
pub fn csv(outcome: &Outcome) -> String {
    let times = &outcome.response_time_us;
    let percentile = |us: Option<u64>| us.map_or(String::new(), |us| us.to_string());
    let mut columns: Vec<(&str, String)> = vec![
        ("url", format!("\"{}\"", outcome.plan.url.replace('"', "\"\""))),
        ("connections", outcome.plan.connections.to_string()),
        ("duration_s", outcome.duration_s.to_string()),
        ("due", outcome.offered.as_ref().map_or(String::new(), |offered| offered.due.to_string())),
        ("requests", outcome.requests.to_string()),
        ("requests_per_second", outcome.requests_per_second.to_string()),
        ("errors", outcome.errors.total().to_string()),
        ("bytes_received", outcome.bytes_received.to_string()),
        ("mean_us", times.mean.to_string()),
        ("p50_us", percentile(times.p50)),
        ("p90_us", percentile(times.p90)),
        ("p99_us", percentile(times.p99)),
        ("p99.9_us", percentile(times.p99_9)),
        ("max_us", times.max.to_string()),
        ("client_cpu_us_per_request", outcome.client.cpu_us_per_request.to_string()),
    ];
    let server = outcome.server.as_ref();
    columns.push((
        "server_cpu_us_per_request",
        server.map_or(String::new(), |server| server.cpu_us_per_request.to_string()),
    ));
    columns.push(("verdict", outcome.verdict.word().into()));
    let (names, values): (Vec<&str>, Vec<String>) = columns.into_iter().unzip();
    format!("{}\n{}\n", names.join(","), values.join(","))
}
