//! What the kernel says of the whole process: processor time, memory, context switches.

use std::fs;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use serde::Serialize;

/// The process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Process {
    /// Processor time in the program's own code.
    pub cpu_user_seconds: f64,
    /// Processor time in the kernel on its behalf.
    pub cpu_system_seconds: f64,
    /// Memory that is really there.
    pub resident_bytes: u64,
    /// Times a thread gave the processor up because it had to wait.
    pub voluntary_switches: u64,
    /// Times a thread had the processor taken away.
    pub involuntary_switches: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

impl Process {
    /// Reads what the kernel says now. What it does not say is 0.
    pub fn now() -> Self {
        let usage = getrusage(UsageWho::RUSAGE_SELF);
        let seconds = |time: nix::sys::time::TimeVal| {
            Duration::new(time.tv_sec().max(0) as u64, time.tv_usec().max(0) as u32 * 1000).as_secs_f64()
        };
        let count = |dir| fs::read_dir(dir).map_or(0, |entries| entries.count() as u64);
        Process {
            cpu_user_seconds: usage.map_or(0.0, |usage| seconds(usage.user_time())),
            cpu_system_seconds: usage.map_or(0.0, |usage| seconds(usage.system_time())),
            resident_bytes: resident().unwrap_or(0),
            voluntary_switches: usage.map_or(0, |usage| usage.voluntary_context_switches() as u64),
            involuntary_switches: usage.map_or(0, |usage| usage.involuntary_context_switches() as u64),
            threads: count("/proc/self/task"),
            // Without the one that the reading itself needs.
            descriptors: count("/proc/self/fd").saturating_sub(1),
        }
    }
}

/// The second number of `statm` is the resident set in pages (proc(5)).
fn resident() -> Option<u64> {
    let pages: u64 = fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_threads_and_descriptors() {
        let before = Process::now();
        assert!(
            before.resident_bytes > 100_000 && before.threads >= 1 && before.descriptors >= 3,
            "{before:?}"
        );
        let held: Vec<u8> = vec![1; 32 << 20];
        let after = Process::now();
        assert!(after.resident_bytes > before.resident_bytes + (16 << 20), "{after:?} {}", held.len());
    }
}
