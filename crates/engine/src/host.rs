//! What the host grants this process: processor cores, memory, threads and file descriptors.

mod cgroup;

use std::fmt;
use std::path::Path;

use cgroup::Groups;

/// The groups of this process.
fn groups() -> Groups<'static> {
    Groups { membership: Path::new("/proc/self/cgroup"), root: Path::new("/sys/fs/cgroup") }
}

/// The cores this process may use, and what says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cores {
    /// Cores in the affinity mask.
    pub affinity: usize,
    /// Tightest processor quota on the whole cgroup path, in cores.
    pub quota: Option<f64>,
}

impl Cores {
    /// Reads the calling thread's affinity mask and the cgroup.
    pub fn detect() -> Self {
        Cores { affinity: processors().len().max(1), quota: groups().quota() }
    }

    /// Threads that can run at the same time: a quota of 1.5 cores keeps two threads busy, so it rounds up.
    pub fn usable(&self) -> usize {
        let quota = self.quota.map_or(usize::MAX, |quota| quota.ceil().max(1.0) as usize);
        self.affinity.min(quota)
    }

    /// Seconds of processor time that there are in a second: of a quota of 1.5 cores no more than that can be used.
    pub fn time(&self) -> f64 {
        let affinity = self.affinity as f64;
        self.quota.map_or(affinity, |quota| quota.min(affinity))
    }
}

/// How many threads of this process can run at the same time, as of now.
pub fn usable() -> usize {
    Cores::detect().usable()
}

/// The memory this process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// In bytes: the tightest limit on the whole cgroup path, or what the host has where that is less.
    pub bytes: u64,
    /// Whether it is a cgroup that limits it.
    pub is_limited: bool,
}

impl Memory {
    /// Reads the cgroup, and the size of the host's memory.
    pub fn detect() -> Self {
        let host = rustix::system::sysinfo();
        let host = (host.totalram as u64).saturating_mul(u64::from(host.mem_unit).max(1));
        let limit = groups().memory_limit().filter(|limit| *limit < host);
        Memory { bytes: limit.unwrap_or(host), is_limited: limit.is_some() }
    }

    /// Connections that take half of it at most, which so many reactors share. There may be `most_reactors` later on, and
    /// each that is added brings slots for its equal share by then.
    pub fn connections(self, reactors: usize, most_reactors: usize) -> u64 {
        // Rounded up, so that the sum is kept.
        let later: u64 = (reactors + 1..=most_reactors).map(|nth| CONNECTION_SLOT.div_ceil(nth as u64)).sum();
        self.bytes / MEMORY_SHARE / (CONNECTION_BYTES + later)
    }
}

/// The share of the cgroup's memory limit that is in use, without the page cache: the largest of any group on the path;
/// `None` without a limit.
pub fn memory_in_use() -> Option<f64> {
    groups().memory_in_use()
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

/// How many threads the cgroup allows, those of its other processes included: the lowest limit on the whole path; `None`
/// for no limit.
pub fn thread_limit() -> Option<u64> {
    groups().thread_limit()
}

/// Descriptors that are kept for files, listening sockets and the like.
const DESCRIPTORS_KEPT: u64 = 64;

/// Connections for which memory is reserved by default, over all reactors, however many descriptors there are.
const MOST_CONNECTIONS: u64 = 65_536;

/// Bytes of memory of a slot, of which there is one for each connection that there may be. Measured it is 2.4 KiB, by
/// what a server with `--connections 65000` has more than one with 1.
pub const CONNECTION_SLOT: u64 = 3 * 1024;

/// Bytes of memory of the buffers that one connection may have at most.
pub const CONNECTION_BUFFERS: u64 = 2 * crate::BUF_BYTES as u64;

/// Bytes of memory that one connection may take at most of the engine's.
pub const CONNECTION_BYTES: u64 = CONNECTION_SLOT + CONNECTION_BUFFERS;

/// The part of the memory that connections may take: one in so many.
const MEMORY_SHARE: u64 = 2;

/// What bounds the number of connections where it is not said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Nothing but what is reserved by default at most.
    Usual,
    /// The limit of descriptors.
    Descriptors,
    /// The memory.
    Memory,
}

/// Connections to reserve memory for per reactor unless it is said how many, and what bounds them. They fit into so many
/// descriptors (`None` for no limit) and into half of the memory, also where there are `most_reactors` later on. Threads
/// that own connections share one bound, as one reactor does.
pub fn connections(
    descriptors: Option<u64>,
    memory: Memory,
    reactors: usize,
    most_reactors: usize,
) -> (usize, Bound) {
    let descriptors = descriptors.unwrap_or(u64::MAX).saturating_sub(DESCRIPTORS_KEPT);
    let (all, bound) = [
        (MOST_CONNECTIONS, Bound::Usual),
        (descriptors, Bound::Descriptors),
        (memory.connections(reactors, most_reactors), Bound::Memory),
    ]
    .into_iter()
    .min_by_key(|(connections, _)| *connections)
    .unwrap_or((1, Bound::Usual));
    ((all as usize / reactors.max(1)).max(1), bound)
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
    fn a_fraction_of_a_core_rounds_up_and_the_mask_still_binds() {
        assert_eq!(Cores { affinity: 4, quota: Some(2.5) }.usable(), 3);
        assert_eq!(Cores { affinity: 2, quota: Some(8.0) }.usable(), 2);
        assert_eq!(Cores { affinity: 2, quota: None }.usable(), 2);
    }

    #[test]
    fn of_a_fraction_of_a_core_no_more_than_that_can_be_used() {
        for (affinity, quota, time) in
            [(4, Some(2.5), 2.5), (2, Some(0.5), 0.5), (2, Some(8.0), 2.0), (2, None, 2.0)]
        {
            assert_eq!(Cores { affinity, quota }.time(), time, "{affinity} {quota:?}");
        }
    }

    #[test]
    fn connections_fit_into_descriptors_and_into_half_of_the_memory() {
        let of = |bytes| Memory { bytes, is_limited: true };
        let plenty = of(1 << 40);
        assert_eq!(connections(None, plenty, 2, 2), (32_768, Bound::Usual));
        assert_eq!(connections(Some(1064), plenty, 4, 0), (250, Bound::Descriptors));
        assert_eq!(connections(Some(1 << 20), of(CONNECTION_BYTES * 2000), 2, 0), (500, Bound::Memory));
        assert_eq!(connections(Some(1), of(1), 4, 8).0, 1, "there is always one");
        let here = Memory::detect();
        assert!(here.bytes > 16 << 20, "{here:?}");
    }
}
