//! What is due when: a queue by time, and by order of entry at the same time, so that a run can be repeated exactly.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A queue of what is due.
#[derive(Debug)]
pub(super) struct Agenda<T> {
    entries: BinaryHeap<Entry<T>>,
    order: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: f64,
    order: u64,
    what: T,
}

impl<T> Agenda<T> {
    pub(super) fn new() -> Self {
        Agenda { entries: BinaryHeap::new(), order: 0 }
    }

    pub(super) fn add(&mut self, at: f64, what: T) {
        self.order += 1;
        self.entries.push(Entry { at, order: self.order, what });
    }

    /// When the first is due.
    pub(super) fn next(&self) -> Option<f64> {
        self.entries.peek().map(|entry| entry.at)
    }

    /// Takes the first.
    pub(super) fn take(&mut self) -> Option<(f64, T)> {
        self.entries.pop().map(|entry| (entry.at, entry.what))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// The earliest is the greatest: a `BinaryHeap` gives the greatest first.
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then(other.order.cmp(&self.order))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_at_the_same_time_who_was_there_first() {
        let mut agenda = Agenda::new();
        for (at, what) in [(2.0, 'c'), (1.0, 'a'), (1.0, 'b'), (3.0, 'd')] {
            agenda.add(at, what);
        }
        assert_eq!((agenda.next(), agenda.len()), (Some(1.0), 4));
        let taken: String = std::iter::from_fn(|| agenda.take()).map(|(_, what)| what).collect();
        assert_eq!(taken, "abcd");
    }
}
