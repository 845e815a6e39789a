//! What the host grants this process: processor cores and file descriptors.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The cores this process may use, and what says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cores {
    /// Cores in the affinity mask.
    pub affinity: usize,
    /// Tightest processor quota on the whole cgroup path, in cores.
    pub quota: Option<f64>,
}

impl Cores {
    /// Reads the affinity mask and the cgroup.
    pub fn detect() -> Self {
        let affinity = processors().len().max(1);
        Cores { affinity, quota: cgroup_quota(Path::new("/proc/self/cgroup"), Path::new("/sys/fs/cgroup")) }
    }

    /// Threads that can run at the same time: a quota of 1.5 cores keeps two threads busy, so it rounds up.
    pub fn usable(&self) -> usize {
        let quota = self.quota.map_or(usize::MAX, |quota| quota.ceil().max(1.0) as usize);
        self.affinity.min(quota)
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in the affinity mask, ", self.affinity)?;
        match self.quota {
            Some(quota) => write!(f, "cgroup quota of {quota:.2}"),
            None => f.write_str("no cgroup quota"),
        }
    }
}

/// The tightest `cpu.max` from the process's own cgroup (version 2) up to the root: a limit on any of them
/// binds.
fn cgroup_quota(membership: &Path, root: &Path) -> Option<f64> {
    let membership = fs::read_to_string(membership).ok()?;
    let own = membership.lines().find_map(|line| line.strip_prefix("0::"))?;
    let own: PathBuf = own.trim_start_matches('/').into();
    own.ancestors()
        .filter_map(|group| quota(&fs::read_to_string(root.join(group).join("cpu.max")).ok()?))
        .reduce(f64::min)
}

/// `QUOTA PERIOD` in microseconds, or `max PERIOD` for no limit (cgroup v2, cpu.max).
fn quota(cpu_max: &str) -> Option<f64> {
    let (quota, period) = cpu_max.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// The numbers of the processors that the calling thread may use; none where the kernel does not say.
pub fn processors() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let mask = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|cpu| mask.is_set(*cpu)).collect()
}

/// Keeps the calling thread, and those it starts from then on, on these processors.
///
/// # Errors
/// None of them exists, or the process may use none of them (sched_setaffinity(2), `EINVAL`).
pub fn pin(cpus: &[usize]) -> std::io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    cpus.iter().filter(|cpu| **cpu < rustix::thread::CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu));
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// How many descriptors this process may have open (its soft limit); `None` for no limit.
pub fn descriptor_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Descriptors that are kept for files, listening sockets and the like.
const DESCRIPTORS_KEPT: u64 = 64;

/// Connections for which memory is reserved by default, over all reactors, however many descriptors there are.
const MOST_CONNECTIONS: u64 = 65_536;

/// Connections to reserve memory for per reactor unless it is said how many: what so many descriptors allow, `None`
/// for no limit. Threads that own connections share one bound, as one reactor does.
pub fn connections(descriptors: Option<u64>, reactors: usize) -> usize {
    let all = descriptors.unwrap_or(u64::MAX).saturating_sub(DESCRIPTORS_KEPT).min(MOST_CONNECTIONS);
    (all as usize / reactors.max(1)).max(1)
}

/// Most descriptors that [`raise_descriptor_limit`] asks for where the hard limit is higher still.
const ENOUGH_DESCRIPTORS: u64 = 1 << 20;

/// Raises the soft limit of descriptors to the hard one. The soft limit is low by default for the sake of programs
/// that use select(2), which is none of ours.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(ENOUGH_DESCRIPTORS).min(ENOUGH_DESCRIPTORS);
    if limit.current.is_some_and(|current| current < wanted) {
        // Where it is refused the program runs with what it has, and says how much that is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_read_in_cores() {
        assert_eq!(quota("150000 100000\n"), Some(1.5));
        assert_eq!(quota("max 100000\n"), None);
        assert_eq!(quota("nonsense"), None);
        assert_eq!(quota("100000 0"), None);
    }

    #[test]
    fn the_tightest_quota_of_the_path_counts() {
        let root = std::env::temp_dir().join(format!("plimsoll-cgroup-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("membership"), "0::/a/b\n").unwrap();
        fs::write(root.join("a/cpu.max"), "50000 100000\n").unwrap();
        fs::write(root.join("a/b/cpu.max"), "max 100000\n").unwrap();
        let quota = cgroup_quota(&root.join("membership"), &root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(quota, Some(0.5));
        assert_eq!(Cores { affinity: 4, quota }.usable(), 1);
    }

    #[test]
    fn a_fraction_of_a_core_rounds_up_and_the_mask_still_binds() {
        assert_eq!(Cores { affinity: 4, quota: Some(2.5) }.usable(), 3);
        assert_eq!(Cores { affinity: 2, quota: Some(8.0) }.usable(), 2);
        assert_eq!(Cores { affinity: 2, quota: None }.usable(), 2);
    }
}
