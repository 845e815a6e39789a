//! The processes that belong together, found in /proc.

use std::fs;

use engine::ticks::TICK_NS;

/// A process as it was at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    parent: u32,
    group: u32,
    /// Tells a process from a later one of the same number.
    started: u64,
    /// It has ended, and its parent has not waited for it yet.
    ended: bool,
    /// User and system time of its threads, those that have ended included.
    ticks: u64,
    /// The same of its children that have ended and were waited for.
    children_ticks: u64,
}

impl Process {
    /// `None` where there is no such process.
    fn read(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, in parentheses, may hold anything; the state is the first field behind it (proc(5)).
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Process {
            pid,
            parent: field(1)? as u32,
            group: field(2)? as u32,
            started: field(19)?,
            ended: matches!(fields.first(), Some(&"Z" | &"X")),
            ticks: field(11)? + field(12)?,
            children_ticks: field(13)? + field(14)?,
        })
    }

    /// Processor time that it and its children have used, in nanoseconds. No thread's is lost when it ends, and no child's, which
    /// its parent has from when it waits for it, in whole ticks.
    pub(super) fn cpu_ns(&self) -> u64 {
        // One that was waited for since it was read had used what was read.
        let own = engine::clock::of(self.pid).map_or(self.ticks * TICK_NS, |time| time.as_nanos() as u64);
        own + self.children_ticks * TICK_NS
    }

    /// Whether this very process still runs.
    pub fn runs(&self) -> bool {
        Process::read(self.pid).is_some_and(|now| now.started == self.started && !now.ended)
    }
}

/// A process, its group and all descendants, as far as they run.
pub fn tree(leader: u32) -> Vec<Process> {
    let mut tree = members(leader);
    tree.retain(|process| !process.ended);
    tree
}

/// A process, its group and all descendants, with those that nobody has waited for yet: a child may leave the group, and a
/// grandchild may lose its parent, and both still belong to the server.
pub(super) fn members(leader: u32) -> Vec<Process> {
    let all: Vec<Process> = numbers_in("/proc").into_iter().filter_map(Process::read).collect();
    let mut tree: Vec<Process> =
        all.iter().filter(|process| process.pid == leader || process.group == leader).copied().collect();
    let mut next = 0;
    while let Some(&Process { pid, .. }) = tree.get(next) {
        for child in all.iter().filter(|process| process.parent == pid) {
            if !tree.contains(child) {
                tree.push(*child);
            }
        }
        next += 1;
    }
    tree
}

/// The entries of a directory that are numbers.
pub(super) fn numbers_in(directory: &str) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
