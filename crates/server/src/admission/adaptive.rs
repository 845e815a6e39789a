//! A bound on requests under way that finds itself: as many as keep the wait for a worker in proportion to the work.
//!
//! The form is that of Envoy's gradient controller, limit <- limit x gradient + sqrt(limit). Others have to guess from the
//! response time what it would be without load, and go wrong where the work changes, hits a cache or times out as a whole, or
//! shed load in order to find out. Here the wait and the work are measured apart, so the gradient is known.

/// How much longer than its work a request may take with its wait, before the bound falls.
const TOLERANCE: f64 = 2.0;

/// The bound falls by no more than half at once.
const LEAST_GRADIENT: f64 = 0.5;

/// Part of a change that is made at once, so that noise evens out.
const SMOOTH: f64 = 0.3;

/// What was seen in a stretch of time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Requests that workers began.
    pub(crate) requests: u64,
    /// Their mean wait for a worker, and the mean time of the work, in seconds.
    pub(crate) wait_s: f64,
    pub(crate) work_s: f64,
    /// Requests under way, and workers, at the end.
    pub(crate) under_way: usize,
    pub(crate) workers: usize,
}

/// The bound after a stretch.
pub(crate) fn next(limit: usize, most: usize, seen: &Seen) -> usize {
    let least = seen.workers.max(1);
    // A pool may be given more workers than may wait: nobody is to be idle for want of a place.
    let most = most.max(least);
    if seen.requests == 0 || seen.work_s <= 0.0 {
        return limit.clamp(least, most);
    }
    let now = limit as f64;
    let gradient = (TOLERANCE * seen.work_s / (seen.wait_s + seen.work_s)).clamp(LEAST_GRADIENT, 1.0);
    let wanted = now * gradient + now.sqrt();
    // A bound that does not bind says nothing about what lies beyond it.
    let wanted = if 2 * seen.under_way < limit { wanted.min(now) } else { wanted };
    let next = now + SMOOTH * (wanted - now);
    // Towards what is wanted, so that a small bound does not stay where it is.
    let next = if wanted < now { next.floor() } else { next.ceil() } as usize;
    next.clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workers that take so long for each request, with more requests than are let in: the bound, after every tenth of a second.
    fn run(workers: usize, work_s: f64, offered: usize, start: usize) -> Vec<usize> {
        let mut limit = start;
        (0..300)
            .map(|_| {
                let under_way = limit.min(offered);
                // What is under way and not at work waits (Little's law).
                let rate = workers.min(under_way) as f64 / work_s;
                let wait_s = under_way.saturating_sub(workers) as f64 / rate;
                let requests = (rate * 0.1) as u64;
                limit = next(limit, 16_384, &Seen { requests, wait_s, work_s, under_way, workers });
                limit
            })
            .collect()
    }

    #[test]
    fn the_wait_comes_to_about_as_long_as_the_work() {
        for (workers, work_s) in [(1, 0.005), (8, 0.001), (64, 0.03)] {
            for start in [1, 10_000] {
                let limits = run(workers, work_s, 100_000, start);
                let last = *limits.last().unwrap();
                // Twice the workers, and what the square root adds.
                assert!(
                    (workers..=4 * workers + 4).contains(&last),
                    "{workers} {work_s} {start}: {limits:?}"
                );
                let settled = &limits[200..];
                let (low, high) = (settled.iter().min().unwrap(), settled.iter().max().unwrap());
                assert!(high - low <= 2, "{workers}: {low} to {high}");
            }
        }
    }

    #[test]
    fn more_workers_than_may_be_under_way_are_all_to_be_busy() {
        let seen = Seen { workers: 256, ..Seen::default() };
        assert_eq!(next(64, 128, &seen), 256);
        assert_eq!(next(64, 0, &Seen { requests: 10, work_s: 1.0, under_way: 64, ..seen }), 256);
    }

    #[test]
    fn a_bound_that_does_not_bind_does_not_grow() {
        assert_eq!(run(8, 0.001, 4, 100).last(), Some(&100));
        assert_eq!(next(100, 1000, &Seen::default()), 100);
    }
}
