//! `plimsoll capacity`: how much load a server carries within a target.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use load::capacity::{Capacity, End, News, Probe, Search, What, most_clients, search};
use load::report::duration;
use load::{Plan, Switch, Threshold};

use super::bench::RequestFlags;
use super::live::LiveLine;
use super::output::Files;
use super::{Failure, say};

/// Load before each probe of a rate: a share of its length, and no more than so many seconds. A probe of clients has none, since
/// all of them at once are what it is about.
const WARMUP_SHARE: f64 = 0.2;
const WARMUP_S: f64 = 2.0;

/// Longer probes of the answer at the end.
const CONFIRMATIONS: u32 = 3;

/// Width of the drawing, in characters.
const WIDTH: usize = 50;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What to load: http://HOST[:PORT][/PATH]
    url: String,
    /// What must be kept: p99=50ms,errors=0.1% (= is at most, and of rate at least) [default: p99=50ms,errors=0.1%; with --clients
    /// max=15s,errors=0%]
    #[arg(long, value_name = "BOUNDS", value_delimiter = ',', value_parser = bound)]
    slo: Vec<Threshold>,
    /// Find the highest number of simultaneous clients instead of the highest rate
    #[arg(long)]
    clients: bool,
    /// Most requests under way at the same time, when looking for a rate; where those are too few, and the server is not to
    /// blame, there will be more
    #[arg(short, long, value_name = "N", default_value_t = 256)]
    connections: u32,
    /// How long each probe takes; those that confirm the answer take three times as long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    probe: Duration,
    /// How narrow the answer must be, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    precision: f64,
    /// Highest rate or number of clients to try [default: 10 million per second; as many clients as there are descriptors]
    #[arg(long, value_name = "N")]
    most: Option<f64>,
    /// Threads that share the connections; 0 takes one per usable core
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    threads: u32,
    /// A connection for every request
    #[arg(long)]
    close: bool,
    /// How long a connect or a whole response may take; long enough that what misses the target is seen to
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    request: RequestFlags,
    /// Cores the load's threads are pinned to, in turn: 1 or 0,2
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Write the result as JSON to a file, or with - to standard output in place of the text
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    /// Write the result as a page with a chart of the knee, which needs nothing but itself
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn bound(text: &str) -> Result<Threshold, load::BadThreshold> {
    // A rate is to be reached, all else not to be exceeded.
    let sign = if text.trim_start().starts_with("rate") { ">" } else { "<" };
    text.replacen('=', sign, 1).parse()
}

impl Args {
    fn search(&self) -> anyhow::Result<Search> {
        anyhow::ensure!(
            (0.1..=100.0).contains(&self.precision),
            "--precision {}: must be 0.1 to 100 per cent",
            self.precision
        );
        anyhow::ensure!(self.most.is_none_or(|most| most >= 1.0), "--most: must be at least 1");
        let what = if self.clients { What::Clients } else { What::Rate };
        let mut target = self.slo.clone();
        if target.is_empty() {
            target = what.usual_target().iter().map(|bound| bound.parse()).collect::<Result<_, _>>()?;
        }
        let probe_s = self.probe.as_secs_f64();
        let plan = self.request.of(Plan {
            warmup_s: if self.clients { 0.0 } else { (probe_s * WARMUP_SHARE).min(WARMUP_S) },
            connections: self.connections,
            threads: self.threads,
            close: self.close,
            cpus: self.cpus.clone(),
            timeout_s: self.timeout.as_secs_f64(),
            ..Plan::new(&self.url)
        })?;
        plan.validate()?;
        let most = match what {
            What::Rate => self.most.unwrap_or(1e7),
            What::Clients => self.most.unwrap_or(f64::MAX).min(most_clients(&plan)),
        };
        let (confirmations, precision) = (CONFIRMATIONS, self.precision / 100.0);
        Ok(Search { plan, what, target, probe_s, confirmations, precision, start: None, most })
    }
}

pub(super) fn run(args: Args) -> Result<ExitCode, Failure> {
    let wanted = args.search().map_err(Failure::usage)?;
    load::preflight(&wanted.plan).iter().for_each(|warning| say!("plimsoll: warning: {warning}"));
    let files = Files::open(args.json.as_deref(), args.html.as_deref()).map_err(Failure::usage)?;
    let cancel = Switch::default();
    super::stop_on_signal(&cancel, |_| ())?;
    let live = LiveLine::new();
    let found = search(&wanted, &cancel, &mut |news| tell(&wanted, &live, &news))?;
    drop(live);
    let said = text(&wanted, &found);
    let page = || ::lab::report::knee(&wanted.plan.url, &said, &found, &super::command_line());
    files.give(&found, || Ok(said.clone()), page)?;
    Ok(if found.confirmed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tell(search: &Search, live: &LiveLine, news: &News<'_>) {
    match news {
        News::Expected(time) => {
            let (seconds, least) = (time.as_secs_f64(), Duration::from_secs(90));
            let about = match *time < least {
                true => format!("{seconds:.0} s"),
                false => format!("{:.0} min", seconds / 60.0),
            };
            live.keep(&format!("takes about {about}, and longer where probes leave it open"));
        }
        News::Trying(level, progress) => {
            let now = progress.recent_per_second;
            live.show(&format!("trying {level:.0} {}: {now:.0} answers per second", search.what.unit()));
        }
        News::Draining(waited) => {
            let waited = waited.as_secs_f64();
            live.show(&format!("waiting for the server to be done with the last probe: {waited:.1} s"));
        }
        News::Done(probe) => live.keep(&line(probe, search.what)),
    }
}

/// A probe in a line.
fn line(probe: &Probe, what: What) -> String {
    let time = |us: Option<u64>| us.map_or("n/a".into(), |us| duration(us as f64));
    let why = probe.reasons.join("; ");
    format!(
        "{:>10.0} {}: {}, p50 {}, p99 {}{}{why}",
        probe.level,
        what.unit(),
        probe.word(),
        time(probe.p50_us),
        time(probe.p99_us),
        if why.is_empty() { "" } else { "; " }
    )
}

fn text(search: &Search, found: &Capacity) -> String {
    let unit = found.what.unit();
    let target: Vec<String> = search.target.iter().map(ToString::to_string).collect();
    let mut text = format!("{} within {}\n\n", search.plan.url, target.join(", "));
    text += &knee(found);
    text += &match found.below {
        Some(below) => format!(
            "\ncarries {:.0} {unit} (kept in {}), and less than {below:.0} (kept in {})\n",
            found.at_least,
            kept(found, found.at_least),
            kept(found, below)
        ),
        None => format!("\ncarries at least {:.0} {unit}\n", found.at_least),
    };
    if !found.reason.is_empty() {
        text += &format!("above that: {}\n", found.reason);
    }
    if found.end == End::Generator {
        text += "the load generator was at its own limit where it was missed: the server may carry more\n";
    }
    if found.spoilt() > 0 {
        text += &format!(
            "SUSPECT: {} of the probes that missed it began before the server had drained: it may carry more\n",
            found.spoilt()
        );
    }
    if !found.confirmed {
        text += "NOT CONFIRMED: tried again for three times as long, it mostly missed the target, or it cannot be told\n";
    }
    for doubt in found.doubts() {
        text += &format!("SUSPECT: {doubt}\n");
    }
    text
}

/// In how many of its probes a level kept the target: `3 of 4 probes`.
fn kept(found: &Capacity, level: f64) -> String {
    let at: Vec<&Probe> = found.probes.iter().filter(|probe| probe.level == level).collect();
    let kept = at.iter().filter(|probe| probe.kept).count();
    format!("{kept} of {} probes", at.len())
}

/// The response time over the level, drawn with characters; each level once, by its best probe.
fn knee(found: &Capacity) -> String {
    let mut probes: Vec<&Probe> = found.probes.iter().filter(|probe| probe.max_us > 0).collect();
    probes.sort_by(|a, b| a.level.total_cmp(&b.level).then(a.late_us().cmp(&b.late_us())));
    probes.dedup_by_key(|probe| probe.level);
    let log = |us: u64| (us.max(1) as f64).ln();
    let least = probes.iter().map(|probe| log(probe.early_us())).fold(f64::MAX, f64::min);
    let most = probes.iter().map(|probe| log(probe.late_us())).fold(f64::MIN, f64::max);
    let at = |us: u64| ((log(us) - least) / (most - least).max(1e-9) * (WIDTH - 1) as f64).round() as usize;
    let mut text = format!("{:>12}  {:WIDTH$}  p99\n", "level", "o median, x 99th percentile (logarithmic)");
    for probe in probes {
        let mut bar = vec![' '; WIDTH];
        bar[at(probe.early_us()).min(WIDTH - 1)] = 'o';
        bar[at(probe.late_us()).min(WIDTH - 1)] = 'x';
        let bar: String = bar.into_iter().collect();
        let mark = if probe.kept { String::new() } else { format!("  {}", probe.word()) };
        let most = if probe.p99_us.is_some() { "" } else { " at most" };
        text += &format!("{:>12.0}  {bar}  {}{most}{mark}\n", probe.level, duration(probe.late_us() as f64));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_equals_sign_is_a_bound_on_the_side_that_makes_sense() {
        for (text, expected) in [("p99=50ms", "p99<50ms"), ("rate=1000", "rate>1000"), ("rate<9", "rate<9")] {
            assert_eq!(bound(text).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn the_requests_of_a_search_are_what_its_flags_say() {
        let flags = ["--timeout", "3s", "--body", "x", "-H", "A: b"];
        let line = [&["plimsoll", "capacity", "http://127.0.0.1:1/"], &flags[..]].concat();
        let args = <super::super::Args as clap::Parser>::try_parse_from(line).unwrap();
        let super::super::Command::Capacity(args) = args.command else { panic!("another command") };
        let plan = args.search().unwrap().plan;
        assert_eq!((plan.method.as_str(), plan.body.as_str(), plan.timeout_s), ("POST", "x", 3.0));
        assert_eq!(plan.fields, [("A".into(), "b".into())]);
    }
}
