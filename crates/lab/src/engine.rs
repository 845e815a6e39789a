//! Other load generators as the load of an experiment: their command lines, and what they print.

use std::io;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use load::{Outcome, Plan, Stop, Switch};

use crate::command::find;

/// How often it is looked whether one has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Another load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Ab,
    Wrk,
    H2load,
}

impl Engine {
    pub(crate) const ALL: [Engine; 3] = [Engine::Ab, Engine::Wrk, Engine::H2load];

    /// Its name, which is that of its program.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Ab => "ab",
            Engine::Wrk => "wrk",
            Engine::H2load => "h2load",
        }
    }

    /// The Debian package it comes in.
    fn package(self) -> &'static str {
        match self {
            Engine::Ab => "apache2-utils",
            Engine::Wrk => "wrk",
            Engine::H2load => "nghttp2-client",
        }
    }

    /// The one of this name.
    ///
    /// # Errors
    /// Nothing of this name is known.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let known = Engine::ALL.into_iter().find(|engine| engine.name() == name);
        known.ok_or_else(|| format!("load.engine: {name:?}: there are plimsoll, ab, wrk and h2load"))
    }

    fn words(self, plan: &Plan, seconds: f64) -> Vec<String> {
        let (connections, url) = (plan.connections.to_string(), plan.url.clone());
        let threads = plan.threads().to_string();
        // All of them count in whole seconds.
        let time = (seconds.round().max(1.0) as u64).to_string();
        let close = ["-H", "Connection: close"];
        let words: Vec<&str> = match self {
            // The limit of requests that -t sets is lifted behind it; ab reserves 32 bytes for each.
            Engine::Ab => {
                let kept: &[&str] = if plan.close { &[] } else { &["-k"] };
                [&["-q", "-r"], kept, &["-c", &connections, "-t", &time, "-n", "20000000", &url]].concat()
            }
            Engine::Wrk | Engine::H2load => {
                let (kind, for_time) = if self == Engine::Wrk { ("--latency", "-d") } else { ("--h1", "-D") };
                let load: &[&str] = &[kind, "-t", &threads, "-c", &connections, for_time, &time];
                [load, if plan.close { &close } else { &[] }, &[&url]].concat()
            }
        };
        words.into_iter().map(String::from).collect()
    }

    /// Runs a load; `watch` is called with the phase every now and then.
    ///
    /// # Errors
    /// It is not installed, failed, or printed something else than expected; or it was stopped.
    pub(crate) fn run(
        self,
        plan: &Plan,
        stop: &Switch,
        watch: &mut dyn FnMut(load::Phase),
    ) -> Result<Outcome, String> {
        let name = self.name();
        let program = find(name)
            .ok_or_else(|| format!("{name} is not installed: apt-get install {}", self.package()))?;
        let Stop::Seconds(seconds) = plan.stop else { return Err("a number of seconds is needed".into()) };
        let call = |seconds: f64, phase: load::Phase, watch: &mut dyn FnMut(load::Phase)| {
            let mut command = Command::new(&program);
            command.args(self.words(plan, seconds));
            output(command, stop, &mut || watch(phase)).map_err(|error| format!("{name}: {error}"))
        };
        if plan.warmup_s >= 0.5 {
            call(plan.warmup_s, load::Phase::Warmup, watch)?;
        }
        let text = call(seconds, load::Phase::Measuring, watch)?;
        watch(load::Phase::Draining);
        let mut outcome = Outcome { threads: plan.threads(), ..Outcome::empty(plan) };
        self.read(&text, &mut outcome).ok_or_else(|| {
            let last: Vec<&str> = text.lines().rev().take(3).collect();
            format!("{name} printed nothing to go by; at the end: {}", last.join(" / "))
        })?;
        outcome.duration_s = outcome.requests as f64 / outcome.requests_per_second.max(1e-9);
        outcome.verdict = load::verdict::judge(&outcome);
        Ok(outcome)
    }

    /// Reads what it printed.
    fn read(self, text: &str, outcome: &mut Outcome) -> Option<()> {
        let bad = match self {
            Engine::Ab => read_ab(text, outcome)?,
            Engine::Wrk => read_wrk(text, outcome)?,
            Engine::H2load => read_h2load(text, outcome)?,
        };
        outcome.response_time_us.count = outcome.requests;
        let good = outcome.requests.saturating_sub(bad);
        outcome.statuses.extend([(200, good), (500, bad)].into_iter().filter(|(_, count)| *count > 0));
        Some(())
    }
}

/// The first word behind a label at the beginning of a line.
fn after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    let rest = text.lines().find_map(|line| line.trim_start().strip_prefix(label))?;
    rest.split_whitespace().next()
}

fn count(text: &str, label: &str) -> u64 {
    after(text, label).and_then(|word| word.trim_end_matches(',').parse().ok()).unwrap_or(0)
}

/// Reads what ab prints; how many answers had another status than 2xx.
fn read_ab(text: &str, outcome: &mut Outcome) -> Option<u64> {
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

/// Reads what wrk prints.
fn read_wrk(text: &str, outcome: &mut Outcome) -> Option<u64> {
    outcome.requests_per_second = after(text, "Requests/sec:")?.parse().ok()?;
    let line = text.lines().find(|line| line.contains(" requests in "))?;
    outcome.requests = line.split_whitespace().next()?.parse().ok()?;
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

/// Reads what h2load prints; it knows no percentiles.
fn read_h2load(text: &str, outcome: &mut Outcome) -> Option<u64> {
    let line = |start: &str| text.lines().find(|line| line.starts_with(start));
    outcome.requests_per_second = line("finished in")?.split(", ").nth(1)?.split(' ').next()?.parse().ok()?;
    let requests = line("requests:")?;
    outcome.requests = number_before(requests, "done");
    outcome.errors.other = number_before(requests, "errored");
    outcome.errors.first_byte_timeout = number_before(requests, "timeout");
    // Its columns are min, max, mean.
    outcome.response_time_us.mean = micros(line("time for request:")?.split_whitespace().nth(5)?)?;
    let codes = line("status codes:").unwrap_or_default();
    Some(number_before(codes, "4xx") + number_before(codes, "5xx"))
}

/// The number before a word.
fn number_before(line: &str, word: &str) -> u64 {
    let parts: Vec<&str> = line.split([' ', ',']).filter(|part| !part.is_empty()).collect();
    let before = parts.windows(2).find(|pair| pair[1] == word).map(|pair| pair[0]);
    before.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Reads `1.23ms`, `450us` or `2.00s`.
fn micros(text: &str) -> Option<f64> {
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let number: f64 = text[..at].parse().ok()?;
    let times = match &text[at..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => return None,
    };
    Some(number * times)
}

/// What a command prints, while somebody watches.
fn output(mut command: Command, stop: &Switch, watch: &mut dyn FnMut()) -> io::Result<String> {
    let file = tempfile::NamedTempFile::new()?;
    let out = file.reopen()?;
    let errors = out.try_clone()?;
    let mut child = command.stdin(Stdio::null()).stdout(out).stderr(errors).spawn()?;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if stop.is_set() => {
                let _ = (child.kill(), child.wait());
                return Err(io::Error::other("it was stopped"));
            }
            None => {}
        }
        watch();
        thread::sleep(LOOK);
    };
    let text = std::fs::read_to_string(file.path())?;
    if status.success() {
        return Ok(text);
    }
    let last = text.trim().lines().last().unwrap_or_default();
    Err(io::Error::other(format!("it ended with {status}: {last}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(engine: Engine, text: &str) -> Outcome {
        let mut outcome = Outcome::empty(&Plan::new("http://x/"));
        engine.read(text, &mut outcome).unwrap();
        outcome
    }

    #[test]
    fn what_ab_prints_is_read() {
        let outcome = read(
            Engine::Ab,
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

    #[test]
    fn what_wrk_prints_is_read() {
        let outcome = read(
            Engine::Wrk,
            "Running 2s test @ http://x/\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency   612.34us  1.2ms 20ms 90%\n\
             \x20   Req/Sec    10k\n  Latency Distribution\n     50%  450.00us\n     75%    1.00ms\n     99%    3.20ms\n\
             \x20 33886 requests in 20.00s, 4MB read\n  Socket errors: connect 1, read 2, write 3, timeout 1677\n\
             Requests/sec:  33886.12\nTransfer/sec:  1MB\n",
        );
        assert_eq!((outcome.requests, outcome.requests_per_second), (33886, 33886.12));
        let errors = outcome.errors;
        assert_eq!((errors.connect_failed, errors.other, errors.first_byte_timeout), (1, 5, 1677));
        let times = &outcome.response_time_us;
        assert_eq!((times.mean, times.p50, times.p99), (612.34, Some(450), Some(3200)));
    }

    #[test]
    fn what_h2load_prints_is_read() {
        let outcome = read(
            Engine::H2load,
            "finished in 2.00s, 145000.50 req/s, 10MB/s\n\
             requests: 290001 total, 290001 started, 290001 done, 289990 succeeded, 11 failed, 3 errored, 2 timeout\n\
             status codes: 289980 2xx, 0 3xx, 8 4xx, 2 5xx\n\
             traffic: x\n                     min         max         mean         sd        +/- sd\n\
             time for request:       30us      5.00ms       441us       100us    90.00%\n",
        );
        assert_eq!((outcome.requests, outcome.requests_per_second), (290_001, 145_000.5));
        assert_eq!((outcome.errors.other, outcome.errors.first_byte_timeout), (3, 2));
        assert_eq!((outcome.statuses[&500], outcome.response_time_us.mean), (10, 441.0));
    }

    #[test]
    fn what_is_not_understood_is_no_figure() {
        for engine in Engine::ALL {
            let mut outcome = Outcome::empty(&Plan::new("http://x/"));
            assert!(engine.read("command not found\n", &mut outcome).is_none());
        }
        assert!(Engine::named("siege").is_err() && Engine::named("wrk") == Ok(Engine::Wrk));
    }
}
