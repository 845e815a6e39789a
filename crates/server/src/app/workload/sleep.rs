//! Sleeps that last as long as they should on average, on a host whose clock interrupts come late.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

/// Timer slack in nanoseconds. The kernel may end a sleep this much late to save wake-ups; its own 50 us would
/// double a sleep of that length (prctl(2), PR_SET_TIMERSLACK).
const SLACK_NS: u64 = 1;

/// The part of a sleep that may be left out at most, as a divisor.
const MOST_PART: u32 = 2;

/// Most that is made up for, in sleeps: a thread that was kept from running for long does not hurry for long.
const MOST_OWED: u32 = 10;

thread_local! {
    /// How much longer this thread has slept than it should have, in sleeps of about this length.
    static OVERSLEPT: Cell<(Duration, Duration)> = {
        // Where it is refused sleeps are as exact as the kernel's default makes them.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(SLACK_NS));
        Cell::new((Duration::ZERO, Duration::ZERO))
    };
}

/// Sleeps for `time`, as the mean of many. On virtual machines waking up takes some tens of microseconds, always: what a
/// thread has overslept is left out of its next sleeps of about the same length, of which at least half is slept.
pub(super) fn on_average(time: Duration) {
    let start = Instant::now();
    let (overslept, length) = OVERSLEPT.get();
    // Short sleeps do not make up for a long one.
    let alike = length <= 2 * time && time <= 2 * length;
    let overslept = if alike { overslept } else { Duration::ZERO };
    thread::sleep(time - overslept.min(time / MOST_PART));
    let owed = (overslept + start.elapsed()).saturating_sub(time);
    OVERSLEPT.set((owed.min(time * MOST_OWED), time));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_are_never_too_short_in_sum_nor_shorter_than_half() {
        for us in [1, 20, 100, 200, 1000] {
            let time = Duration::from_micros(us);
            let begun = Instant::now();
            for _ in 0..50 {
                let start = Instant::now();
                on_average(time);
                assert!(start.elapsed() >= time / MOST_PART);
            }
            // What was owed from before was bounded too.
            assert!(begun.elapsed() >= time * (50 - MOST_OWED), "{us} us");
        }
    }

    #[test]
    fn what_was_overslept_is_made_up_for_once() {
        let time = Duration::from_millis(2);
        OVERSLEPT.set((time / 4, time));
        let start = Instant::now();
        on_average(time);
        assert!(start.elapsed() >= time - time / 4);
        OVERSLEPT.set((Duration::from_secs(1), time));
        on_average(time);
        assert!(OVERSLEPT.get().0 <= time * MOST_OWED);
        // Not by a sleep of another length.
        OVERSLEPT.set((time, 3 * time));
        let start = Instant::now();
        on_average(time);
        assert!(start.elapsed() >= time);
    }
}
