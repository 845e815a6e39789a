//! `plimsoll bench`: a load against a URL, and what came back.

use std::fs;
use std::io::{IsTerminal, Write, stderr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use load::sample::Sampler;
use load::{
    Arrivals, Outcome, Phase, Plan, Progress, Rate, Session, Spacing, Stop, Switch, Threshold, Wanted,
};
use plimsoll::signals::Watch;

use super::{Failure, say};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What to load: http://HOST[:PORT][/PATH]
    url: String,
    /// Connections, each with at most one request under way
    #[arg(short, long, value_name = "N", default_value_t = 64)]
    connections: u32,
    /// Open loop: requests (or sessions) due per second, whether the server keeps up or not, and response times from then
    /// on: 20000, ramp:1000..20000@10s, steps:1000,2000,4000@10s, on-off:20000@1s,4s, two-state:1000,20000@1s,200ms
    /// [default: closed loop]
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// How the requests of an open loop follow each other
    #[arg(long, value_enum, value_name = "SPACING", default_value = "poisson", requires = "rate")]
    spacing: SpacingFlag,
    /// The same seed makes the same load
    #[arg(long, value_name = "N", default_value_t = 1, requires = "rate")]
    seed: u64,
    /// Partly open loop: what is due is a session, which goes on with this probability after each answer
    #[arg(long, value_name = "PROBABILITY", requires = "rate")]
    session: Option<f64>,
    /// Time between an answer and the next request of the same connection (closed loop, or sessions)
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    think: Duration,
    /// How long to measure [default: 10s]
    #[arg(short, long, value_name = "TIME", conflicts_with = "requests", value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// How many requests to measure, instead of a time
    #[arg(short = 'n', long, value_name = "N")]
    requests: Option<u64>,
    /// Threads that share the connections; 0 takes one per usable core
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    threads: u32,
    /// Load before measuring starts, not recorded
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    warmup: Duration,
    /// How long a connect or a whole response may take
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    /// A connection for every request
    #[arg(long)]
    close: bool,
    /// Requests sent at once on each connection before their answers are awaited (closed loop)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pipeline: u32,
    /// File with a path (or a URL of the same server) on each line, and maybe a weight behind it; without weights they take
    /// turns
    #[arg(long, value_name = "FILE")]
    url_file: Option<PathBuf>,
    /// Content of each request, or with @ the file that has it; the method is POST then, unless it is given
    #[arg(long, value_name = "TEXT|@FILE", default_value = "")]
    body: String,
    /// Request method [default: GET]
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// Request field, `Name: value`; may be given several times
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = parse_field)]
    headers: Vec<(String, String)>,
    /// Addresses that connections come from, 127.0.0.2 and on, each with ports of its own; for servers on 127.0.0.0/8
    #[arg(long, value_name = "N", default_value_t = 0)]
    sources: u32,
    /// Cores the load's threads are pinned to, in turn: 1 or 0,2
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Process of the server, to look at what it uses; those that it has started count too
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Form of the result: for people, as ab or wrk print it, as JSON, as CSV, or as a log of HdrHistogram
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// What must be reached, or the exit status is 1: 'p99<50ms,errors<0.1%,rate>1000'
    #[arg(long, value_name = "BOUNDS", value_delimiter = ',')]
    threshold: Vec<Threshold>,
    /// Write the result as JSON to a file, or with - to standard output in place of the text
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// For people
    Text,
    /// As ab 2.3 prints it
    Ab,
    /// As wrk --latency prints it
    Wrk,
    /// As JSON
    Json,
    /// A line of names, a line of values
    Csv,
    /// An interval log of HdrHistogram, a line for each second
    Hdr,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SpacingFlag {
    /// Evenly
    Constant,
    /// At random, as from many clients that do not know of each other
    Poisson,
}

/// A line of a file of URLs.
fn wanted(line: &str) -> anyhow::Result<Wanted> {
    let (url, weight) = line.split_once(char::is_whitespace).unwrap_or((line, "1"));
    let path = match url.split_once("://") {
        // Whatever server it names, it is asked of the one that is loaded.
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => url,
    };
    let weight = weight.trim().parse().with_context(|| format!("{weight:?} is no weight"))?;
    Ok(Wanted { path: path.into(), weight })
}

fn parse_field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("must be of the form Name: value")?;
    Ok((name.trim().into(), value.trim().into()))
}

impl Args {
    fn arrivals(&self) -> Arrivals {
        let think_s = self.think.as_secs_f64();
        let Some(rate) = self.rate.clone() else { return Arrivals::Closed { think_s } };
        let spacing = match self.spacing {
            SpacingFlag::Constant => Spacing::Constant,
            SpacingFlag::Poisson => Spacing::Poisson,
        };
        let session = self.session.map(|go_on| Session { go_on, think_s });
        Arrivals::Open { rate, spacing, seed: self.seed, session }
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let stop = match (self.requests, self.duration) {
            (Some(requests), _) => Stop::Requests(requests),
            (None, duration) => Stop::Seconds(duration.unwrap_or(Duration::from_secs(10)).as_secs_f64()),
        };
        let body = match self.body.strip_prefix('@') {
            Some(file) => fs::read_to_string(file).with_context(|| format!("cannot read --body {file}"))?,
            None => self.body.clone(),
        };
        let default = if body.is_empty() { "GET" } else { "POST" };
        Ok(Plan {
            connections: self.connections,
            arrivals: self.arrivals(),
            threads: self.threads,
            stop,
            warmup_s: self.warmup.as_secs_f64(),
            timeout_s: self.timeout.as_secs_f64(),
            close: self.close,
            pipeline: self.pipeline,
            targets: self.targets()?,
            body,
            method: self.method.clone().unwrap_or_else(|| default.into()),
            sources: self.sources,
            fields: self.headers.clone(),
            cpus: self.cpus.clone(),
            ..Plan::new(&self.url)
        })
    }

    /// What the file of URLs says.
    fn targets(&self) -> anyhow::Result<Vec<Wanted>> {
        let Some(file) = &self.url_file else { return Ok(Vec::new()) };
        let text =
            fs::read_to_string(file).with_context(|| format!("cannot read --url-file {}", file.display()))?;
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let used = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let targets: Vec<Wanted> = used
            .map(|(at, line)| wanted(line).with_context(|| format!("{}, line {at}", file.display())))
            .collect::<anyhow::Result<_>>()?;
        anyhow::ensure!(!targets.is_empty(), "--url-file {}: there is no path in it", file.display());
        Ok(targets)
    }
}

pub(super) fn run(args: Args) -> Result<ExitCode, Failure> {
    let plan = args.plan().map_err(Failure::usage)?;
    if args.rate.is_some() && args.session.is_none() && !args.think.is_zero() {
        say!("plimsoll: warning: --think has no effect on an open loop without --session");
    }
    plan.validate().map_err(Failure::usage)?;
    let cancel = Switch::default();
    Watch::start().context("cannot watch for signals")?.then_stop(cancel.clone(), |_| ());
    let outcome = measure(&args, &plan, &cancel)?;
    let format = match args.json.as_deref() {
        Some("-") => Format::Json,
        Some(file) => {
            fs::write(file, json(&outcome)? + "\n").with_context(|| format!("cannot write {file}"))?;
            args.format
        }
        None => args.format,
    };
    match format {
        Format::Text => print!("{}", load::report::text(&outcome)),
        Format::Ab => print!("{}", load::report::ab(&outcome)),
        Format::Wrk => print!("{}", load::report::wrk(&outcome)),
        Format::Json => println!("{}", json(&outcome)?),
        Format::Hdr => print!("{}", load::hdr::log(&outcome)),
        Format::Csv => print!("{}", load::report::csv(&outcome)),
    }
    if outcome.requests == 0 {
        return Err(nothing_came(&outcome).into());
    }
    let missed: Vec<String> =
        args.threshold.iter().filter_map(|threshold| threshold.missed_by(&outcome)).collect();
    if !missed.is_empty() {
        return Err(anyhow::anyhow!("missed: {}", missed.join("; ")).into());
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the load, and looks at the server meanwhile if its process is named.
fn measure(args: &Args, plan: &Plan, cancel: &Switch) -> Result<Outcome, Failure> {
    let mut sampler = args.pid.map(Sampler::new);
    if let Some(pid) = args.pid.filter(|pid| load::sample::tree(*pid).is_empty()) {
        return Err(Failure::usage(anyhow::anyhow!("--pid {pid}: there is no such process")));
    }
    let mut view = live_view();
    let mut outcome = load::run_until(plan, cancel, &mut |progress| {
        if let Some(sampler) = &mut sampler {
            sampler.look(progress);
        }
        view(progress);
    })?;
    outcome.server = sampler.and_then(|sampler| sampler.finish(outcome.requests));
    Ok(outcome)
}

fn json(outcome: &Outcome) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(outcome)?)
}

fn nothing_came(outcome: &Outcome) -> anyhow::Error {
    let url = &outcome.plan.url;
    let named = outcome.errors.named();
    match named.iter().max_by_key(|(_, count)| count) {
        Some((name, count)) if *count > 0 => {
            anyhow::anyhow!("{url} gave no complete response: {} ({count} times)", name.replace('_', " "))
        }
        _ => anyhow::anyhow!("{url} gave no complete response"),
    }
}

/// A line on the terminal that follows the load; nothing where nobody watches.
fn live_view() -> impl FnMut(&Progress) {
    let watched = stderr().is_terminal();
    move |progress| {
        if !watched {
            return;
        }
        let _ = if progress.phase == Phase::Draining {
            write!(stderr(), "\r\x1b[K")
        } else {
            let phase = if progress.phase == Phase::Warmup { "warming up" } else { "measuring" };
            let left =
                progress.total.map(|total| total.saturating_sub(progress.elapsed).as_secs_f64().ceil());
            write!(
                stderr(),
                "\r\x1b[K{phase}: {:.0} requests/s, {} answers, {} errors{}",
                progress.recent_per_second,
                progress.requests,
                progress.errors,
                left.map(|left| format!(", {left:.0} s left")).unwrap_or_default()
            )
        };
        let _ = stderr().flush();
    }
}
