//! What the control groups of this process grant: the tightest limit from its own group up to the root binds.

use std::fs;
use std::path::{Path, PathBuf};

/// What `memory.stat` calls the memory of processes, files that are nowhere but there, and the kernel's for them, sockets
/// included: in version 2, and in 1.
const HELD: [&str; 10] = [
    "anon",
    "shmem",
    "sock",
    "slab_unreclaimable",
    "kernel_stack",
    "pagetables",
    "sec_pagetables",
    "percpu",
    "total_rss",
    "total_shmem",
];

/// What it calls the page cache, which the kernel takes back where memory is asked for.
const CACHE: [&str; 2] = ["inactive_file", "active_file"];

/// From this many bytes on a limit is none: version 1 has no word for that.
const NO_LIMIT: u64 = 1 << 60;

/// Where the groups are found.
pub(super) struct Groups<'a> {
    /// The process's membership (`/proc/self/cgroup`).
    pub(super) membership: &'a Path,
    /// Where the hierarchies are mounted (`/sys/fs/cgroup`).
    pub(super) root: &'a Path,
}

impl Groups<'_> {
    /// The directories that may have a controller's files, from the process's own group up to the root: of version 2, and of
    /// version 1, where each controller has a hierarchy of its own.
    fn path(&self, controller: &str) -> Vec<PathBuf> {
        let membership = fs::read_to_string(self.membership).unwrap_or_default();
        let mut directories = Vec::new();
        for line in membership.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(own)) = (parts.next(), parts.next()) else { continue };
            let root = match controllers {
                "" => self.root.to_path_buf(),
                some if some.split(',').any(|name| name == controller) => self.root.join(controller),
                _ => continue,
            };
            let own = Path::new(own.trim_start_matches('/'));
            directories.extend(own.ancestors().map(|group| root.join(group)));
        }
        directories
    }

    /// The tightest processor quota, in cores.
    pub(super) fn quota(&self) -> Option<f64> {
        let quota = |group: &PathBuf| {
            let read = |name| fs::read_to_string(group.join(name)).ok();
            // Version 1 has the two numbers in two files.
            let both =
                || Some(format!("{} {}", read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?));
            cores(&read("cpu.max").or_else(both)?)
        };
        self.path("cpu").iter().filter_map(quota).reduce(f64::min)
    }

    /// The tightest memory limit, in bytes.
    pub(super) fn memory_limit(&self) -> Option<u64> {
        self.path("memory").iter().filter_map(|group| memory_limit(group)).min()
    }

    /// The lowest limit of threads.
    pub(super) fn thread_limit(&self) -> Option<u64> {
        self.path("pids").iter().filter_map(|group| number(group, "pids.max")).min()
    }

    /// The share of a hard memory limit that is in use, where it is the largest; `None` without one. Beyond the other
    /// kind the kernel takes back what it can, and nobody has to be turned away.
    pub(super) fn memory_in_use(&self) -> Option<f64> {
        let in_use = |group: &PathBuf| Some(held(group)? as f64 / hard_limit(group)? as f64);
        self.path("memory").iter().filter_map(in_use).reduce(f64::max)
    }
}

/// A group's own limits, the hard one and that from which on it is held back.
fn memory_limit(group: &Path) -> Option<u64> {
    hard_limit(group).into_iter().chain(least(group, &["memory.high"])).min()
}

/// The limit at which the kernel kills.
fn hard_limit(group: &Path) -> Option<u64> {
    least(group, &["memory.max", "memory.limit_in_bytes"])
}

/// The least of these limits.
fn least(group: &Path, names: &[&str]) -> Option<u64> {
    let limits = names.iter().filter_map(|name| number(group, name));
    limits.filter(|bytes| (1..NO_LIMIT).contains(bytes)).min()
}

/// The number in one of a group's files; `None` where there is none, as for `max`.
fn number(group: &Path, name: &str) -> Option<u64> {
    fs::read_to_string(group.join(name)).ok()?.trim().parse().ok()
}

/// What a group and those below it hold that the kernel cannot take back: not the page cache. Where it does not say,
/// all that they have but for what it says of that.
fn held(group: &Path) -> Option<u64> {
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let sum = |names: &[&str]| {
        let fields = stat.lines().filter_map(|line| line.split_once(' '));
        let named = fields.filter(|(name, _)| names.contains(name));
        named.filter_map(|(_, bytes)| bytes.parse::<u64>().ok()).reduce(|sum, bytes| sum + bytes)
    };
    let current = || -> Option<u64> {
        let all = number(group, "memory.current").or_else(|| number(group, "memory.usage_in_bytes"))?;
        Some(all.saturating_sub(sum(&CACHE).unwrap_or(0)))
    };
    sum(&HELD).or_else(current)
}

/// `QUOTA PERIOD` in microseconds, or `max PERIOD` (version 1: `-1 PERIOD`) for no limit.
fn cores(cpu_max: &str) -> Option<f64> {
    let (quota, period) = cpu_max.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_read_in_cores() {
        assert_eq!(cores("150000 100000\n"), Some(1.5));
        for none in ["max 100000\n", "-1 100000\n", "nonsense", "100000 0"] {
            assert_eq!(cores(none), None, "{none}");
        }
    }

    /// What is read where these files are.
    fn read<T>(name: &str, files: &[(&str, &str)], read: impl FnOnce(&Groups<'_>) -> T) -> T {
        let root = std::env::temp_dir().join(format!("plimsoll-{name}-{}", std::process::id()));
        for (path, text) in files {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        }
        let result = read(&Groups { membership: &root.join("membership"), root: &root });
        fs::remove_dir_all(&root).unwrap();
        result
    }

    #[test]
    fn the_tightest_quota_of_the_path_counts() {
        let files = [
            ("membership", "0::/a/b\n"),
            ("a/cpu.max", "50000 100000\n"),
            ("a/b/cpu.max", "max 100000\n"),
            ("other/cpu.max", "10000 100000\n"),
        ];
        assert_eq!(read("cgroup-2", &files, |groups| groups.quota()), Some(0.5));
        assert_eq!(read("cgroup-none", &files[..1], |groups| groups.quota()), None);
    }

    #[test]
    fn the_tightest_memory_limit_counts_and_the_page_cache_does_not() {
        let files = [
            ("membership", "0::/a/b\n"),
            ("a/memory.max", "1000\n"),
            ("a/memory.high", "max\n"),
            ("a/memory.stat", "anon 480\nshmem 20\nfile 400\nsock 10\nslab 50\nslab_unreclaimable 40\n"),
            ("a/b/memory.max", "max\n"),
            ("a/b/memory.high", "800\n"),
            ("a/b/memory.stat", "anon 700\nfile 400\n"),
        ];
        let both = |groups: &Groups<'_>| (groups.memory_limit(), groups.memory_in_use());
        assert_eq!(read("memory-2", &files, both), (Some(800), Some(0.55)));
        let current = [("membership", "0::/\n"), ("memory.max", "1000"), ("memory.current", "250")];
        assert_eq!(read("memory-current", &current, both), (Some(1000), Some(0.25)));
        let cached = [&current[..], &[("memory.stat", "inactive_file 100\nactive_file 50\n")]].concat();
        assert_eq!(read("memory-cache", &cached, both), (Some(1000), Some(0.1)));
        assert_eq!(read("memory-none", &files[..1], both), (None, None));
        let first = [
            ("membership", "4:memory:/m\n0::/\n"),
            ("memory/m/memory.limit_in_bytes", "1000\n"),
            ("memory/m/memory.stat", "cache 800\nrss 1\ntotal_cache 800\ntotal_rss 100\n"),
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/memory.stat", "total_rss 5000\n"),
        ];
        assert_eq!(read("memory-1", &first, both), (Some(1000), Some(0.1)));
    }

    #[test]
    fn so_it_does_where_each_controller_has_a_hierarchy() {
        let files = [
            ("membership", "4:memory:/m\n2:cpu,cpuacct:/a/b\n1:name=systemd:/\n0::/\n"),
            ("cpu/a/b/cpu.cfs_quota_us", "250000\n"),
            ("cpu/a/b/cpu.cfs_period_us", "100000\n"),
            ("cpu/cpu.cfs_quota_us", "-1\n"),
            ("cpu/cpu.cfs_period_us", "100000\n"),
            ("memory/m/cpu.cfs_quota_us", "1\n"),
        ];
        assert_eq!(read("cgroup-1", &files, |groups| groups.quota()), Some(2.5));
    }

    #[test]
    fn the_lowest_limit_of_threads_of_the_path_counts() {
        let limit = |groups: &Groups<'_>| groups.thread_limit();
        let files = [
            ("membership", "0::/a/b/c\n"),
            ("a/pids.max", "300\n"),
            ("a/b/pids.max", "200\n"),
            ("a/b/c/pids.max", "max\n"),
            ("other/pids.max", "100\n"),
        ];
        assert_eq!(read("threads-2", &files, limit), Some(200));
        assert_eq!(read("threads-none", &files[..1], limit), None);
        let first = [("membership", "8:pids:/p\n"), ("pids/p/pids.max", "50\n"), ("pids/pids.max", "max\n")];
        assert_eq!(read("threads-1", &first, limit), Some(50));
    }
}
