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
    /// The places of all reactors together, where there are fewer than the sum of each one's.
    all: Option<Arc<Places>>,
}

impl Places {
    /// So many, all of them free.
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Places { taken: AtomicUsize::new(0), capacity, all: None })
    }

    /// So many at most, as long as there are some left of all.
    pub(crate) fn of(all: Option<&Arc<Self>>, capacity: usize) -> Arc<Self> {
        Arc::new(Places { taken: AtomicUsize::new(0), capacity, all: all.cloned() })
    }

    /// How many could be taken.
    pub(crate) fn free(&self) -> usize {
        self.room(0)
    }

    /// How many could be taken so that so many of its own stay free.
    pub(crate) fn room(&self, keeping: usize) -> usize {
        let own = self.capacity.saturating_sub(self.taken() + keeping);
        self.all.as_ref().map_or(own, |all| own.min(all.free()))
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
        self.reserve(keeping).then(|| Place(self.clone()))
    }

    fn reserve(&self, keeping: usize) -> bool {
        // A number and nothing else: what a connection brings along is handed over by other means.
        let more = |taken| (taken + keeping < self.capacity).then_some(taken + 1);
        if self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return false;
        }
        let is_left = self.all.as_ref().is_none_or(|all| all.reserve(0));
        if !is_left {
            self.taken.fetch_sub(1, Ordering::Relaxed);
        }
        is_left
    }

    fn release(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
        self.all.iter().for_each(|all| all.release());
    }
}

/// A place, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Places>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.release();
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

    #[test]
    fn all_reactors_together_take_no_more_than_there_are_in_all() {
        let all = Places::new(3);
        let each: Vec<_> = (0..2).map(|_| Places::of(Some(&all), 2)).collect();
        let first = [each[0].take(0).unwrap(), each[0].take(0).unwrap()];
        assert!(each[0].take(0).is_none() && all.taken() == 2, "it is full");
        let second = each[1].take(0);
        assert_eq!((each[1].free(), each[1].take(0).is_none(), each[1].taken()), (0, true, 1));
        drop(first);
        assert_eq!((all.taken(), each[0].free(), each[1].free()), (1, 2, 1));
        drop(second);
        assert_eq!((all.taken(), each[1].taken()), (0, 0));
    }
}
