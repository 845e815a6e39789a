//! How much more a server carries, and what runs out first: from how much of each thing was in use at which rate.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Serialize;

/// Time between two looks that are far enough apart for a rate.
const APART: Duration = Duration::from_millis(200);

/// Looks that are remembered.
const REMEMBERED: usize = 120;

/// How much the rates must differ, highest over lowest, for them to be a curve; otherwise use is taken to be in proportion.
const RANGE: f64 = 1.5;

/// Requests per second below which nobody asks for anything.
const SILENCE: f64 = 1.0;

/// A share from which on all of a thing is in use: time is counted a little before or after a look.
const ALL: f64 = 0.98;

/// The share of a thing that the highest rate takes at least, where more is in use without any request: less is chance, as with
/// memory, of which a little more is in use now and then.
const LEAST_GROWTH: f64 = 0.01;

/// How much more the server carries.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Headroom {
    /// Requests answered per second, of late, without those that were turned away.
    pub requests_per_second: f64,
    /// Requests per second at which the first thing runs out, if the load grows as it is; 0 while it is not known.
    pub carries_per_second: f64,
    /// What that is.
    pub limit: String,
    /// How much of each thing is in use, 0 to 1.
    pub in_use: Vec<(String, f64)>,
}

/// What one look sees.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    pub(super) requests: u64,
    /// Time that was used of each thing, in seconds, and how many seconds of it there are in a second.
    pub(super) times: Vec<(String, f64, f64)>,
    /// How much of each thing that can be counted is taken, and how much there is.
    pub(super) counts: Vec<(&'static str, f64, f64)>,
}

/// Looks over time.
#[derive(Debug)]
pub(super) struct Looks {
    last: (Instant, Look),
    /// Rate and use of each thing, the oldest first.
    curve: VecDeque<(f64, Vec<f64>)>,
    headroom: Headroom,
}

impl Looks {
    /// From `start` on; nothing was used before.
    pub(super) fn from(start: Instant) -> Self {
        let last = (start, Look::default());
        Looks { last, curve: VecDeque::new(), headroom: Headroom::default() }
    }

    /// Looks again; what is known is from the looks before if the last one was only just.
    pub(super) fn look(&mut self, now: Instant, look: impl FnOnce() -> Look) -> Headroom {
        let (then, before) = &self.last;
        let past = now.saturating_duration_since(*then);
        if past < APART {
            return self.headroom.clone();
        }
        let look = look();
        let seconds = past.as_secs_f64();
        // A thread more, or a processor less: what was seen before is of another server.
        let kinds =
            |look: &Look| look.times.iter().map(|(name, _, of)| (name.clone(), *of)).collect::<Vec<_>>();
        if kinds(&look) != kinds(before) {
            self.curve.clear();
        }
        let rate = look.requests.saturating_sub(before.requests) as f64 / seconds;
        let mut in_use: Vec<(String, f64)> = Vec::new();
        for (name, used, of) in &look.times {
            let before =
                before.times.iter().find(|before| before.0 == *name).map_or(0.0, |(_, used, _)| *used);
            in_use.push((name.clone(), share(used - before, of * seconds)));
        }
        in_use.extend(look.counts.iter().map(|(name, used, of)| (name.to_string(), share(*used, *of))));
        if self.curve.len() == REMEMBERED {
            self.curve.pop_front();
        }
        self.curve.push_back((rate, in_use.iter().map(|(_, share)| *share).collect()));
        self.headroom = headroom(rate, in_use, &self.curve);
        self.last = (now, look);
        self.headroom.clone()
    }
}

fn share(used: f64, of: f64) -> f64 {
    if of > 0.0 { (used / of).clamp(0.0, 1.0) } else { 0.0 }
}

fn headroom(rate: f64, in_use: Vec<(String, f64)>, curve: &VecDeque<(f64, Vec<f64>)>) -> Headroom {
    let limits = in_use.iter().enumerate().filter_map(|(nth, (name, _))| {
        let points = curve.iter().filter_map(|(rate, uses)| Some((*rate, *uses.get(nth)?)));
        Some((carries(rate, &points.collect::<Vec<_>>())?, name))
    });
    let first = limits.min_by(|a, b| a.0.total_cmp(&b.0));
    let (carries_per_second, limit) = first.map_or((0.0, String::new()), |(rate, name)| (rate, name.clone()));
    Headroom { requests_per_second: rate, carries_per_second, limit, in_use }
}

/// The rate at which all of a thing is in use: the present one if it is. Otherwise by a straight line through what was seen of it
/// where the rates differ enough, and in proportion where they do not. `None` where too little of it is in use to say.
fn carries(rate: f64, points: &[(f64, f64)]) -> Option<f64> {
    let (_, latest) = *points.last()?;
    if rate < SILENCE || latest <= 0.001 {
        return None;
    }
    // Whatever was seen before, when requests may have cost less.
    if latest >= ALL {
        return Some(rate);
    }
    let in_proportion = rate / latest;
    let busy: Vec<_> = points.iter().filter(|(rate, _)| *rate >= SILENCE).collect();
    let n = busy.len() as f64;
    let (mean_x, mean_y) =
        (busy.iter().map(|p| p.0).sum::<f64>() / n, busy.iter().map(|p| p.1).sum::<f64>() / n);
    let (low, high) = busy.iter().fold((f64::MAX, 0.0_f64), |(low, high), p| (low.min(p.0), high.max(p.0)));
    if high < RANGE * low {
        return Some(in_proportion);
    }
    let slope = busy.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum::<f64>()
        / busy.iter().map(|p| (p.0 - mean_x).powi(2)).sum::<f64>();
    // What does not grow with the rate, or hardly, is not what the rate is bounded by.
    let idle = mean_y - slope * mean_x;
    if slope * high < LEAST_GROWTH.min(idle) {
        return None;
    }
    let at_all = (1.0 - idle) / slope;
    // It carries what it carries now.
    Some(at_all.max(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server whose reactor takes `cost` seconds for a request and `idle` of each second for itself.
    fn follow(rates: &[f64], idle: f64, cost: f64) -> Headroom {
        let mut now = Instant::now();
        let mut looks = Looks::from(now);
        let (mut requests, mut busy) = (0.0, 0.0);
        let mut seen = Headroom::default();
        for rate in rates {
            now += Duration::from_secs(1);
            requests += rate;
            busy += idle + rate * cost;
            seen = looks.look(now, || Look {
                requests: requests as u64,
                times: vec![("reactor-0".into(), busy, 1.0), ("processors".into(), busy, 4.0)],
                counts: vec![("connections", 10.0, 1000.0)],
            });
        }
        seen
    }

    #[test]
    fn what_runs_out_first_is_named_with_the_rate_at_which_it_does() {
        let seen = follow(&[1000.0; 5], 0.0, 100e-6);
        assert_eq!((seen.limit.as_str(), seen.carries_per_second.round()), ("reactor-0", 10_000.0));
        assert_eq!((seen.requests_per_second, seen.in_use.len()), (1000.0, 3));
    }

    #[test]
    fn what_it_costs_to_be_there_is_told_from_what_requests_cost() {
        // In proportion it would be 1000 / 0.3 = 3,333.
        let seen = follow(&[100.0, 400.0, 1000.0, 700.0, 1000.0], 0.2, 100e-6);
        assert_eq!(seen.carries_per_second.round(), 8000.0);
    }

    #[test]
    fn a_server_that_is_busy_all_the_time_is_at_its_mark_whatever_requests_cost_before() {
        let mut now = Instant::now();
        let mut looks = Looks::from(now);
        let (mut requests, mut busy) = (0, 0.0);
        // Two minutes in which a tenth is in use; then requests become a hundred times as dear.
        let seconds = [(1000, 0.1); 119].into_iter().chain([(100, 1.0)]);
        let seen = seconds.map(|(rate, used)| {
            now += Duration::from_secs(1);
            requests += rate;
            busy += used;
            looks.look(now, || Look {
                requests,
                times: vec![("reactor-0".into(), busy, 1.0), ("processors".into(), busy, 4.0)],
                counts: vec![("connections", 10.0, 1000.0)],
            })
        });
        let seen = seen.last().unwrap();
        assert_eq!((seen.limit.as_str(), seen.carries_per_second), ("reactor-0", 100.0));
    }

    #[test]
    fn what_hardly_grows_with_the_rate_is_not_what_it_is_bounded_by() {
        let points = |idle: f64, cost: f64| [100.0, 1000.0, 500.0].map(|rate| (rate, idle + rate * cost));
        let carries = |idle, cost| carries(500.0, &points(idle, cost)).map(f64::round);
        // Memory that happened to be in use when there were more requests, or fewer.
        assert_eq!((carries(0.3, 1e-6), carries(0.3, -1e-6)), (None, None));
        assert_eq!(carries(0.3, 1e-4), Some(7000.0));
        // There is little in use because there is little to do.
        assert_eq!(carries(0.001, 4e-6), Some(249_750.0));
    }

    #[test]
    fn a_thread_that_is_started_later_is_not_taken_for_another() {
        let now = Instant::now();
        let mut looks = Looks::from(now);
        let mut look = |second: u32, times: &[(&str, f64)]| {
            let times = times.iter().map(|(name, used)| (name.to_string(), *used, 1.0)).collect();
            let look = Look { requests: u64::from(second) * 1000, times, counts: Vec::new() };
            looks.look(now + Duration::from_secs(1) * second, || look)
        };
        look(1, &[("reactor-0", 0.5), ("processors", 0.25)]);
        let seen = look(2, &[("reactor-0", 1.0), ("reactor-1", 0.1), ("processors", 0.5)]);
        let named = |name: &str, share| (name.to_string(), share);
        let expected = [named("reactor-0", 0.5), named("reactor-1", 0.1), named("processors", 0.25)];
        assert_eq!((seen.in_use, seen.carries_per_second), (expected.to_vec(), 2000.0));
    }

    #[test]
    fn without_requests_nothing_is_known_and_looks_that_are_too_near_say_the_same() {
        assert_eq!(follow(&[0.0; 3], 0.1, 0.0).carries_per_second, 0.0);
        let now = Instant::now();
        let mut looks = Looks::from(now);
        let asked = looks.look(now + Duration::from_millis(10), || unreachable!("it is too early"));
        assert_eq!(asked, Headroom::default());
    }
}
