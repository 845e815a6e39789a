//! Which request comes next, where there are several: in turn, by weight, or as a log has it.

use std::cell::{Cell, RefCell};
use std::ops::Deref;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::plan::Plan;
use crate::replay::Log;
use crate::target::{Request, Target};

/// The requests of one thread.
pub(crate) struct Mix {
    requests: Vec<Request>,
    choice: Choice,
    /// Requests given out by this thread, what it adds to that, and how many threads there are: together they number all.
    given: Cell<u64>,
    index: u64,
    threads: u64,
    dice: RefCell<ChaCha8Rng>,
}

enum Choice {
    /// One after the other, all weights being equal.
    InTurn(Cell<usize>),
    /// Sums of the weights up to each.
    Weighted(Vec<f64>),
    /// Each entry of a log says which.
    Logged,
}

/// A request to be sent.
pub(crate) enum Bytes<'a> {
    /// The same each time.
    Same(&'a [u8]),
    /// Made for this time.
    Made(Vec<u8>),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Same(bytes) => bytes,
            Bytes::Made(bytes) => bytes,
        }
    }
}

impl Mix {
    /// The requests of a plan, and of the log that it replays, for the `index`-th of `threads` threads.
    ///
    /// # Errors
    /// A place in a request is not known.
    pub(crate) fn new(
        target: &Target,
        plan: &Plan,
        log: Option<&Log>,
        index: u32,
        threads: u32,
    ) -> Result<Self, String> {
        let (requests, choice) = match log {
            Some(log) => {
                let paths = log.paths.iter().map(|path| target.request(plan, Some(path)));
                (paths.collect::<Result<_, _>>()?, Choice::Logged)
            }
            None if plan.targets.is_empty() => {
                (vec![target.request(plan, None)?], Choice::InTurn(Cell::new(0)))
            }
            None => {
                let paths = plan.targets.iter().map(|wanted| target.request(plan, Some(&wanted.path)));
                (paths.collect::<Result<_, _>>()?, choice(plan, index, threads))
            }
        };
        let mut dice = ChaCha8Rng::seed_from_u64(plan.seed());
        // Away from the streams of the schedules.
        dice.set_stream(u64::from(index) | 1 << 40);
        let (given, dice) = (Cell::new(0), RefCell::new(dice));
        Ok(Mix { requests, choice, given, index: index.into(), threads: threads.into(), dice })
    }

    /// The next request; for an entry of a log, the one with this number.
    pub(crate) fn next(&self, entry: Option<u32>) -> Bytes<'_> {
        let at = match &self.choice {
            Choice::InTurn(next) => {
                let at = next.get();
                next.set(if at + 1 == self.requests.len() { 0 } else { at + 1 });
                at
            }
            Choice::Weighted(sums) => {
                let total = sums.last().copied().unwrap_or_default();
                let drawn = self.dice.borrow_mut().random::<f64>() * total;
                sums.partition_point(|sum| *sum <= drawn).min(self.requests.len() - 1)
            }
            Choice::Logged => entry.unwrap_or_default() as usize,
        };
        match &self.requests[at] {
            Request::Same(bytes) => Bytes::Same(bytes),
            Request::Template(template) => {
                let nth = self.given.get();
                self.given.set(nth + 1);
                let number = nth * self.threads + self.index;
                Bytes::Made(template.fill(number, &mut self.dice.borrow_mut()))
            }
        }
    }
}

fn choice(plan: &Plan, index: u32, threads: u32) -> Choice {
    let first = plan.targets[0].weight;
    if plan.targets.iter().all(|wanted| wanted.weight == first) {
        // The threads begin at different places, so that they do not all ask for the same.
        return Choice::InTurn(Cell::new(plan.targets.len() * index as usize / threads as usize));
    }
    let sums = plan.targets.iter().scan(0.0, |sum, wanted| {
        *sum += wanted.weight;
        Some(*sum)
    });
    Choice::Weighted(sums.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Wanted;

    fn mix_of(plan: &Plan, index: u32, threads: u32) -> Mix {
        Mix::new(&Target::parse(&plan.url).unwrap(), plan, None, index, threads).unwrap()
    }

    fn mix(weights: &[f64], index: u32, threads: u32) -> Mix {
        let targets =
            (0..weights.len()).map(|at| Wanted { path: format!("/{at}"), weight: weights[at] }).collect();
        mix_of(&Plan { targets, ..Plan::new("http://a/") }, index, threads)
    }

    fn path(mix: &Mix) -> usize {
        let text = String::from_utf8_lossy(&mix.next(None)).into_owned();
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

    #[test]
    fn threads_number_their_requests_without_overlap() {
        let plan = Plan::new("http://a/{{seq}}");
        let (first, second) = (mix_of(&plan, 0, 2), mix_of(&plan, 1, 2));
        assert_eq!([path(&first), path(&second), path(&first), path(&second)], [0, 1, 2, 3]);
    }

    #[test]
    fn the_length_is_that_of_what_is_filled_in() {
        let plan = Plan { body: "{{random:1..1000000}}".into(), ..Plan::new("http://a/") };
        let mix = mix_of(&plan, 0, 1);
        for _ in 0..20 {
            let request = String::from_utf8(mix.next(None).to_vec()).unwrap();
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{request}");
        }
    }
}
