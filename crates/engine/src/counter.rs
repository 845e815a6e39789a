//! Counters that one thread writes and any may read.

use std::sync::atomic::{AtomicU64, Ordering};

/// Adds a number. Since a single thread writes each counter, no locked instruction is needed.
pub fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}
