//! The load second by second: the parts of all threads, put together as they come.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::hdr::{decode, encode};
use crate::outcome::Second;
use crate::progress::Latest;
use crate::recorded::SecondPart;

/// Seconds whose parts may still be coming in. A thread hands a second over with its first record of a later
/// one, so parts come late only where a thread has nothing to record for so long.
const OPEN: usize = 120;

/// Most entries, of a second each: two hours'. When there are more, each two become one.
const MOST: usize = 7200;

/// Seconds that are put together.
pub(crate) struct Timeline {
    open: BTreeMap<u64, Open>,
    done: Vec<Second>,
    /// Seconds of each entry of `done`.
    span: u64,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline { open: BTreeMap::new(), done: Vec::new(), span: 1 }
    }
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
        let at = (index / self.span) as usize;
        // Seconds in which nothing ended are part of the picture.
        while self.done.len() <= at {
            let at_s = self.done.len() as u64 * self.span;
            self.done.push(Second { at_s, length_s: self.span, ..Second::default() });
        }
        add(&mut self.done[at], &part.times, part.errors);
        if self.done.len() > MOST {
            self.span *= 2;
            self.done = self.done.chunks(2).map(|two| merged(two, self.span)).collect();
        }
    }
}

/// Adds what ended to an entry.
fn add(second: &mut Second, times: &Histogram<u64>, errors: u64) {
    second.errors += errors;
    // What cannot be read was never written: nothing had ended.
    let sum = decode(&second.histogram).map_or_else(|_| times.clone(), |before| before + times);
    if sum.is_empty() {
        return;
    }
    second.requests = sum.len();
    second.p50_us = sum.value_at_quantile(0.5);
    second.p99_us = sum.value_at_quantile(0.99);
    second.max_us = second.max_us.max(times.max());
    second.histogram = encode(&sum);
}

/// Two entries as one.
fn merged(two: &[Second], span: u64) -> Second {
    let mut one = Second { at_s: two[0].at_s, length_s: span, ..Second::default() };
    for part in two {
        match decode(&part.histogram) {
            Ok(times) => add(&mut one, &times, part.errors),
            // There were none.
            Err(_) => one.errors += part.errors,
        }
    }
    one
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

    #[test]
    fn a_long_load_has_longer_entries_and_loses_nothing() {
        let mut timeline = Timeline::default();
        // Nothing ends in every fifth second.
        let ended = |index: u64| !index.is_multiple_of(5);
        (0..MOST as u64 + 1000).filter(|index| ended(*index)).for_each(|index| {
            timeline.add(SecondPart { errors: 1, ..part(index, &[index % 100 + 1, 200]) });
        });
        let done = timeline.finish();
        let all = (0..MOST as u64 + 1000).filter(|index| ended(*index)).count() as u64;
        assert!(done.len() <= MOST && done.iter().all(|second| second.length_s == 2), "{}", done.len());
        assert_eq!(done.iter().map(|second| second.requests).sum::<u64>(), all * 2);
        assert_eq!(done.iter().map(|second| second.errors).sum::<u64>(), all);
        assert!(done.iter().zip(0..).all(|(second, at)| second.at_s == at * 2 && second.max_us == 200));
    }
}
