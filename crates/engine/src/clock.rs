//! The kernel's clocks, as durations.

use std::ffi::{c_int, c_long};
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

/// Processor time of another process: of all threads that it has or had, to the nanosecond, but for what a thread has run since
/// the last tick. Its children have clocks of their own. `None` where there is no such process.
pub fn of(pid: u32) -> Option<Duration> {
    #[repr(C)]
    struct Time {
        seconds: c_long,
        nanoseconds: c_long,
    }
    // SAFETY: this is clock_gettime(2) of the C library, which looks at no more than its arguments.
    unsafe extern "C" {
        safe fn clock_gettime(clock: c_int, time: &mut Time) -> c_int;
    }
    /// The scheduler's clock, out of three that a process has.
    const SCHEDULER: c_int = 2;
    // What clock_getcpuclockid(3) makes of the number of a process.
    let clock = (!(pid as c_int) << 3) | SCHEDULER;
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    (clock_gettime(clock, &mut time) == 0)
        .then(|| Duration::new(time.seconds.max(0) as u64, time.nanoseconds as u32))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, id};
    use std::thread;

    use super::*;

    #[test]
    fn the_clock_of_a_process_is_that_of_its_threads_and_of_those_that_have_ended() {
        let spin = || {
            while of_thread() < Duration::from_millis(3) {
                std::hint::spin_loop();
            }
        };
        let outer = of_process();
        let from = of(id()).unwrap();
        let inner = of_process();
        (0..5).for_each(|_| thread::spawn(spin).join().unwrap());
        let inner = of_process() - inner;
        let seen = of(id()).unwrap() - from;
        let outer = of_process() - outer;
        assert!(inner <= seen && seen <= outer, "{inner:?} {seen:?} {outer:?}");
        assert!(seen >= Duration::from_millis(15), "{seen:?}");
    }

    #[test]
    fn a_process_has_a_clock_until_it_was_waited_for() {
        let mut child = Command::new("true").spawn().unwrap();
        assert!(of(child.id()).is_some());
        child.wait().unwrap();
        assert_eq!(of(child.id()), None);
    }
}
