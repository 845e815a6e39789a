//! An outcome as wrk prints it, for scripts that read that.

use std::fmt::{self, Write};

use super::Samples;
use crate::outcome::Outcome;

/// The outcome in the words of `wrk --latency` 4.1, line for line. `Req/Sec` is what a thread did in each second, where wrk takes
/// tenths of one. As there, the percentiles are told however few the requests are.
pub fn wrk(outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut text, outcome);
    text
}

fn write(out: &mut String, outcome: &Outcome) -> fmt::Result {
    let (plan, times, errors) = (&outcome.plan, &outcome.response_time_us, &outcome.errors);
    let samples = Samples::of(outcome);
    writeln!(out, "Running {} test @ {}", scaled(outcome.duration_s, 60.0, &["s", "m", "h"], 0), plan.url)?;
    writeln!(out, "  {} threads and {} connections", outcome.threads, plan.connections)?;
    writeln!(out, "  Thread Stats{:>6}{:>11}{:>8}{:>12}", "Avg", "Stdev", "Max", "+/- Stdev")?;
    let within = samples.within(times.mean - times.stddev, times.mean + times.stddev);
    let columns =
        |mean: String, sd: String, max: String| (column(&mean, 8), column(&sd, 10), column(&max, 9));
    let (mean, sd, max) = columns(time(times.mean), time(times.stddev), time(times.max as f64));
    writeln!(out, "    Latency   {mean}{sd}{max}{:>8.2}%", within * 100.0)?;
    let rates = Rates::of(outcome);
    let (mean, sd, max) = columns(number(rates.mean), number(rates.stddev), number(rates.max));
    writeln!(out, "    Req/Sec   {mean}{sd}{max}{:>8.2}%", rates.within * 100.0)?;
    writeln!(out, "  Latency Distribution")?;
    for percent in [50, 75, 90, 99] {
        let us = samples.at(f64::from(percent) / 100.0).unwrap_or_default();
        writeln!(out, "{percent:>7}%{}", column(&time(us as f64), 10))?;
    }
    writeln!(
        out,
        "  {} requests in {}, {}B read",
        outcome.requests,
        time(outcome.duration_s * 1e6),
        bytes(outcome.bytes_received as f64)
    )?;
    let connect = errors.connecting();
    let read = errors.reset + errors.short_response + errors.closed_early + errors.malformed + errors.other;
    let timeout = errors.timeouts() - errors.connect_timeout;
    if connect + read + timeout > 0 {
        writeln!(out, "  Socket errors: connect {connect}, read {read}, write 0, timeout {timeout}")?;
    }
    // Whether they were expected does not matter to wrk.
    let all = outcome.statuses.iter().chain(&outcome.unexpected_statuses);
    let bad: u64 = all.filter(|(code, _)| **code > 399).map(|(_, count)| count).sum();
    if bad > 0 {
        writeln!(out, "  Non-2xx or 3xx responses: {bad}")?;
    }
    writeln!(out, "Requests/sec: {:>9.2}", outcome.requests_per_second)?;
    writeln!(out, "Transfer/sec: {:>10}B", bytes(outcome.bytes_per_second))
}

/// What a thread did in each second.
struct Rates {
    mean: f64,
    stddev: f64,
    max: f64,
    /// Share of the seconds within a standard deviation of the mean.
    within: f64,
}

impl Rates {
    fn of(outcome: &Outcome) -> Rates {
        let threads = f64::from(outcome.threads.max(1));
        let whole = outcome
            .timeline
            .iter()
            .filter(|second| (second.at_s + second.length_s.max(1)) as f64 <= outcome.duration_s + 1e-3);
        let mut rates: Vec<f64> =
            whole.map(|second| second.requests as f64 / second.length_s.max(1) as f64 / threads).collect();
        if rates.is_empty() {
            rates.push(outcome.requests_per_second / threads);
        }
        let count = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let stddev = (rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count).sqrt();
        let within = rates.iter().filter(|rate| (**rate - mean).abs() <= stddev).count() as f64 / count;
        Rates { mean, stddev, max: rates.iter().copied().fold(0.0, f64::max), within }
    }
}

/// A value in a column that is so wide. Digits stand below digits, with room for two letters behind them.
fn column(value: &str, width: usize) -> String {
    let letters = value.bytes().rev().take(2).take_while(u8::is_ascii_alphabetic).count();
    let value = format!("{value}{:1$}", "", 2 - letters);
    format!("{value:>width$}")
}

/// A number in the largest of these units of which it has 0.85, as wrk has it; each is so many times the one before.
fn scaled(value: f64, times: f64, units: &[&str], decimals: usize) -> String {
    let (mut value, mut at) = (value, 0);
    while at + 1 < units.len() && value >= times * 0.85 {
        (value, at) = (value / times, at + 1);
    }
    format!("{value:.decimals$}{}", units[at])
}

/// A time in microseconds as wrk has it: `1.23ms`.
fn time(us: f64) -> String {
    if us >= 1e6 { scaled(us / 1e6, 60.0, &["s", "m", "h"], 2) } else { scaled(us, 1e3, &["us", "ms"], 2) }
}

/// A number as wrk has it: `12.34k`.
fn number(value: f64) -> String {
    scaled(value, 1e3, &["", "k", "M", "G", "T", "P"], 2)
}

/// A number of bytes as wrk has it, but for the B: `1.23M`, of 1024 each.
fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &["", "K", "M", "G", "T", "P"], 2)
}
