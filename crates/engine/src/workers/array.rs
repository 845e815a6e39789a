//! Bounded arrays that take no lock, one for each class.

use crossbeam_queue::ArrayQueue;

use super::parked::Bag;
use super::queue::{CLASSES, Class, PASSED_OVER, room};
use crate::sync::{AtomicUsize, Ordering};
use crate::topology::Order;

/// An array queue, or one for each class.
pub(super) struct Arrays<J> {
    classes: Vec<Array<J>>,
}

struct Array<J> {
    jobs: ArrayQueue<J>,
    /// How many times others went first while something waited here. Counted without a lock, so the bound on it may
    /// be passed by as many as there are workers.
    passed: AtomicUsize,
}

impl<J> Arrays<J> {
    pub(super) fn new(capacity: usize, order: Order) -> Self {
        let classes = if order == Order::Priority { CLASSES } else { 1 };
        let array = |class| {
            let most = if class == 0 { room(capacity, Class::High) } else { capacity };
            Array { jobs: ArrayQueue::new(most), passed: AtomicUsize::new(0) }
        };
        Arrays { classes: (0..classes).map(array).collect() }
    }

    fn take_from(&self, chosen: usize) -> Option<J> {
        let job = self.classes[chosen].jobs.pop()?;
        self.classes[chosen].passed.store(0, Ordering::Relaxed);
        for (class, array) in self.classes.iter().enumerate() {
            if class != chosen && !array.jobs.is_empty() {
                array.passed.fetch_add(1, Ordering::Relaxed);
            }
        }
        Some(job)
    }
}

impl<J: Send> Bag<J> for Arrays<J> {
    fn put(&self, job: J, class: Class) {
        let array = &self.classes[(class as usize).min(self.classes.len() - 1)];
        let full = array.jobs.push(job).is_err();
        debug_assert!(!full, "room was reserved for it");
    }

    fn take(&self, _: usize) -> Option<J> {
        if let [only] = self.classes.as_slice() {
            return only.jobs.pop();
        }
        let starved = |class: &usize| self.classes[*class].passed.load(Ordering::Relaxed) >= PASSED_OVER;
        let all = 0..self.classes.len();
        all.clone().filter(starved).chain(all).find_map(|class| self.take_from(class))
    }
}
