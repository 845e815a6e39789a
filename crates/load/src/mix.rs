//! Which request comes next, where there are several: in turn, or by weight.

use std::cell::{Cell, RefCell};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::plan::Plan;
use crate::target::Target;

/// The requests of one thread.
pub(crate) struct Mix {
    requests: Vec<Vec<u8>>,
    choice: Choice,
}

enum Choice {
    /// One after the other, all weights being equal.
    InTurn(Cell<usize>),
    /// Sums of the weights up to each, and the dice.
    Weighted(Vec<f64>, Box<RefCell<ChaCha8Rng>>),
}

impl Mix {
    /// The requests of a plan, for the `index`-th of `threads` threads.
    pub(crate) fn new(target: &Target, plan: &Plan, index: u32, threads: u32) -> Self {
        if plan.targets.is_empty() {
            return Mix { requests: vec![target.request(plan, None)], choice: Choice::InTurn(Cell::new(0)) };
        }
        let requests: Vec<_> =
            plan.targets.iter().map(|wanted| target.request(plan, Some(&wanted.path))).collect();
        let first = plan.targets[0].weight;
        let choice = if plan.targets.iter().all(|wanted| wanted.weight == first) {
            // The threads begin at different places, so that they do not all ask for the same.
            Choice::InTurn(Cell::new(requests.len() * index as usize / threads as usize))
        } else {
            let sums = plan.targets.iter().scan(0.0, |sum, wanted| {
                *sum += wanted.weight;
                Some(*sum)
            });
            let mut dice = ChaCha8Rng::seed_from_u64(1);
            dice.set_stream(u64::from(index));
            Choice::Weighted(sums.collect(), Box::new(RefCell::new(dice)))
        };
        Mix { requests, choice }
    }

    /// The next request.
    pub(crate) fn next(&self) -> &[u8] {
        let at = match &self.choice {
            Choice::InTurn(next) => {
                let at = next.get();
                next.set(if at + 1 == self.requests.len() { 0 } else { at + 1 });
                at
            }
            Choice::Weighted(sums, dice) => {
                let total = sums.last().copied().unwrap_or_default();
                let drawn = dice.borrow_mut().random::<f64>() * total;
                sums.partition_point(|sum| *sum <= drawn).min(self.requests.len() - 1)
            }
        };
        &self.requests[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Wanted;

    fn mix(weights: &[f64], index: u32, threads: u32) -> Mix {
        let targets =
            (0..weights.len()).map(|at| Wanted { path: format!("/{at}"), weight: weights[at] }).collect();
        let plan = Plan { targets, ..Plan::new("http://a/") };
        Mix::new(&Target::parse(&plan.url).unwrap(), &plan, index, threads)
    }

    fn path(mix: &Mix) -> usize {
        let text = String::from_utf8_lossy(mix.next()).into_owned();
        text.split(' ').nth(1).unwrap()[1..].parse().unwrap()
    }

    #[test]
    fn equal_weights_take_turns_and_threads_begin_apart() {
        let (first, second) = (mix(&[1.0; 4], 0, 2), mix(&[1.0; 4], 1, 2));
        assert_eq!([(); 6].map(|()| path(&first)), [0, 1, 2, 3, 0, 1]);
        assert_eq!([(); 6].map(|()| path(&second)), [2, 3, 0, 1, 2, 3]);
    }

    #[test]
    fn others_come_as_often_as_they_weigh() {
        let mix = mix(&[1.0, 0.0, 3.0], 0, 1);
        let mut counts = [0; 3];
        (0..40_000).for_each(|_| counts[path(&mix)] += 1);
        assert!(counts[1] == 0 && (9_500..10_500).contains(&counts[0]), "{counts:?}");
    }
}
