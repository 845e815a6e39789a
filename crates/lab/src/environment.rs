//! Where an experiment ran: all of the host that can move its figures.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use engine::host::{Cores, Memory};
use rustix::process::Resource;

use crate::command::find;
use crate::cores;
use crate::plan::Plan;

/// How long a program may take to print its version: Tsung starts Erlang for that.
const PATIENCE: Duration = Duration::from_secs(5);

/// Settings of the kernel that change what a server or a load can do.
const SYSCTLS: [&str; 9] = [
    "net/core/somaxconn",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_tw_reuse",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_max_syn_backlog",
    "fs/nr_open",
    "kernel/pid_max",
    "kernel/threads-max",
    "vm/max_map_count",
];

/// The name of what says on which cores the server was.
pub(crate) const SERVER_CORES: &str = "cores of the server";

/// Captures it as names and values.
pub(crate) fn capture(plan: &Plan, program: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut add = |name: &str, value: String| found.push((name.to_string(), value));
    for target in plan.targets.iter().filter(|target| !target.version.is_empty()) {
        add(&format!("version of {}", target.name), version(&target.version).unwrap_or("unknown".into()));
    }
    for engine in plan.engines() {
        if let Some(command) = engine.version_command() {
            add(&format!("version of {}", engine.name()), version(&command).unwrap_or("unknown".into()));
        }
    }
    add("plimsoll", format!("{}, {}", env!("CARGO_PKG_VERSION"), identity(program)));
    let kernel =
        ["osrelease", "version"].map(|name| read(&format!("/proc/sys/kernel/{name}")).unwrap_or_default());
    add("kernel", kernel.join(" "));
    add("processor", processor());
    add("cores that may be used", cores::allowed().map_or("unknown".into(), |set| cores::list(&set)));
    add(
        "governor",
        read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").unwrap_or("not to be seen".into()),
    );
    add("memory", line_of("/proc/meminfo", "MemTotal").unwrap_or_default());
    add(SERVER_CORES, numbers(&plan.server_cpus));
    add("cores of the load", numbers(&plan.load_cpus));
    limits().into_iter().for_each(|(name, value)| add(name, value));
    add("load average at the start", read("/proc/loadavg").unwrap_or_default());
    for name in SYSCTLS {
        if let Some(value) = read(&format!("/proc/sys/{name}")) {
            add(&name.replace('/', "."), value);
        }
    }
    found
}

/// The first line that a command prints. What does not end soon is no version.
fn version(command: &[String]) -> Option<String> {
    let mut child = Command::new(find(&command[0])?)
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let start = Instant::now();
    while start.elapsed() < PATIENCE && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let output = child.wait_with_output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(String::from)
}

/// Size and hash of the program, which tell any two builds apart.
fn identity(program: &Path) -> String {
    let hash = File::open(program).and_then(|file| Ok((file.metadata()?.len(), load::sha256_of(file)?)));
    hash.map_or("unknown build".into(), |(bytes, hash)| format!("{bytes} bytes, sha256 {hash}"))
}

/// What this process and those that it starts may take of the host.
fn limits() -> Vec<(&'static str, String)> {
    let of = |resource| {
        let limit = rustix::process::getrlimit(resource).current;
        limit.map_or("unlimited".into(), |limit| limit.to_string())
    };
    let group = |limit: Option<String>| limit.unwrap_or("none".into());
    let memory = Memory::detect();
    vec![
        ("descriptors", of(Resource::Nofile)),
        ("processes of the user", of(Resource::Nproc)),
        ("locked memory, bytes", of(Resource::Memlock)),
        (
            "cores that the control group allows",
            group(Cores::detect().quota.map(|cores| format!("{cores:.2}"))),
        ),
        (
            "threads that the control group allows",
            group(engine::host::thread_limit().map(|most| most.to_string())),
        ),
        (
            "memory that the control group allows, bytes",
            group(memory.is_limited.then(|| memory.bytes.to_string())),
        ),
    ]
}

fn processor() -> String {
    line_of("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into())
}

fn numbers(cpus: &[usize]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_described_and_nothing_is_empty() {
        let plan = "title = \"t\"\nconnections = [1]\npaths = [\"/\"]\nduration_s = 1\nserver_cpus = [0, 2]\n\
            [[target]]\nname = \"x\"\ncommand = [\"sh\"]\nversion = [\"sh\", \"-c\", \"echo; echo x 1.2 >&2\"]";
        let found = capture(&Plan::parse(plan, "x.toml").unwrap(), Path::new("/bin/sh"));
        let of = |name: &str| found.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
        assert_eq!(of("version of x"), Some("x 1.2"));
        assert_eq!(of("cores of the server"), Some("0, 2"));
        let number = |name: &str| of(name).is_some_and(|value| value.parse::<u64>().is_ok());
        assert!(number("descriptors") && number("kernel.pid_max") && number("vm.max_map_count"), "{found:?}");
        for limit in ["processes of the user", "locked memory, bytes", "cores that the control group allows"]
        {
            assert!(of(limit).is_some(), "{limit}");
        }
        assert!(!found.iter().any(|(name, _)| name == "version of ab"), "it is not used");
        assert!(of("kernel").is_some_and(|kernel| kernel.contains('.') && kernel.contains("SMP")));
        assert!(of("net.core.somaxconn").is_some_and(|value| value.parse::<u32>().is_ok()));
        assert!(found.iter().all(|(_, value)| !value.is_empty()), "{found:?}");
    }

    #[test]
    fn load_generators_that_are_used_tell_their_version_and_the_program_its_hash() {
        let plan = "title = \"t\"\nconnections = [1]\npaths = [\"/\"]\nduration_s = 1\n[load]\nengine = \"{tool}\"\n\
            [factor]\ntool = [\"ab\", \"plimsoll\"]\n[[target]]\nname = \"x\"\nmodel = \"reactor\"";
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "hello").unwrap();
        let found = capture(&Plan::parse(plan, "x.toml").unwrap(), file.path());
        let of = |name: &str| found.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
        let ab = of("version of ab").unwrap();
        // Where it is not installed that is said when it is to be run.
        assert!(ab == "unknown" || ab.contains("Version 2"), "{ab}");
        // printf hello | sha256sum
        let hash = "5 bytes, sha256 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        assert!(of("plimsoll").is_some_and(|value| value.ends_with(hash)), "{found:?}");
    }

    #[test]
    fn a_program_that_does_not_end_has_no_version() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        assert_eq!(version(&words("sleep 60")), None);
        assert_eq!(version(&words("no-such-program")), None);
    }
}
