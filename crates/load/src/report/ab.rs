//! An outcome as ApacheBench prints it, for scripts that read that.

use std::fmt::{self, Write};

use crate::outcome::{Distribution, Outcome};
use crate::verdict::failed;

/// The outcome in the words of ab 2.3. What ab has and this load does not know is left out; `Failed requests` counts what
/// got no complete answer, `Non-2xx responses` those with another status, as there.
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
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
    let answers = outcome.requests + outcome.drained;
    let ok: u64 = outcome.statuses.iter().filter(|(code, _)| **code / 100 == 2).map(|(_, count)| count).sum();
    let seconds = outcome.duration_s;
    let path = if path.is_empty() { "/" } else { path };
    writeln!(out, "Server Hostname:        {host}")?;
    writeln!(out, "Server Port:            {port}\n")?;
    writeln!(out, "Document Path:          {path}\n")?;
    writeln!(out, "Concurrency Level:      {}", plan.connections)?;
    writeln!(out, "Time taken for tests:   {seconds:.3} seconds")?;
    writeln!(out, "Complete requests:      {}", outcome.requests)?;
    writeln!(out, "Failed requests:        {}", outcome.errors.total())?;
    if answers > ok {
        writeln!(out, "Non-2xx responses:      {}", answers - ok)?;
    }
    if !plan.close {
        writeln!(out, "Keep-Alive requests:    {}", outcome.requests)?;
    }
    writeln!(out, "Total transferred:      {} bytes", outcome.bytes_received)?;
    let mean_ms = outcome.response_time_us.mean / 1e3;
    let across_ms = if outcome.requests > 0 { seconds * 1e3 / outcome.requests as f64 } else { 0.0 };
    writeln!(out, "Requests per second:    {:.2} [#/sec] (mean)", outcome.requests_per_second)?;
    writeln!(out, "Time per request:       {mean_ms:.3} [ms] (mean)")?;
    writeln!(out, "Time per request:       {across_ms:.3} [ms] (mean, across all concurrent requests)")?;
    writeln!(
        out,
        "Transfer rate:          {:.2} [Kbytes/sec] received\n",
        outcome.bytes_per_second / 1024.0
    )?;
    writeln!(out, "Connection Times (ms)")?;
    writeln!(out, "              min  mean[+/-sd] median   max")?;
    for (name, times) in [
        ("Connect:", &outcome.connect_us),
        ("Waiting:", &outcome.first_byte_us),
        ("Total:", &outcome.response_time_us),
    ] {
        let ms = |us: f64| us / 1e3;
        writeln!(
            out,
            "{name:<10} {:>6.0} {:>5.0} {:>5.1} {:>6.0} {:>7.0}",
            ms(times.min as f64),
            ms(times.mean),
            ms(times.stddev),
            ms(times.p50.unwrap_or(times.max) as f64),
            ms(times.max as f64)
        )?;
    }
    write_percentiles(out, &outcome.response_time_us)?;
    debug_assert!(failed(outcome) >= outcome.errors.total());
    Ok(())
}

fn write_percentiles(out: &mut String, times: &Distribution) -> fmt::Result {
    writeln!(out, "\nPercentage of the requests served within a certain time (ms)")?;
    for (percent, us) in [
        (50, times.p50),
        (75, times.p75),
        (90, times.p90),
        (95, times.p95),
        (99, times.p99),
        (100, Some(times.max)),
    ] {
        let Some(us) = us else { continue };
        let longest = if percent == 100 { " (longest request)" } else { "" };
        writeln!(out, "{percent:>3}% {:>6.0}{longest}", us as f64 / 1e3)?;
    }
    Ok(())
}
