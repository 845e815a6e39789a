//! Cores: which there are, and keeping a thread to some of them.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores this thread may use.
pub(crate) fn allowed() -> io::Result<CpuSet> {
    Ok(sched_getaffinity(None)?)
}

/// The wanted cores, or all allowed ones if none is wanted.
///
/// # Errors
/// A wanted core is not allowed or not there, in words.
pub(crate) fn choose(wanted: &[usize], allowed: &CpuSet) -> Result<CpuSet, String> {
    if wanted.is_empty() {
        return Ok(*allowed);
    }
    let mut set = CpuSet::new();
    for &cpu in wanted {
        if cpu >= CpuSet::MAX_CPU || !allowed.is_set(cpu) {
            return Err(format!("core {cpu} cannot be used here; there are {}", list(allowed)));
        }
        set.set(cpu);
    }
    Ok(set)
}

/// The numbers of the cores in a set, in ascending order.
pub(crate) fn numbers(set: &CpuSet) -> impl Iterator<Item = usize> {
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu))
}

/// The same as text: `0, 1, 3`.
pub(crate) fn list(set: &CpuSet) -> String {
    numbers(set).map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(", ")
}

/// Keeps the thread it is made on to some cores until it is dropped.
pub(crate) struct Kept {
    before: CpuSet,
}

impl Kept {
    /// Moves this thread.
    pub(crate) fn to(cores: &CpuSet) -> io::Result<Self> {
        let before = allowed()?;
        sched_setaffinity(None, cores)?;
        Ok(Kept { before })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // The thread was on these cores before; if they are gone by now, it stays where it is.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cpus: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        set
    }

    #[test]
    fn only_cores_that_are_there_can_be_chosen() {
        let there = set(&[0, 2]);
        assert_eq!(list(&choose(&[], &there).unwrap()), "0, 2");
        assert_eq!(list(&choose(&[2], &there).unwrap()), "2");
        assert_eq!(choose(&[1], &there).err().unwrap(), "core 1 cannot be used here; there are 0, 2");
        assert!(choose(&[1 << 20], &there).is_err());
    }

    #[test]
    fn a_thread_goes_back_when_it_is_no_longer_kept() {
        let before = allowed().unwrap();
        let first = numbers(&before).next().unwrap();
        let kept = Kept::to(&set(&[first])).unwrap();
        assert_eq!(list(&allowed().unwrap()), first.to_string());
        drop(kept);
        assert_eq!(list(&allowed().unwrap()), list(&before));
    }
}
