//! Where an experiment ran: all of the host that can move its figures.

use std::fs;
use std::path::Path;

use crate::plan::Plan;

/// Settings of the kernel that change what a server or a load can do.
const SYSCTLS: [&str; 6] = [
    "net/core/somaxconn",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_tw_reuse",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_max_syn_backlog",
    "fs/nr_open",
];

/// Captures it as names and values.
pub(crate) fn capture(plan: &Plan, program: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut add = |name: &str, value: String| found.push((name.to_string(), value));
    add("plimsoll", format!("{}, {}", env!("CARGO_PKG_VERSION"), identity(program)));
    let uname = rustix::system::uname();
    add("kernel", format!("{} {}", uname.release().to_string_lossy(), uname.version().to_string_lossy()));
    add("processor", processor());
    add(
        "cores",
        rustix::thread::sched_getaffinity(None).map_or("unknown".into(), |set| set.count().to_string()),
    );
    add(
        "governor",
        read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").unwrap_or("not to be seen".into()),
    );
    add("memory", line_of("/proc/meminfo", "MemTotal").unwrap_or_default());
    add("cores of the server", cores(&plan.server_cpus));
    add("cores of the load", cores(&plan.load_cpus));
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    add("descriptors", limit.map_or("unlimited".into(), |limit| limit.to_string()));
    add("load average at the start", read("/proc/loadavg").unwrap_or_default());
    for name in SYSCTLS {
        if let Some(value) = read(&format!("/proc/sys/{name}")) {
            add(&name.replace('/', "."), value);
        }
    }
    found
}

/// Size and time of the program: enough to tell two builds apart.
fn identity(program: &Path) -> String {
    let Ok(meta) = fs::metadata(program) else { return "unknown build".into() };
    let built = meta.modified().map(|time| humantime::format_rfc3339_seconds(time).to_string());
    format!("{} bytes, built {}", meta.len(), built.unwrap_or_default())
}

fn processor() -> String {
    line_of("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into())
}

fn cores(cpus: &[usize]) -> String {
    if cpus.is_empty() {
        return "all".into();
    }
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().replace('\t', " "))
}

/// What stands behind the colon in the line with this label.
fn line_of(path: &str, label: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(label))?;
    Some(line.split_once(':')?.1.trim().to_string())
}
