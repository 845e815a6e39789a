//! The primitives that threads of the engine share, so that a model checker can put its own in their place.
//!
//! `make model-check` builds with `--cfg shuttle`; every interleaving is then the checker's choice.

#[cfg(not(shuttle))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    sync::{Condvar, Mutex, MutexGuard},
    thread::yield_now,
};

#[cfg(shuttle)]
pub(crate) use shuttle::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    sync::{Condvar, Mutex, MutexGuard},
    thread::yield_now,
};

use std::sync::PoisonError;

/// Locks, also after a thread panicked with the lock held: what the engine keeps behind its locks is whole at every
/// step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
