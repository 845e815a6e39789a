//! The load second by second: the parts of all threads, put together as they come.

use std::collections::BTreeMap;

use crate::hdr::encode;
use crate::outcome::Second;
use crate::record::SecondPart;

/// Seconds whose parts may still be coming in. A thread hands a second over with its first record of a later
/// one, so parts come late only where a thread has nothing to record for so long.
const OPEN: usize = 120;

/// Seconds that are put together.
#[derive(Default)]
pub(crate) struct Timeline {
    open: BTreeMap<u64, SecondPart>,
    done: Vec<Second>,
}

impl Timeline {
    /// Adds one thread's part of a second.
    pub(crate) fn add(&mut self, part: SecondPart) {
        match self.open.get_mut(&part.index) {
            Some(second) => {
                second.errors += part.errors;
                second.times.add(&part.times).expect("all histograms of seconds have the same bounds");
            }
            None => {
                self.open.insert(part.index, part);
            }
        }
        while self.open.len() > OPEN {
            self.close_first();
        }
    }

    /// Every second up to the last one in which something ended.
    pub(crate) fn finish(mut self) -> Vec<Second> {
        while !self.open.is_empty() {
            self.close_first();
        }
        self.done
    }

    fn close_first(&mut self) {
        let Some((index, part)) = self.open.pop_first() else { return };
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
