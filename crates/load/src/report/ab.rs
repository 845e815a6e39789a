//! An outcome as ApacheBench prints it, for scripts that read that.

use std::fmt::{self, Write};

use super::Samples;
use crate::outcome::{Distribution, Outcome};

/// The outcome in the words of ab 2.3, line for line but for its greeting. `Failed requests` counts what got no complete answer
/// or not the expected one, `Non-2xx responses` those with another status, as there. `Document Length` is the mean, which is that
/// of the first answer where all are alike; `Processing` is `Total` less `Connect`, figure by figure. As in ab, the percentiles are
/// there however few the requests are.
pub fn ab(outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut text, outcome);
    text
}

fn write(out: &mut String, outcome: &Outcome) -> fmt::Result {
    let plan = &outcome.plan;
    let rest = plan.url.strip_prefix("http://").unwrap_or(&plan.url);
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // Within brackets a colon belongs to an IPv6 address.
    let port = authority.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
    let (host, port) = port.unwrap_or((authority, "80"));
    let path = if path.is_empty() { "/" } else { path };
    writeln!(out, "Server Software:        ")?;
    writeln!(out, "Server Hostname:        {host}")?;
    writeln!(out, "Server Port:            {port}\n")?;
    writeln!(out, "Document Path:          {path}")?;
    writeln!(
        out,
        "Document Length:        {} bytes\n",
        outcome.content_bytes.checked_div(outcome.answered()).unwrap_or_default()
    )?;
    write_counts(out, outcome)?;
    write_times(out, outcome)?;
    write_percentiles(out, outcome)
}

fn write_counts(out: &mut String, outcome: &Outcome) -> fmt::Result {
    let (plan, errors, seconds) = (&outcome.plan, &outcome.errors, outcome.duration_s);
    let answers = outcome.requests + outcome.drained;
    let ok: u64 = outcome.statuses.iter().filter(|(code, _)| **code / 100 == 2).map(|(_, count)| count).sum();
    writeln!(out, "Concurrency Level:      {}", plan.connections)?;
    writeln!(out, "Time taken for tests:   {seconds:.3} seconds")?;
    // Well or not; ab itself gives up where a connection cannot be made.
    let complete = outcome.requests + errors.total() - errors.connecting();
    writeln!(out, "Complete requests:      {complete}")?;
    writeln!(out, "Failed requests:        {}", errors.total())?;
    if errors.total() > 0 {
        let connect = errors.connecting();
        let receive = errors.reset + errors.short_response + errors.closed_early;
        let exceptions = errors.total() - connect - receive - errors.bad_body;
        writeln!(
            out,
            "   (Connect: {connect}, Receive: {receive}, Length: {}, Exceptions: {exceptions})",
            errors.bad_body
        )?;
    }
    let unexpected = outcome.unexpected_statuses.iter().filter(|(code, _)| **code / 100 != 2);
    let others = answers - ok + unexpected.map(|(_, count)| count).sum::<u64>();
    if others > 0 {
        writeln!(out, "Non-2xx responses:      {others}")?;
    }
    if !plan.close {
        // Each connection beyond the first ones is there because one was not kept.
        let closed = outcome.connect_us.count.saturating_sub(plan.connections.into());
        let kept = outcome.requests.saturating_sub(closed);
        writeln!(out, "Keep-Alive requests:    {kept}")?;
    }
    writeln!(out, "Total transferred:      {} bytes", outcome.bytes_received)?;
    writeln!(out, "HTML transferred:       {} bytes", outcome.content_bytes)?;
    let across_ms = if complete > 0 { seconds * 1e3 / complete as f64 } else { 0.0 };
    let mean_ms = across_ms * f64::from(plan.connections);
    writeln!(out, "Requests per second:    {:.2} [#/sec] (mean)", outcome.requests_per_second)?;
    writeln!(out, "Time per request:       {mean_ms:.3} [ms] (mean)")?;
    writeln!(out, "Time per request:       {across_ms:.3} [ms] (mean, across all concurrent requests)")?;
    writeln!(out, "Transfer rate:          {:.2} [Kbytes/sec] received\n", outcome.bytes_per_second / 1024.0)
}

/// Figures of some times, in microseconds.
#[derive(Clone, Copy)]
struct Row {
    min: f64,
    mean: f64,
    stddev: f64,
    median: f64,
    max: f64,
}

impl Row {
    fn of(times: &Distribution, median: u64) -> Row {
        let Distribution { min, mean, stddev, max, .. } = *times;
        Row { min: min as f64, mean, stddev, median: median as f64, max: max as f64 }
    }

    fn less(self, other: Row) -> Row {
        Row {
            min: (self.min - other.min).max(0.0),
            mean: (self.mean - other.mean).max(0.0),
            stddev: self.stddev,
            median: (self.median - other.median).max(0.0),
            max: (self.max - other.max).max(0.0),
        }
    }
}

fn write_times(out: &mut String, outcome: &Outcome) -> fmt::Result {
    let (times, connect) = (&outcome.response_time_us, &outcome.connect_us);
    // Where few samples support it, it is the best there is.
    let median = |times: &Distribution| times.p50.unwrap_or(times.mean as u64);
    let total = Row::of(times, Samples::of(outcome).at(0.5).unwrap_or_else(|| median(times)));
    let every = connect.count >= outcome.requests;
    let none = Row { min: 0.0, mean: 0.0, stddev: 0.0, median: 0.0, max: 0.0 };
    // A connection that is kept costs the others nothing.
    let connect = if every { Row::of(connect, median(connect)) } else { none };
    let first_byte = Row::of(&outcome.first_byte_us, median(&outcome.first_byte_us));
    writeln!(out, "Connection Times (ms)")?;
    writeln!(out, "              min  mean[+/-sd] median   max")?;
    for (name, row) in [
        ("Connect:", connect),
        ("Processing:", total.less(connect)),
        ("Waiting:", first_byte.less(connect)),
        ("Total:", total),
    ] {
        let ms = |us: f64| us / 1e3;
        writeln!(
            out,
            "{name:<11} {:>5.0} {:>4.0} {:>5.1} {:>6.0} {:>7.0}",
            ms(row.min),
            ms(row.mean),
            ms(row.stddev),
            ms(row.median),
            ms(row.max)
        )?;
    }
    Ok(())
}

fn write_percentiles(out: &mut String, outcome: &Outcome) -> fmt::Result {
    let samples = Samples::of(outcome);
    if outcome.response_time_us.count == 0 {
        return Ok(());
    }
    writeln!(out, "\nPercentage of the requests served within a certain time (ms)")?;
    for percent in [50, 66, 75, 80, 90, 95, 98, 99] {
        let Some(us) = samples.at(f64::from(percent) / 100.0) else { continue };
        writeln!(out, "{percent:>4}%  {:>5.0}", us as f64 / 1e3)?;
    }
    writeln!(out, " 100%  {:>5.0} (longest request)", outcome.response_time_us.max as f64 / 1e3)
}
