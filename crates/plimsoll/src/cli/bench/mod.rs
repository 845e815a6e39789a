//! `plimsoll bench`: a load against a URL, and what came back.

mod plan;
mod request;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bytesize::ByteSize;
use load::sample::Sampler;
use load::{Outcome, Plan, Rate, Switch, Threshold, Verdict};

use super::output::Files;
use super::{Failure, say};
pub(super) use request::RequestFlags;
use view::View;

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
    /// The same seed makes the same load, with as many threads
    #[arg(long, value_name = "N", default_value_t = 1, requires = "rate")]
    seed: u64,
    /// Partly open loop: what is due is a session, which goes on with this probability after each answer
    #[arg(long, value_name = "PROBABILITY", requires = "rate")]
    session: Option<f64>,
    /// Open loop: ask for what an access log has, when it has it (combined format, or JSON as `serve --log-format
    /// json` writes it); only its GETs
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "url_file", "body", "method"])]
    replay: Option<PathBuf>,
    /// Speed of the replay: 2 for twice as fast as it was
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "replay")]
    speed: f64,
    /// Time between an answer and the next request of the same connection (closed loop, or sessions)
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    think: Duration,
    /// How long to measure [default: 10s; a replay: to the log's last request]
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
    /// turns. Or a sitemap in XML
    #[arg(long, value_name = "FILE")]
    url_file: Option<PathBuf>,
    /// Status that an answer must have, or it is an error; may be given several times, or as 200,304 [default: any]
    #[arg(long, value_name = "CODE", value_delimiter = ',')]
    expect_status: Vec<u16>,
    /// Length that the content of an answer must have, in bytes
    #[arg(long, value_name = "BYTES")]
    expect_length: Option<u64>,
    /// SHA-256 that the content of an answer must have, as sha256sum prints it
    #[arg(long, value_name = "HEX")]
    expect_sha256: Option<String>,
    /// Bytes per second that each connection sends, as over a bad network: 1KiB
    #[arg(long, value_name = "BYTES")]
    send_rate: Option<ByteSize>,
    /// Bytes per second that each connection takes
    #[arg(long, value_name = "BYTES")]
    receive_rate: Option<ByteSize>,
    #[command(flatten)]
    request: RequestFlags,
    /// Addresses that connections come from, 127.0.0.2 and on, each with ports of its own; for servers on 127.0.0.0/8
    #[arg(long, value_name = "N", default_value_t = 0)]
    sources: u32,
    /// A network between the load and a server on this host: delay=50ms,jitter=5ms,rate=10mbit,loss=1%,queue=200ms (one
    /// way, both ways alike); takes root
    #[arg(long, value_name = "LINK")]
    link: Option<load::link::Link>,
    /// Processes that share the connections [default: as many as the limit of descriptors demands]
    #[arg(long, value_name = "N")]
    processes: Option<u32>,
    /// Cores the load's threads are pinned to, in turn: 1 or 0,2
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Process of the server, to look at what it uses; those that it has started count too
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// After the run, look whether it was the load that set the limit: its rate against a server that does nothing, and
    /// whether two load generators get more; takes some 10 seconds
    #[arg(long)]
    check: bool,
    /// Say nothing while it runs
    #[arg(short, long)]
    quiet: bool,
    /// Form of the result: for people, as ab or wrk print it, as JSON, as CSV, or as a log of HdrHistogram
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// What must be reached, or the exit status is 1: 'p99<50ms,errors<0.1%,rate>1000'; an INVALID result reaches nothing
    #[arg(long, value_name = "BOUNDS", value_delimiter = ',')]
    threshold: Vec<Threshold>,
    /// Write the result as JSON to a file, or with - to standard output in place of the text
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    /// Write the result as a page with charts, which needs nothing but itself
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Tells the program that it is one process of a load.
pub(super) use load::fleet::PART;

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

pub(super) fn run(args: Args) -> Result<ExitCode, Failure> {
    let plan = args.plan().map_err(Failure::usage)?;
    let is_open = args.rate.is_some() || args.replay.is_some();
    if is_open && args.session.is_none() && !args.think.is_zero() {
        say!("plimsoll: warning: --think has no effect on an open loop without --session");
    }
    plan.validate().map_err(Failure::usage)?;
    load::preflight(&plan).iter().for_each(|warning| say!("plimsoll: warning: {warning}"));
    let files = Files::open(args.json.as_deref(), args.html.as_deref()).map_err(Failure::usage)?;
    let cancel = Switch::default();
    super::stop_on_signal(&cancel, |_| ())?;
    let outcome = measure(&args, &plan, &cancel)?;
    let format = if args.json.as_deref() == Some("-") { Format::Json } else { args.format };
    let text = || {
        Ok(match format {
            Format::Text => load::report::text(&outcome),
            Format::Ab => load::report::ab(&outcome),
            Format::Wrk => load::report::wrk(&outcome),
            Format::Json => json(&outcome)? + "\n",
            Format::Hdr => load::hdr::log(&outcome),
            Format::Csv => load::report::csv(&outcome),
        })
    };
    files.give(&outcome, text, || ::lab::report::single(&outcome, &super::command_line()))?;
    let reasons = outcome.verdict.reasons();
    if matches!(format, Format::Ab | Format::Wrk | Format::Hdr) && outcome.verdict != Verdict::Valid {
        // Those forms have no place for it.
        say!("plimsoll: {}: {}", outcome.verdict.word(), reasons.join("; "));
    }
    if outcome.answered() + outcome.drained == 0 {
        return Err(nothing_came(&outcome).into());
    }
    let mut missed: Vec<String> =
        args.threshold.iter().filter_map(|threshold| threshold.missed_by(&outcome)).collect();
    if matches!(outcome.verdict, Verdict::Invalid(_)) && !args.threshold.is_empty() {
        // Figures that do not mean what they seem to keep nothing.
        missed.insert(0, format!("the result is INVALID: {}", reasons.join("; ")));
    }
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
    let mut view = View::new(args.quiet);
    let mut observer = |progress: &load::Progress| {
        if let Some(sampler) = &mut sampler {
            sampler.look(progress.phase);
        }
        view.show(progress, sampler.as_ref().and_then(Sampler::latest));
    };
    let program = super::own_program()?;
    let mut outcome = load::fleet::run(&program, &[PART], plan, cancel, &mut observer)?;
    outcome.server = sampler.and_then(|sampler| sampler.finish(outcome.answered()));
    if args.check && outcome.requests > 0 && !cancel.is_set() {
        outcome.check = Some(load::check::check(&program, &[PART], &outcome, cancel)?);
        outcome.verdict = load::verdict::judge(&outcome);
    }
    Ok(outcome)
}

/// One process of a load, which another has started.
pub(super) fn part() -> Result<ExitCode, Failure> {
    load::fleet::serve(std::io::stdin())?;
    Ok(ExitCode::SUCCESS)
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
