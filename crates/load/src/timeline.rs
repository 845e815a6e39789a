//! The load second by second: the parts of all threads, put together as they come.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::hdr::encode;
use crate::outcome::Second;
use crate::record::SecondPart;
use crate::run::Latest;

/// Seconds whose parts may still be coming in. A thread hands a second over with its first record of a later
/// one, so parts come late only where a thread has nothing to record for so long.
const OPEN: usize = 120;

/// Seconds that are put together.
#[derive(Default)]
pub(crate) struct Timeline {
    open: BTreeMap<u64, Open>,
    done: Vec<Second>,
}

/// A second, and of how many threads it is.
struct Open {
    part: SecondPart,
    threads: usize,
}

impl Timeline {
    /// Adds one thread's part of a second.
    pub(crate) fn add(&mut self, part: SecondPart) {
        match self.open.get_mut(&part.index) {
            Some(Open { part: second, threads }) => {
                *threads += 1;
                second.errors += part.errors;
                second.times.add(&part.times).expect("all histograms of seconds have the same bounds");
            }
            None => {
                self.open.insert(part.index, Open { part, threads: 1 });
            }
        }
        while self.open.len() > OPEN {
            self.close_first();
        }
    }

    /// The latest second that so many threads have reported.
    pub(crate) fn latest(&self, threads: usize) -> Option<Latest> {
        let Open { part, .. } = self.open.values().rev().find(|second| second.threads >= threads)?;
        Some(Latest {
            p50_us: part.times.value_at_quantile(0.5),
            p99_us: part.times.value_at_quantile(0.99),
            max_us: part.times.max(),
            buckets: buckets(&part.times),
        })
    }

    /// Every second up to the last one in which something ended.
    pub(crate) fn finish(mut self) -> Vec<Second> {
        while !self.open.is_empty() {
            self.close_first();
        }
        self.done
    }

    fn close_first(&mut self) {
        let Some((index, Open { part, .. })) = self.open.pop_first() else { return };
        // Seconds in which nothing ended are part of the picture.
        for at_s in self.done.len() as u64..index {
            self.done.push(Second { at_s, ..Second::default() });
        }
        let requests = part.times.len();
        let at = |quantile| if requests == 0 { 0 } else { part.times.value_at_quantile(quantile) };
        let second = Second {
            at_s: index,
            requests,
            errors: part.errors,
            p50_us: at(0.5),
            p99_us: at(0.99),
            max_us: part.times.max(),
            histogram: encode(&part.times),
        };
        match self.done.get_mut(index as usize) {
            // A part that came too late: its counts still count.
            Some(early) => {
                early.requests += second.requests;
                early.errors += second.errors;
            }
            None => self.done.push(second),
        }
    }
}

/// How many took at most 1, 2, 5, 10 and so on, from the first that any took to the last.
fn buckets(times: &Histogram<u64>) -> Vec<(u64, u64)> {
    let mut bounds = (0..).flat_map(|power| [1, 2, 5].map(|step| step * 10u64.pow(power)));
    let mut buckets: Vec<(u64, u64)> = Vec::new();
    let mut bound = 0;
    for value in times.iter_recorded() {
        while value.value_iterated_to() > bound {
            bound = bounds.next().unwrap_or(u64::MAX);
            buckets.push((bound, 0));
        }
        if let Some((_, count)) = buckets.last_mut() {
            *count += value.count_at_value();
        }
    }
    let empty = buckets.iter().take_while(|(_, count)| *count == 0).count();
    buckets.split_off(empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(index: u64, times_us: &[u64]) -> SecondPart {
        let mut times = Histogram::new_with_bounds(1, 1_000_000, 2).unwrap();
        times_us.iter().for_each(|us| times.record(*us).unwrap());
        SecondPart { index, times, errors: 0 }
    }

    #[test]
    fn the_latest_second_is_one_that_every_thread_has_reported() {
        let mut timeline = Timeline::default();
        timeline.add(part(0, &[3, 4, 40]));
        assert_eq!(timeline.latest(2), None);
        timeline.add(part(1, &[1]));
        timeline.add(part(0, &[100]));
        let latest = timeline.latest(2).unwrap();
        assert_eq!(latest.buckets, [(5, 2), (10, 0), (20, 0), (50, 1), (100, 1)]);
        assert_eq!((latest.p50_us, latest.max_us), (4, 100));
    }
}
