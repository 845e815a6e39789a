//! What a server's processes have used up to one moment, and since an earlier one.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use super::process::{members, numbers_in};
use super::{Moment, ServerUse, ThreadUse};

/// What the names of workers begin with.
const WORKER: &str = "worker-";

/// Threads that are told of.
const THREADS: usize = 16;

/// What a server's processes have used up to one moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    /// Of all threads that are or were there, and of children that have ended.
    cpu_ns: u64,
    peak_rss_bytes: u64,
    voluntary: u64,
    involuntary: u64,
    rss_bytes: u64,
    descriptors: u64,
    /// The threads that are there: name, and nanoseconds on a processor.
    threads: HashMap<u32, (String, u64)>,
}

impl Sample {
    /// Reads it for the processes of the server that was started as `leader`.
    pub(super) fn of_tree(leader: u32) -> Self {
        let mut sample = Sample {
            at: Instant::now(),
            cpu_ns: 0,
            peak_rss_bytes: 0,
            voluntary: 0,
            involuntary: 0,
            rss_bytes: 0,
            descriptors: 0,
            threads: HashMap::new(),
        };
        for process in members(leader) {
            let pid = process.pid;
            sample.cpu_ns += process.cpu_ns();
            let status = read(&format!("/proc/{pid}/status"));
            sample.peak_rss_bytes += number(&status, "VmHWM:") * 1024;
            sample.rss_bytes += number(&status, "VmRSS:") * 1024;
            sample.descriptors += fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |fds| fds.count() as u64);
            for id in numbers_in(&format!("/proc/{pid}/task")) {
                let thread = format!("/proc/{pid}/task/{id}");
                // The first number is the time on a processor (Documentation/scheduler/sched-stats).
                let ran = read(&format!("{thread}/schedstat"));
                let ns = ran.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
                let name = read(&format!("{thread}/comm")).trim_end().to_owned();
                sample.threads.insert(id, (name, ns));
                let status = read(&format!("{thread}/status"));
                sample.voluntary += number(&status, "\nvoluntary_ctxt_switches:");
                sample.involuntary += number(&status, "nonvoluntary_ctxt_switches:");
            }
        }
        sample
    }

    /// What was used since an earlier sample, while this many requests were answered.
    pub(super) fn since(&self, earlier: &Sample, requests: u64) -> ServerUse {
        let cpu_s = self.cpu_ns.saturating_sub(earlier.cpu_ns) as f64 / 1e9;
        ServerUse {
            cpu_s,
            cpu_us_per_request: if requests > 0 { cpu_s * 1e6 / requests as f64 } else { 0.0 },
            window_s: self.at.duration_since(earlier.at).as_secs_f64(),
            peak_rss_bytes: self.peak_rss_bytes,
            voluntary_switches: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary_switches: self.involuntary.saturating_sub(earlier.involuntary),
            threads: self.busiest(earlier),
            moments: Vec::new(),
        }
    }

    /// The threads that used the most since an earlier sample.
    fn busiest(&self, earlier: &Sample) -> Vec<ThreadUse> {
        let ns = self.at.duration_since(earlier.at).as_nanos().max(1) as f64;
        let before = |thread| earlier.threads.get(thread).map_or(0, |(_, ns)| *ns);
        let mut threads: Vec<ThreadUse> = self
            .threads
            .iter()
            .map(|(thread, (name, now))| ThreadUse {
                name: name.clone(),
                cpu_share: now.saturating_sub(before(thread)) as f64 / ns,
            })
            .collect();
        threads.sort_by(|a, b| b.cpu_share.total_cmp(&a.cpu_share));
        threads.truncate(THREADS);
        threads
    }

    /// What was used since the last sample, of a measurement that began with another.
    pub(super) fn moment(&self, last: &Sample, from: &Sample) -> Moment {
        let seconds = self.at.duration_since(last.at).as_secs_f64().max(1e-9);
        let per_second = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        Moment {
            at_s: self.at.duration_since(from.at).as_secs_f64(),
            cores: per_second(self.cpu_ns, last.cpu_ns) / 1e9,
            rss_bytes: self.rss_bytes,
            descriptors: self.descriptors,
            voluntary_per_second: per_second(self.voluntary, last.voluntary),
            involuntary_per_second: per_second(self.involuntary, last.involuntary),
            workers: self.threads.values().filter(|(name, _)| name.starts_with(WORKER)).count() as u64,
        }
    }
}

fn read(path: &str) -> String {
    // What ends while it is read has used nothing more.
    fs::read_to_string(path).unwrap_or_default()
}

/// The number behind a label.
fn number(text: &str, label: &str) -> u64 {
    let behind = text.split_once(label).map_or("", |(_, behind)| behind);
    behind.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}
