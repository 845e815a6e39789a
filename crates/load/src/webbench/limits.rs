//! How many clients that block, each a thread, a process and this host can have, and what limits them.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::{Resource, getrlimit, getuid};

use crate::error::Error;

/// Mappings of memory that a thread takes: its stack and that of its signals, and a guard of either.
const MAPPINGS: u64 = 4;

/// Mappings that a process has beside its threads, with room to spare.
const BESIDE: u64 = 1000;

/// The fewest processes that may have so many clients, by the limits of mappings and descriptors.
pub fn processes_for(clients: u32) -> u32 {
    let by_mappings = u64::from(clients).div_ceil(clients_of(most_mappings())).clamp(1, 256) as u32;
    by_mappings.max(crate::processes_for(clients, 1))
}

fn most_mappings() -> u64 {
    number(Path::new("/proc/sys/vm/max_map_count")).unwrap_or(u64::MAX)
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Clients that so many mappings are enough for.
fn clients_of(mappings: u64) -> u64 {
    (mappings.saturating_sub(BESIDE) / MAPPINGS).max(1)
}

/// Whether each process may have the mappings of memory that its clients take.
pub(super) fn of_mappings(clients: u32, processes: u32) -> Result<(), Error> {
    mappings(clients, processes, most_mappings())
}

fn mappings(clients: u32, processes: u32, most: u64) -> Result<(), Error> {
    let (clients, processes) = (u64::from(clients), u64::from(processes.max(1)));
    let needed = clients.div_ceil(processes) * MAPPINGS + BESIDE;
    if needed <= most {
        return Ok(());
    }
    let can = clients_of(most);
    Err(Error::Plan(format!(
        "{clients} clients over {processes} process(es) take {needed} mappings of memory in each, and a process may have {most} \
         here: take {} processes, sysctl vm.max_map_count={needed}, or ask for {} clients",
        clients.div_ceil(can),
        can * processes
    )))
}

/// Whether this host may have a thread for each client beside those that it has.
pub(super) fn of_threads(clients: u32) -> Result<(), Error> {
    let running = fs::read_to_string("/proc/loadavg").ok();
    let running = running.as_deref().and_then(running_threads).unwrap_or(0);
    threads(clients, running, &limits())
}

/// All threads of the host, as the fourth word of /proc/loadavg has them: `2/1234`.
fn running_threads(loadavg: &str) -> Option<u64> {
    loadavg.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// Limits of threads: of the host, of the user unless that is root, and of the control group and those above it.
fn limits() -> Vec<(&'static str, u64)> {
    let sysctl = |name: &str| number(&Path::new("/proc/sys/kernel").join(name));
    let user = if getuid().is_root() { None } else { getrlimit(Resource::Nproc).current };
    let all = [
        ("kernel.pid_max", sysctl("pid_max")),
        ("kernel.threads-max", sysctl("threads-max")),
        ("ulimit -u", user),
        ("pids.max of the control group or of one above it", engine::host::thread_limit()),
    ];
    all.into_iter().filter_map(|(name, limit)| Some((name, limit?))).collect()
}

fn threads(clients: u32, running: u64, limits: &[(&str, u64)]) -> Result<(), Error> {
    let needed = u64::from(clients) + running;
    let lowest = limits.iter().filter(|(_, limit)| *limit < needed).min_by_key(|(_, limit)| limit);
    let Some((name, limit)) = lowest else { return Ok(()) };
    Err(Error::Plan(format!(
        "{clients} clients take a thread each, beside {running} that run here, and {name} is {limit}: raise it to {needed} or \
         more, or ask for {} clients",
        limit.saturating_sub(running)
    )))
}

/// What is said where the kernel refuses the thread of a client all the same.
pub(super) fn refused(index: u32, clients: u32, error: &io::Error) -> Error {
    let limits: Vec<String> = limits().iter().map(|(name, limit)| format!("{name} {limit}")).collect();
    Error::Plan(format!(
        "client {index} of {clients} cannot be started, and each takes a thread: {error}; the limits are {}: raise them, or \
         ask for fewer",
        limits.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_clients_than_a_process_can_have_are_refused_before_any_is_started() {
        assert!(mappings(16_000, 1, 65_530).is_ok() && mappings(20_000, 2, 65_530).is_ok());
        assert_eq!(
            mappings(20_000, 1, 65_530).unwrap_err().to_string(),
            "20000 clients over 1 process(es) take 81000 mappings of memory in each, and a process may have 65530 here: take 2 \
             processes, sysctl vm.max_map_count=81000, or ask for 16132 clients"
        );
    }

    #[test]
    fn the_limit_of_threads_that_is_in_the_way_is_named() {
        assert_eq!(running_threads("0.1 0.2 0.3 2/1234 99\n"), Some(1234));
        let limits = [("kernel.threads-max", 100_000), ("kernel.pid_max", 32_768), ("ulimit -u", 40_000)];
        assert!(threads(20_000, 1234, &limits).is_ok());
        assert_eq!(
            threads(50_000, 1000, &limits).unwrap_err().to_string(),
            "50000 clients take a thread each, beside 1000 that run here, and kernel.pid_max is 32768: raise it to 51000 or \
             more, or ask for 31768 clients"
        );
    }
}
