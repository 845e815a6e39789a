//! An outcome as a person reads it.

mod ab;
mod csv;
mod wrk;

use std::fmt::{self, Write};

use hdrhistogram::Histogram;

use crate::outcome::{Distribution, Outcome};
use crate::plan::{Arrivals, Spacing};
use crate::sample::ServerUse;

pub use ab::ab;
pub use csv::csv;
pub use wrk::wrk;

/// The response times of an outcome, for forms that tell more of them than it does.
pub(crate) struct Samples {
    times: Option<Histogram<u64>>,
    /// The longest, as it was.
    longest: u64,
}

impl Samples {
    pub(crate) fn of(outcome: &Outcome) -> Samples {
        let times = crate::hdr::decode(&outcome.response_time_histogram).ok();
        let longest = outcome.response_time_us.max;
        Samples { times: times.filter(|times| !times.is_empty()), longest }
    }

    /// The time in microseconds that so many of them took at most, however few there are.
    pub(crate) fn at(&self, part: f64) -> Option<u64> {
        self.times.as_ref().map(|times| times.value_at_quantile(part).min(self.longest))
    }

    /// The share of those that took from one time to another, in microseconds.
    fn within(&self, from: f64, to: f64) -> f64 {
        let count = |times: &Histogram<u64>| {
            times.count_between(from.max(0.0) as u64, to.max(0.0) as u64) as f64 / times.len() as f64
        };
        self.times.as_ref().map_or(0.0, count)
    }
}

/// The whole outcome in some lines of text.
pub fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_summary(&mut text, outcome);
    text
}

fn write_summary(out: &mut String, outcome: &Outcome) -> fmt::Result {
    let plan = &outcome.plan;
    let kind = if plan.close { "a connection per request" } else { "keep-alive" };
    writeln!(out, "{} {}", plan.method, plan.url)?;
    writeln!(
        out,
        "  {}, {} connections, {kind}, {} threads, {:.2} s",
        arrivals(&plan.arrivals),
        plan.connections,
        outcome.threads,
        outcome.duration_s
    )?;
    writeln!(out)?;
    write_counts(out, outcome)?;
    writeln!(out)?;
    write_times(out, &outcome.response_time_us)?;
    if outcome.censored > 0 {
        writeln!(
            out,
            "    {} of these never ended, and count with how long they had taken",
            outcome.censored
        )?;
    }
    write_parts(out, outcome)?;
    writeln!(out)?;
    let client = &outcome.client;
    writeln!(
        out,
        "  client         {:>9.2} us of CPU per request, busiest thread {:.0} % of a core",
        client.cpu_us_per_request,
        client.busiest_thread_share * 100.0
    )?;
    if let Some(server) = &outcome.server {
        let ServerUse { cpu_us_per_request, peak_rss_bytes, window_s, cpu_s, .. } = server;
        writeln!(
            out,
            "  server         {cpu_us_per_request:>9.2} us of CPU per request, {:.2} cores, at most {} resident",
            cpu_s / window_s.max(1e-9),
            bytes(*peak_rss_bytes as f64)
        )?;
        let (voluntary, involuntary) = (server.voluntary_switches, server.involuntary_switches);
        writeln!(out, "    switches       {voluntary} voluntary, {involuntary} involuntary")?;
        for thread in server.threads.iter().filter(|thread| thread.cpu_share >= 0.01).take(8) {
            writeln!(out, "    {:<16} {:>3.0} % of a core", thread.name, thread.cpu_share * 100.0)?;
        }
    }
    writeln!(out)?;
    writeln!(out, "{}", outcome.verdict.word())?;
    for reason in outcome.verdict.reasons() {
        writeln!(out, "  {reason}")?;
    }
    Ok(())
}

/// How many requests, bytes, answers and errors.
fn write_counts(out: &mut String, outcome: &Outcome) -> fmt::Result {
    writeln!(
        out,
        "  requests       {:>12}   {:.1} per second",
        outcome.requests, outcome.requests_per_second
    )?;
    writeln!(
        out,
        "  received       {:>12}   {} per second",
        bytes(outcome.bytes_received as f64),
        bytes(outcome.bytes_per_second)
    )?;
    if outcome.carried_over > 0 {
        writeln!(
            out,
            "  of before      {:>12}   due before measuring, answered in it: in the rate, not in the times",
            outcome.carried_over
        )?;
    }
    for (code, count) in &outcome.statuses {
        writeln!(out, "  status {code}     {count:>12}")?;
    }
    writeln!(out, "  errors         {:>12}", outcome.errors.total())?;
    for (name, count) in outcome.errors.named().into_iter().filter(|(_, count)| *count > 0) {
        writeln!(out, "    {:<16} {count:>8}", name.replace('_', " "))?;
    }
    for (code, count) in &outcome.unexpected_statuses {
        writeln!(out, "    status {code}       {count:>8}   not expected")?;
    }
    if outcome.drained > 0 {
        writeln!(
            out,
            "  after the end  {:>12}   complete, in the times below, not in the rate",
            outcome.drained
        )?;
    }
    if outcome.reconnects > 0 {
        writeln!(
            out,
            "  reconnected    {:>12}   no errors: the server had ended idle connections",
            outcome.reconnects
        )?;
    }
    if let Some(offered) = &outcome.offered {
        writeln!(out, "  due            {:>12}   {:.1} per second", offered.due, offered.due_per_second)?;
        writeln!(out, "  never sent     {:>12}", offered.unsent)?;
    }
    Ok(())
}

/// When requests were sent, in a few words.
fn arrivals(arrivals: &Arrivals) -> String {
    match arrivals {
        Arrivals::Closed { think_s: 0.0 } => "closed loop".into(),
        Arrivals::Closed { think_s } => format!("closed loop, {} between requests", duration(think_s * 1e6)),
        Arrivals::Open { rate, spacing, session, .. } => {
            let spacing = match spacing {
                Spacing::Constant => "evenly",
                Spacing::Poisson => "at random",
            };
            let what = if session.is_some() { "sessions" } else { "requests" };
            format!("open loop, {:.0} {what} per second in the long run, {spacing}", rate.in_the_long_run())
        }
        Arrivals::Replay { log, speed } => format!("open loop, as {} has it, {speed} x", log.display()),
    }
}

/// The parts of the response time, a line for each.
fn write_parts(out: &mut String, outcome: &Outcome) -> fmt::Result {
    let offered = outcome.offered.as_ref();
    let parts = [
        ("send lag", offered.map(|offered| &offered.send_lag_us)),
        ("service time", offered.map(|offered| &offered.service_time_us)),
        ("connect", Some(&outcome.connect_us)),
        ("first byte", Some(&outcome.first_byte_us)),
        ("transfer", Some(&outcome.transfer_us)),
        ("failed after", Some(&outcome.failed_us)),
    ];
    writeln!(out, "  of which")?;
    for (name, times) in parts {
        let Some(times) = times.filter(|times| times.count > 0) else { continue };
        let at = |us: Option<u64>| us.map_or("n/a".into(), |us| duration(us as f64));
        let (p50, p99, max) = (at(times.p50), at(times.p99), duration(times.max as f64));
        writeln!(out, "    {name:<14} p50 {p50:>10}   p99 {p99:>10}   max {max:>10}")?;
    }
    Ok(())
}

fn write_times(out: &mut String, times: &Distribution) -> fmt::Result {
    writeln!(out, "  response time")?;
    if times.count == 0 {
        return writeln!(out, "    no request got an answer");
    }
    let all = times.percentiles();
    let known = all.iter().take_while(|(_, us)| us.is_some()).count();
    for (name, us) in all.iter().filter_map(|(name, us)| Some((name, (*us)?))) {
        writeln!(out, "    {name:<8} {:>10}", duration(us as f64))?;
    }
    match &all[known..] {
        [] => {}
        [(only, _)] => writeln!(out, "    {only:<8} {:>10}   (fewer than 100 samples beyond it)", "n/a")?,
        [(first, _), .., (last, _)] => {
            writeln!(out, "    {first} to {last}: n/a (fewer than 100 samples beyond them)")?;
        }
    }
    writeln!(out, "    {:<8} {:>10}", "max", duration(times.max as f64))?;
    writeln!(out, "    {:<8} {:>10}   (sd {})", "mean", duration(times.mean), duration(times.stddev))
}

/// A time in the unit that suits it.
pub fn duration(us: f64) -> String {
    match us {
        ..1e3 => format!("{us:.0} us"),
        ..1e6 => format!("{:.2} ms", us / 1e3),
        _ => format!("{:.2} s", us / 1e6),
    }
}

/// A number of bytes in the unit that suits it.
pub fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let step = (0..UNITS.len() - 1).take_while(|step| bytes >= 1024f64.powi(*step as i32 + 1)).count();
    let decimals = if step == 0 { 0 } else { 2 };
    format!("{:.decimals$} {}", bytes / 1024f64.powi(step as i32), UNITS[step])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_suit_the_number() {
        assert_eq!([duration(12.0), duration(1500.0), duration(2.5e6)], ["12 us", "1.50 ms", "2.50 s"]);
        assert_eq!(
            [bytes(0.0), bytes(1023.0), bytes(1536.0), bytes(3e9)],
            ["0 B", "1023 B", "1.50 KiB", "2.79 GiB"]
        );
    }

    /// A load of 200 requests, a second of which had 150: half took a millisecond, half 3.
    fn known() -> Outcome {
        let mut times = Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 3).unwrap();
        times.record_n(1_000, 100).unwrap();
        times.record_n(3_000, 100).unwrap();
        let mut outcome = Outcome::empty(&crate::Plan::new("http://127.0.0.1:81/a/b"));
        outcome.response_time_us = crate::recorded::distribution(&times);
        outcome.response_time_histogram = crate::hdr::encode(&times);
        (outcome.requests, outcome.duration_s, outcome.requests_per_second) = (200, 2.0, 100.0);
        (outcome.content_bytes, outcome.bytes_received, outcome.threads) = (2_000, 4_000, 1);
        outcome.statuses.insert(200, 200);
        let second =
            |at_s, requests| crate::Second { at_s, requests, length_s: 1, ..crate::Second::default() };
        outcome.timeline = vec![second(0, 150), second(1, 50)];
        outcome
    }

    #[test]
    fn what_ab_prints_is_there_line_for_line() {
        let text = ab(&known());
        for line in [
            "Server Hostname:        127.0.0.1",
            "Server Port:            81",
            "Document Path:          /a/b",
            "Document Length:        10 bytes",
            "Complete requests:      200",
            "Failed requests:        0",
            "HTML transferred:       2000 bytes",
            // 64 connections for 2 s, and 200 requests.
            "Time per request:       640.000 [ms] (mean)",
            "Connect:        0    0   0.0      0       0",
            "Processing:     1    2   1.0      1       3",
            "Total:          1    2   1.0      1       3",
            "  50%      1",
            "  66%      3",
            "  80%      3",
            "  98%      3",
            "  99%      3",
            " 100%      3 (longest request)",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        let mut failed = known();
        (failed.errors.reset, failed.errors.connect_refused, failed.errors.first_byte_timeout) = (3, 2, 1);
        failed.plan.url = "http://[::1]/".into();
        let text = ab(&failed);
        assert!(text.contains("   (Connect: 2, Receive: 3, Length: 0, Exceptions: 1)\n"), "{text}");
        // As in ab a request is complete once it is over, but for a connection that was never made.
        assert!(text.contains("Complete requests:      204\n"), "{text}");
        assert!(text.contains("Server Hostname:        [::1]\nServer Port:            80\n"), "{text}");
    }

    #[test]
    fn statuses_that_were_not_expected_are_told_as_those_tools_tell_them() {
        let mut outcome = known();
        (outcome.requests, outcome.errors.bad_status) = (0, 200);
        (outcome.statuses, outcome.unexpected_statuses) = Default::default();
        outcome.unexpected_statuses.extend([(404, 150), (302, 50)]);
        let (ab, wrk) = (ab(&outcome), wrk(&outcome));
        assert!(ab.contains("Non-2xx responses:      200\n"), "{ab}");
        assert!(wrk.contains("  Non-2xx or 3xx responses: 150\n") && !wrk.contains("Socket errors"), "{wrk}");
    }

    #[test]
    fn what_wrk_prints_is_there_line_for_line() {
        let text = wrk(&known());
        for line in [
            "Running 2s test @ http://127.0.0.1:81/a/b",
            "  1 threads and 64 connections",
            "  Thread Stats   Avg      Stdev     Max   +/- Stdev",
            "    Latency     2.00ms    1.00ms   3.00ms  100.00%",
            "    Req/Sec   100.00     50.00   150.00    100.00%",
            "     50%    1.00ms",
            "     99%    3.00ms",
            "  200 requests in 2.00s, 3.91KB read",
            "Requests/sec:    100.00",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
