//! The kernel's clocks, as durations.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Reads a clock: since its epoch, or of processor time.
pub fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32)
}

/// Processor time of the calling thread, which takes a system call.
pub fn of_thread() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// Processor time of the process.
pub fn of_process() -> Duration {
    read(ClockId::ProcessCPUTime)
}
