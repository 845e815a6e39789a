//! How a load is split: into processes that may each have so many descriptors, and threads, of which each process has as many.

/// Descriptors that a process needs beside those of its connections and its threads.
const BESIDE: u64 = 32;

/// Descriptors that each thread needs beside its connections: of its driver, to be woken, for a timer, and one to spare.
const OF_A_THREAD: u64 = 4;

/// Most processes.
pub(crate) const MOST_PROCESSES: u32 = 256;

/// Threads of so many processes together, of which each has as many; 0 asks for one per usable core.
pub(super) fn threads(wanted: u32, processes: u32) -> u32 {
    let wanted = if wanted == 0 { engine::host::Cores::detect().usable() as u32 } else { wanted };
    wanted.max(1).next_multiple_of(processes.max(1))
}

/// Most connections that so many processes and threads can have, by a limit of descriptors for each process; every thread has at
/// least one.
fn most_of(limit: u64, threads: u32, processes: u32) -> u64 {
    let of_a_process = u64::from(threads / processes.max(1)).max(1);
    let of_a_thread = limit.saturating_sub(BESIDE).checked_div(of_a_process).unwrap_or_default();
    of_a_thread.saturating_sub(OF_A_THREAD).max(1) * u64::from(threads)
}

/// Most connections of a load with so many threads (0 for one per usable core) and processes, by the limit of descriptors of
/// this host; `None` where there is none.
pub(crate) fn most_connections(wanted: u32, processes: u32) -> Option<u64> {
    let limit = engine::host::descriptor_limit()?;
    Some(most_of(limit, threads(wanted, processes), processes))
}

/// Fewest processes that may have so many connections with so many threads (0 for one per usable core), by the limit of
/// descriptors.
pub fn processes_for(connections: u32, wanted: u32) -> u32 {
    let fits = |processes: &u32| {
        most_connections(wanted, *processes).is_none_or(|most| u64::from(connections) <= most)
    };
    (1..MOST_PROCESSES).find(fits).unwrap_or(MOST_PROCESSES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::share;

    #[test]
    fn no_process_gets_more_connections_than_it_has_descriptors_for() {
        for (limit, wanted, processes) in
            [(20_000, 3, 2), (20_000, 1, 2), (1_024, 8, 3), (100, 64, 5), (20_000, 7, 1)]
        {
            let all = threads(wanted, processes);
            let most = most_of(limit, all, processes);
            let each = all / processes;
            for process in 0..processes {
                let own = process * each..(process + 1) * each;
                let connections: u64 = own.map(|index| share(most, index, all)).sum();
                let needed = connections + BESIDE + OF_A_THREAD * u64::from(each);
                // A process has one connection for each thread even where that is too many.
                let least = BESIDE + (OF_A_THREAD + 1) * u64::from(each);
                assert!(needed <= limit.max(least), "{limit} {wanted} {processes}: {needed}");
            }
        }
        // With threads that are not shared out evenly the second process had two of three, and 26,000 of these.
        assert_eq!(threads(3, 2), 4);
        assert_eq!(most_of(20_000, 4, 2), 39_920);
    }
}
