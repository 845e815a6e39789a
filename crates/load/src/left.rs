//! How many requests of a load that ends with a number of them a process may still start. Its threads take them as they come to
//! it: connections that are answered sooner do more of them, whichever thread they are on.

use std::future::pending;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::Stop as Switch;

use crate::plan::{Plan, Stop};
use crate::thread::share;

/// What is left.
pub(crate) struct Left {
    /// `None` where time is the limit.
    count: Option<AtomicU64>,
    /// On when none is left.
    used_up: Switch,
}

impl Left {
    /// What those of a load's `of` threads may start that are in one process.
    pub(crate) fn of(plan: &Plan, which: Range<u32>, of: u32) -> Self {
        Left::new(match plan.stop {
            Stop::Seconds(_) => None,
            Stop::Requests(all) => Some(part(plan, all, which, of)),
        })
    }

    fn new(count: Option<u64>) -> Self {
        let left = Left { count: count.map(AtomicU64::new), used_up: Switch::default() };
        if !left.any() {
            left.used_up.set();
        }
        left
    }

    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        self.count.as_ref().is_none_or(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// Takes one; false where none is left.
    pub(crate) fn take(&self) -> bool {
        let Some(count) = &self.count else { return true };
        let before = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if before == Ok(1) {
            self.used_up.set();
        }
        before.is_ok()
    }

    /// Wakes the calling task when none is left. Once per task is enough.
    pub(crate) async fn watch(&self) {
        self.used_up.watch().await;
    }

    /// Waits until none is left. The task must [`watch`](Self::watch).
    pub(crate) async fn used_up(&self) {
        self.used_up.or(pending::<()>()).await;
    }
}

/// The part of so many requests that some of a load's threads have: in a closed loop as they have connections, which go on as
/// they are answered; in an open one as requests are due on them, alike on all.
fn part(plan: &Plan, all: u64, which: Range<u32>, of: u32) -> u64 {
    if plan.arrivals.is_open() {
        return which.map(|index| share(all, index, of)).sum();
    }
    let connections = u64::from(plan.connections);
    let before = |index: u32| (0..index).map(|index| share(connections, index, of)).sum::<u64>();
    let up_to = |index: u32| u128::from(all) * u128::from(before(index)) / u128::from(connections.max(1));
    (up_to(which.end) - up_to(which.start)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Arrivals, Rate, Spacing};

    #[test]
    fn processes_have_parts_that_are_all_and_suit_their_connections() {
        let closed = Plan { connections: 5, ..Plan::new("http://x/") };
        let rate = Rate::Steady { rate: 10.0 };
        let arrivals = Arrivals::Open { rate, spacing: Spacing::Constant, seed: 1, session: None };
        let open = Plan { arrivals, ..closed.clone() };
        // Two processes of a thread each, with three connections and two.
        assert_eq!([part(&closed, 1000, 0..1, 2), part(&closed, 1000, 1..2, 2)], [600, 400]);
        assert_eq!([part(&open, 1000, 0..1, 2), part(&open, 1000, 1..2, 2)], [500, 500]);
        for all in [1, 2, 7, 1001, u64::MAX] {
            for plan in [&closed, &open] {
                let parts = (0..3).map(|at| u128::from(part(plan, all, at * 2..at * 2 + 2, 6)));
                assert_eq!(parts.sum::<u128>(), u128::from(all), "{all}");
            }
        }
    }

    #[test]
    fn as_many_are_taken_as_there_are() {
        let left = Left::new(Some(2));
        assert!(left.any() && left.take() && left.take());
        assert!(!left.any() && !left.take() && left.used_up.is_set());
        assert!(Left::new(Some(0)).used_up.is_set());
        let endless = Left::new(None);
        assert!(endless.any() && endless.take() && !endless.used_up.is_set());
    }
}
