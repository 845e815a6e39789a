//! What a server's processes have used, read from /proc.

use std::fs;

use crate::results::ServerUse;

/// What a process and its descendants have used up to one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    cpu_ns: u64,
    peak_rss_bytes: u64,
    voluntary: u64,
    involuntary: u64,
}

impl Sample {
    /// Reads it; what has ended by now is missing from it.
    pub(crate) fn of_tree(root: u32) -> Self {
        let mut sample = Sample::default();
        for pid in tree(root) {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            sample.peak_rss_bytes += number(&status, "VmHWM:") * 1024;
            for thread in children_of(&format!("/proc/{pid}/task")) {
                let thread = format!("/proc/{pid}/task/{thread}");
                // The first number is the time on a processor in nanoseconds, where utime and stime have ticks
                // of 10 ms (Documentation/scheduler/sched-stats).
                let ran = fs::read_to_string(format!("{thread}/schedstat")).unwrap_or_default();
                sample.cpu_ns += ran.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
                let status = fs::read_to_string(format!("{thread}/status")).unwrap_or_default();
                sample.voluntary += number(&status, "\nvoluntary_ctxt_switches:");
                sample.involuntary += number(&status, "nonvoluntary_ctxt_switches:");
            }
        }
        sample
    }

    /// What was used since an earlier sample, for so many requests.
    pub(crate) fn since(&self, earlier: &Sample, requests: u64) -> ServerUse {
        let cpu_s = self.cpu_ns.saturating_sub(earlier.cpu_ns) as f64 / 1e9;
        ServerUse {
            cpu_s,
            cpu_us_per_request: if requests > 0 { cpu_s * 1e6 / requests as f64 } else { 0.0 },
            peak_rss_bytes: self.peak_rss_bytes,
            voluntary_switches: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary_switches: self.involuntary.saturating_sub(earlier.involuntary),
        }
    }
}

/// A process and all its descendants.
fn tree(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> =
        children_of("/proc").into_iter().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut tree = vec![root];
    let mut next = 0;
    while next < tree.len() {
        let of = tree[next];
        tree.extend(parents.iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| *pid));
        next += 1;
    }
    tree
}

/// The entries of a directory that are numbers.
fn children_of(directory: &str) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; the state and the parent follow it (proc(5)).
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The number behind a label.
fn number(text: &str, label: &str) -> u64 {
    let behind = text.split_once(label).map_or("", |(_, behind)| behind);
    behind.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn work_shows_up_in_the_difference_of_two_samples() {
        let pid = std::process::id();
        let before = Sample::of_tree(pid);
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        let used = Sample::of_tree(pid).since(&before, 10);
        assert!(used.cpu_s > 0.005, "{used:?}");
        assert!(
            used.peak_rss_bytes > 100_000 && (used.cpu_us_per_request - used.cpu_s * 1e5).abs() < 1e-6,
            "{used:?}"
        );
    }

    #[test]
    fn descendants_belong_to_the_tree() {
        let mut child =
            Command::new("sh").args(["-c", "sleep 60 & wait"]).process_group_zero().spawn().unwrap();
        let found = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            tree(child.id()).len() == 2
        });
        let group = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
        assert!(found);
    }

    trait Grouped {
        fn process_group_zero(&mut self) -> &mut Self;
    }

    impl Grouped for Command {
        fn process_group_zero(&mut self) -> &mut Self {
            std::os::unix::process::CommandExt::process_group(self, 0)
        }
    }
}
