//! Sleeps that last as long as they should, on a host whose clock interrupts come late.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

/// Timer slack in nanoseconds. The kernel may end a sleep this much late to save wake-ups; its own 50 us would
/// double a sleep of that length (prctl(2), PR_SET_TIMERSLACK).
const SLACK_NS: u64 = 1;

/// Most that a sleep is cut short for the time that waking up takes.
const MOST_EARLY: Duration = Duration::from_micros(100);

/// The part of a sleep that may be cut short at most.
const MOST_PART: u32 = 2;

/// Weights of the latest wake-up in the moving average, as divisors: one that was quicker than expected counts more, since
/// what was expected too long is waited out with the processor busy.
const QUICKER: u32 = 2;
const SLOWER: u32 = 8;

thread_local! {
    /// How long waking up takes, of late.
    static WAKING: Cell<Duration> = {
        // Where it is refused sleeps are as exact as the kernel's default makes them.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(SLACK_NS));
        Cell::new(Duration::ZERO)
    };
}

/// Sleeps for at least `time`, and hardly longer. On virtual machines waking up takes some tens of microseconds, always;
/// the sleep is ended that much earlier, and where that was too early, the rest is waited out: some microseconds.
pub(super) fn exactly(time: Duration) {
    let start = Instant::now();
    let early = WAKING.get().min(MOST_EARLY).min(time / MOST_PART);
    thread::sleep(time - early);
    let waking = start.elapsed().saturating_sub(time - early);
    let known = WAKING.get();
    WAKING.set(if waking < known {
        known - (known - waking) / QUICKER
    } else {
        known + (waking - known) / SLOWER
    });
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sleep_is_too_short() {
        for us in [1, 20, 100, 200, 1000] {
            let time = Duration::from_micros(us);
            for _ in 0..50 {
                let start = Instant::now();
                exactly(time);
                assert!(start.elapsed() >= time);
            }
        }
    }
}
