//! Which workers a pool has, and which it should have: a place for each that there may be, from the first on.

use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering, lock};

/// The places of a pool's workers.
#[derive(Debug)]
pub(super) struct Crew {
    /// Workers that there should be: those with an index below it.
    wanted: AtomicUsize,
    closed: AtomicBool,
    /// Whether the worker of each place runs.
    places: Mutex<Vec<bool>>,
}

impl Crew {
    /// A crew of none yet, and never more than `most`.
    pub(super) fn new(most: usize) -> Self {
        Crew {
            wanted: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            places: Mutex::new(vec![false; most]),
        }
    }

    /// Workers that there should be.
    pub(super) fn wanted(&self) -> usize {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Whether the worker should look whether it may leave.
    pub(super) fn may_leave(&self, worker: usize) -> bool {
        worker >= self.wanted()
    }

    /// Sets how many there should be, and gives the places of those that are to be started.
    pub(super) fn want(&self, wanted: usize) -> Vec<usize> {
        let mut places = lock(&self.places);
        if self.closed.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let wanted = wanted.min(places.len());
        self.wanted.store(wanted, Ordering::Relaxed);
        let empty: Vec<usize> = (0..wanted).filter(|place| !places[*place]).collect();
        empty.iter().for_each(|place| places[*place] = true);
        empty
    }

    /// A worker finds nothing more to do: true if it is to leave, which is for good, false if it is wanted after all.
    pub(super) fn leaves(&self, worker: usize) -> bool {
        let mut places = lock(&self.places);
        let leaves = self.closed.load(Ordering::Relaxed) || self.may_leave(worker);
        if leaves {
            places[worker] = false;
        }
        leaves
    }

    /// Their workers could not be started: there are to be no more than have a place before the first of them.
    pub(super) fn vacate(&self, places: &[usize]) {
        let mut all = lock(&self.places);
        places.iter().for_each(|place| all[*place] = false);
        places.first().into_iter().for_each(|first| self.wanted.store(*first, Ordering::Relaxed));
    }

    /// Nobody is wanted any more.
    pub(super) fn close(&self) {
        // With the lock, so that nobody is hired behind it.
        let _places = lock(&self.places);
        self.closed.store(true, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_filled_once_and_again_when_its_worker_has_left() {
        let crew = Crew::new(4);
        assert_eq!(crew.want(2), [0, 1]);
        assert_eq!(crew.want(9), [2, 3]);
        assert_eq!((crew.wanted(), crew.want(1).len()), (4, 0));
        // The fourth leaves; the third has not come to it when it is wanted again.
        assert!(crew.leaves(3) && !crew.leaves(0));
        assert_eq!(crew.want(4), [3]);
        assert!(!crew.leaves(2));
        crew.vacate(&[3]);
        assert_eq!((crew.wanted(), crew.want(4)), (3, vec![3]));
        crew.close();
        assert!(crew.leaves(0) && crew.want(4).is_empty());
    }
}
