//! `plimsoll serve`: a directory becomes a web site, until a signal ends it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytesize::ByteSize;
use engine::listen::BACKLOG;
use engine::{Model, Settings, Stop};
use plimsoll::signals::Watch;
use server::app::workload::{MOST_WORK, Work, Workloads};
use server::app::{Admin, Beneath, Classes, Site};
use server::{Handler, Http, Limits, Monitor, Totals};

use super::topology::Settled;
use super::{Failure, daemon, topology};

/// Most that a request body may be allowed to have; it is held in memory.
const MOST_BODY: ByteSize = ByteSize(1 << 30);

/// Connections the operator's listener can hold.
const ADMIN_CONNECTIONS: usize = 64;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Directory to serve
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Address and port for the operator: /healthz, /readyz, /metrics and /metrics.json [default: none]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
    /// Go on in the background once it serves; not needed under a supervisor such as systemd
    #[arg(long)]
    daemonize: bool,
    /// File for the process's number, removed at the end
    #[arg(long, value_name = "FILE")]
    pid_file: Option<PathBuf>,
    /// Print the topology that these flags make, and why, and exit
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    topology: topology::Flags,
    #[command(flatten)]
    work: WorkFlags,
    #[command(flatten)]
    limits: LimitFlags,
}

/// Business time, for experiments.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Workload")]
struct WorkFlags {
    /// Adds business time to every request of the site: 200us, 30ms
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    work: Option<Duration>,
    /// What business time does: wait, as for a database, or compute
    #[arg(long, value_enum, default_value = "sleep")]
    work_mode: WorkMode,
    /// Serve /fast, /slow, /work?sleep=..&spin=..&bytes=.., /bytes?n=.., /stream?rate=..&for=.. and /echo too; always
    /// with --work
    #[arg(long)]
    workloads: bool,
    /// Business time of /slow
    #[arg(long, value_name = "TIME", default_value = "30ms", value_parser = humantime::parse_duration)]
    slow_duration: Duration,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum WorkMode {
    /// The thread sleeps
    Sleep,
    /// The thread computes
    Spin,
}

impl WorkFlags {
    /// The site with the workloads that were asked for.
    fn around(&self, site: Site) -> anyhow::Result<Workloads<Site>> {
        for (flag, time) in
            [("--work", self.work.unwrap_or_default()), ("--slow-duration", self.slow_duration)]
        {
            anyhow::ensure!(
                time <= MOST_WORK,
                "{flag} {}: must be at most 60s",
                humantime::format_duration(time)
            );
        }
        let time = self.work.unwrap_or_default();
        let each = match self.work_mode {
            WorkMode::Sleep => Work { sleep: time, ..Work::NONE },
            WorkMode::Spin => Work { spin: time, ..Work::NONE },
        };
        let routes = self.workloads || self.work.is_some();
        Ok(Workloads::new(site, each, routes.then_some(self.slow_duration)))
    }
}

/// The bounds of a connection.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
struct LimitFlags {
    /// Largest head of a request: 431 past it, at most 16KiB
    #[arg(long, value_name = "SIZE", default_value = "16KiB")]
    header_bytes: ByteSize,
    /// Longest target of a request: 414 past it
    #[arg(long, value_name = "SIZE", default_value = "8KiB")]
    target_bytes: ByteSize,
    /// Largest request body that is given to an application: 413 past it, at most 1GiB
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    body_bytes: ByteSize,
    /// Time for a whole request body: 408 past it
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    body_timeout: Duration,
    /// Time for a whole request head: 408 past it
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    header_timeout: Duration,
    /// How long a connection may stay open between requests
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    idle_timeout: Duration,
    /// How long a client may take nothing of its response before it is cut off
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    send_timeout: Duration,
    /// Connections that may wait to be accepted (the kernel caps it at net.core.somaxconn)
    #[arg(long, value_name = "N", default_value_t = BACKLOG)]
    backlog: u32,
    /// How long requests under way may take to finish after SIGTERM or SIGINT
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    drain: Duration,
}

impl LimitFlags {
    fn resolve(&self) -> anyhow::Result<Limits> {
        let most = engine::BUF_BYTES as u64;
        anyhow::ensure!(
            (64..=most).contains(&self.header_bytes.0),
            "--header-bytes {}: must be 64 B to {}",
            self.header_bytes,
            ByteSize(most)
        );
        anyhow::ensure!(
            (1..=self.header_bytes.0).contains(&self.target_bytes.0),
            "--target-bytes {}: must be at least 1 B and no more than --header-bytes ({})",
            self.target_bytes,
            self.header_bytes
        );
        anyhow::ensure!(
            self.body_bytes <= MOST_BODY,
            "--body-bytes {}: must be at most {MOST_BODY}",
            self.body_bytes
        );
        anyhow::ensure!(self.backlog > 0, "--backlog 0: must be at least 1");
        for (flag, time) in [
            ("--header-timeout", self.header_timeout),
            ("--body-timeout", self.body_timeout),
            ("--idle-timeout", self.idle_timeout),
            ("--send-timeout", self.send_timeout),
        ] {
            anyhow::ensure!(!time.is_zero(), "{flag} 0s: must be longer; nothing could be served");
        }
        Ok(Limits {
            head: wire_limits(self.header_bytes.0 as usize, self.target_bytes.0 as usize),
            head_time: self.header_timeout,
            body_bytes: self.body_bytes.0,
            body_time: self.body_timeout,
            idle_time: self.idle_timeout,
            send_time: self.send_timeout,
            ..Limits::default()
        })
    }
}

fn wire_limits(head_bytes: usize, target_bytes: usize) -> server::HeadLimits {
    server::HeadLimits { head_bytes, target_bytes, ..server::HeadLimits::default() }
}

pub(super) fn run(args: Args) -> Result<ExitCode, Failure> {
    if args.daemonize && !daemon::is_in_background() {
        return Ok(daemon::start()?);
    }
    let Settled { topology, cpus, choices, warnings } = args.topology.resolve().map_err(Failure::usage)?;
    for warning in &warnings {
        eprintln!("plimsoll: warning: {warning}");
    }
    if args.explain {
        print!("{}\n{}", topology::diagram(&topology), table(&choices));
        return Ok(ExitCode::SUCCESS);
    }
    let limits = args.limits.resolve().map_err(Failure::usage)?;
    let site = Site::open(&args.dir)
        .with_context(|| format!("cannot serve {}: give a readable directory", args.dir.display()))
        .map_err(Failure::usage)?;
    let beneath = site.root().beneath();
    // Before the first thread starts, so that no signal is missed.
    let signals = Watch::start().context("cannot watch for signals")?;
    let application = args.work.around(site).map_err(Failure::usage)?;
    let application = Classes::new(application, args.topology.class);
    let http = Arc::new(Http::on(application, limits, &topology).context("cannot start the workers")?);
    let LimitFlags { backlog, drain, .. } = args.limits;
    let settings = Settings { topology, address: args.listen, backlog, drain, cpus };
    let running = engine::start(&settings, http.clone()).with_context(|| {
        format!("cannot listen on {}: choose another with --listen ADDRESS:PORT", args.listen)
    })?;
    let monitor = Monitor::new(http.clone(), topology, running.counters())
        .with_work(|application| application.inner().achieved());
    let admin = args.admin.map(|address| start_admin(address, monitor, running.stop())).transpose()?;

    eprintln!("plimsoll {} serves {}", env!("CARGO_PKG_VERSION"), args.dir.display());
    eprint!("{}", table(&choices));
    eprintln!("  {:<12} {:<24} {}", "files", "beneath the root", kept_by(beneath));
    if let Some(admin) = &admin {
        eprintln!("  {:<12} {:<24} --admin", "admin", format!("http://{}/", admin.address()));
    }
    eprintln!("listening on http://{}/", running.address());
    let _pid_file = daemon::PidFile::write(args.pid_file)?;
    daemon::let_go_of_the_terminal()?;

    let time = humantime::format_duration(drain);
    signals.then_stop(running.stop(), move |signal| {
        eprintln!("stopping: {signal}; requests under way have {time} to finish");
    });
    running.join().context("the server could not go on")?;
    http.finish();
    if let Some(admin) = admin {
        admin.stop().set();
        admin.join().context("the admin listener")?;
    }
    say_farewell(&http.totals(), http.abandoned());
    Ok(ExitCode::SUCCESS)
}

/// Starts the operator's listener: one thread of its own, which the traffic does not wait for.
fn start_admin<H: Handler>(
    address: SocketAddr,
    monitor: Monitor<H>,
    stop: Stop,
) -> Result<engine::Running, Failure> {
    let topology = Model::Reactor.row(1, ADMIN_CONNECTIONS);
    let admin = Admin::new(move || monitor.snapshot(), stop);
    let http = Http::on(admin, Limits::default(), &topology)?;
    let settings =
        Settings { topology, address, backlog: 128, drain: Duration::from_millis(100), cpus: Vec::new() };
    Ok(engine::start(&settings, Arc::new(http))
        .with_context(|| format!("cannot listen on {address}: choose another with --admin ADDRESS:PORT"))?)
}

/// What the server did, in a line, and what went wrong in more of them.
fn say_farewell(totals: &Totals, abandoned: u64) {
    eprintln!("stopped: {} requests answered", totals.requests);
    if abandoned > 0 {
        eprintln!("answers whose connection was gone when they came: {abandoned}");
    }
    let told = |(name, count): &(&str, u64)| *count > 0 && *name != "requests";
    for (name, count) in totals.named().into_iter().filter(told) {
        tracing::info!(count, "{name}");
    }
}

/// The choices, a line for each: setting, value, why.
fn table(choices: &[topology::Choice]) -> String {
    let line =
        |choice: &topology::Choice| format!("  {:<12} {:<24} {}\n", choice.setting, choice.value, choice.why);
    choices.iter().map(line).collect()
}

fn kept_by(beneath: Beneath) -> &'static str {
    match beneath {
        Beneath::Kernel => "by the kernel (openat2, RESOLVE_BENEATH)",
        Beneath::Walk => "by following no symbolic links: openat2 is not to be had here",
    }
}
