//! Places for connections on a reactor: whoever brings one takes a place first, on whichever thread that is.

use std::sync::Arc;

use crate::sync::{AtomicUsize, Ordering};

/// The places of one reactor, in a cache line of their own.
///
/// A connection has a place from before it is accepted here, or sent here, until it is over. So what is on its way to a
/// reactor always finds room, however many come there by themselves meanwhile, and nobody has to wait at the door.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Places {
    taken: AtomicUsize,
    capacity: usize,
}

impl Places {
    /// So many, all of them free.
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Places { taken: AtomicUsize::new(0), capacity })
    }

    /// How many there are.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes a place, if more than so many are free.
    pub(crate) fn take(self: &Arc<Self>, keeping: usize) -> Option<Place> {
        // A number and nothing else: what a connection brings along is handed over by other means.
        let more = |taken| (taken + keeping < self.capacity).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Place(self.clone()))
    }
}

/// A place, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Places>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_taken_as_there_are_and_those_that_are_kept_are_left() {
        let places = Places::new(3);
        let first: Vec<Place> = std::iter::from_fn(|| places.take(1)).collect();
        assert_eq!((first.len(), places.taken()), (2, 2));
        let last = places.take(0);
        assert!(last.is_some() && places.take(0).is_none());
        drop(first);
        assert_eq!((places.taken(), places.take(1).is_some()), (1, true));
    }
}
