//! `plimsoll serve`: a directory becomes a web site, until a signal ends it.

mod limits;
mod log;
mod sandbox;
mod site;
mod work;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use engine::{Model, Running, Service, Settings, Stop};
use plimsoll::signals::Watch;
use server::app::{Admin, Classes, Links, Site};
use server::log::AccessLog;
use server::{Handler, Http, Limits, Monitor, Totals};

use self::limits::LimitFlags;
use self::log::LogFlags;
use self::sandbox::Needs;
use self::site::SiteFlags;
use self::work::WorkFlags;
use super::output::print;
use super::topology::Settled;
use super::{Failure, daemon, say, topology};

/// Connections the operator's listener can hold.
const ADMIN_CONNECTIONS: usize = 64;

#[derive(Debug, clap::Args)]
#[command(args_override_self = true, after_help = limits::WITHOUT_FLAG)]
pub(super) struct Args {
    /// Directory to serve
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// File with settings, each named as its flag: model = "reactor-pool"; flags that are given win (see `plimsoll tune`)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Address and port for the operator: /healthz, /readyz, /metrics, /metrics.json and /status [default: none]
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
    site: SiteFlags,
    #[command(flatten)]
    work: WorkFlags,
    #[command(flatten)]
    log: LogFlags,
    #[command(flatten)]
    limits: LimitFlags,
}

pub(super) fn run(args: Args) -> Result<ExitCode, Failure> {
    if args.daemonize && !args.explain && !daemon::is_in_background() {
        return Ok(daemon::start()?);
    }
    let Settled { topology, cpus, mut choices, warnings } =
        args.topology.resolve().map_err(Failure::usage)?;
    let limits = args.limits.resolve(&topology).map_err(Failure::usage)?;
    let business = args.work.resolve().map_err(Failure::usage)?;
    for warning in [warnings, args.limits.warnings(&topology), args.work.warnings()].concat() {
        say!("plimsoll: warning: {warning}");
    }
    choices.extend(args.limits.choice(&topology));
    if args.explain {
        print(format_args!("{}\n{}", topology::diagram(&topology), table(&choices)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let site = args.site.open(&args.dir, &topology).map_err(Failure::usage)?;
    let door = site::kept_by(site.root());
    // Before the first thread starts, so that no signal is missed.
    let signals = Watch::start_with_hangup().context("cannot watch for signals")?;
    // Likewise, so that all threads are restricted.
    let needs = args.needs(&site);
    for warning in needs.warnings(args.site.sandbox) {
        say!("plimsoll: warning: {warning}");
    }
    let sandbox = sandbox::restrict(args.site.sandbox, &needs).map_err(Failure::usage)?;
    let log = args.log.start(topology.owners()).map_err(Failure::usage)?;
    let application = Classes::new(business.around(site), args.topology.class);
    let rules = args.limits.rules();
    let http = Http::on_with(application, limits, &topology, &rules).context("cannot start the workers")?;
    let http = Arc::new(http.with_log(log.clone()).with_request_ids(args.log.request_id));
    let LimitFlags { backlog, drain, .. } = args.limits;
    let send_time = Some(limits.send_time);
    let settings = Settings { backlog, drain, send_time, cpus, ..Settings::new(topology, args.listen) };
    let running = start(&settings, "--listen", http.clone())?;
    let monitor = Monitor::new(http.clone(), topology, &running)
        .with_work(|application| application.inner().achieved());
    let admin = args.admin.map(|address| start_admin(address, monitor, running.stop())).transpose()?;

    say!("plimsoll {} serves {}", env!("CARGO_PKG_VERSION"), args.dir.display());
    args.config.iter().for_each(|file| say!("  settings from {}", file.display()));
    say!("{}", table(&choices).trim_end());
    say!("  {:<12} {:<24} {}", "files", door.0, door.1);
    say!("  {:<12} {:<24} {}", "sandbox", sandbox.0, sandbox.1);
    if let Some(admin) = &admin {
        say!("  {:<12} {:<24} --admin", "admin", format!("http://{}/", admin.address()));
    }
    let _pid_file = daemon::PidFile::write(args.pid_file)?;
    say!("listening on http://{}/", running.address());
    daemon::let_go_of_the_terminal()?;

    let log = log.filter(|_| args.log.file().is_some());
    let signals = signals.on_hangup(move || hang_up(log.as_deref()));
    serve_until_a_signal(running, signals, drain)?;
    http.finish();
    admin.map_or(Ok(()), stop_admin)?;
    say_farewell(&http.totals(), http.abandoned());
    Ok(ExitCode::SUCCESS)
}

/// What SIGHUP asks for. It ends nothing: whoever rotates logs sends it to all servers, and requests are under way.
fn hang_up(log: Option<&AccessLog>) {
    match log {
        Some(log) => log.reopen(),
        None => say!(
            "SIGHUP: goes on as before; there is no file of an access log (--access-log FILE) to open anew"
        ),
    }
}

/// Serves until a signal ends it, and for the time that requests under way have to finish.
fn serve_until_a_signal(running: Running, signals: Watch, drain: Duration) -> anyhow::Result<()> {
    let time = humantime::format_duration(drain);
    signals.then_stop(running.stop(), move |signal| {
        say!("stopping: {signal}; requests under way have {time} to finish");
    });
    running.join().context("the server could not go on")
}

impl Args {
    /// What the server still needs of the host once it serves.
    fn needs(&self, site: &Site) -> Needs<'_> {
        Needs {
            root: &self.dir,
            log: self.log.file(),
            pid_file: self.pid_file.as_deref(),
            follows_links: site.root().links() == Links::Follow,
        }
    }
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
    let drain = Duration::from_millis(100);
    // The operator is let in whatever happens.
    let settings = Settings { backlog: 128, drain, memory: None, ..Settings::new(topology, address) };
    Ok(start(&settings, "--admin", Arc::new(http))?)
}

/// Listens where a flag says, and starts the threads.
fn start<S: Service>(settings: &Settings, flag: &str, service: Arc<S>) -> anyhow::Result<Running> {
    let listeners = settings.listen().with_context(|| {
        format!("cannot listen on {}: choose another with {flag} ADDRESS:PORT", settings.address)
    })?;
    engine::start_on(settings, listeners, service).context("cannot start the server's threads")
}

fn stop_admin(admin: engine::Running) -> anyhow::Result<()> {
    admin.stop().set();
    admin.join().context("the admin listener")
}

/// What the server did, in a line, and what went wrong in more of them.
fn say_farewell(totals: &Totals, abandoned: u64) {
    say!("stopped: {} requests answered", totals.requests);
    if abandoned > 0 {
        say!("answers whose connection was gone when they came: {abandoned}");
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
