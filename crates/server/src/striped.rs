//! A value in several copies, so that threads that each use their own do not wait for each other.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most copies. Where there are more threads than that, some have one together.
const MOST: usize = 32;

/// Copies of a value, each behind a lock of its own.
#[derive(Debug)]
pub(crate) struct Striped<T>(Box<[Stripe<T>]>);

/// A copy on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe<T>(Mutex<T>);

impl<T> Striped<T> {
    /// Copies for so many threads, each made by `make`, which is told how many there will be.
    pub(crate) fn new(threads: usize, make: impl Fn(usize) -> T) -> Self {
        let count = threads.clamp(1, MOST);
        Striped((0..count).map(|_| Stripe(Mutex::new(make(count)))).collect())
    }

    /// The copy of the thread with this number.
    pub(crate) fn of(&self, thread: usize) -> MutexGuard<'_, T> {
        self.0[thread % self.0.len()].lock()
    }

    /// One copy after the other.
    pub(crate) fn all(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.0.iter().map(Stripe::lock)
    }
}

impl<T> Stripe<T> {
    /// What panicked while it held the lock left a whole value behind: the next one goes on with it.
    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
