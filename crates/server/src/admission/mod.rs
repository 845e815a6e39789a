//! Who is let in: bounds on the rate of each client, and on requests that are with the workers at once.

mod adaptive;
mod gate;
mod rate;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::Class;

use crate::client::Client;
use crate::prefixes::Prefixes;
pub(crate) use adaptive::{Seen, next};
pub(crate) use gate::{Gate, Permit};
use rate::RateLimit;

/// The bounds that a server keeps, each for the requests whose path begins so. Of several that fit, the longest counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// Requests in a second that each client may make: 429.
    pub rates: Vec<(String, Rate)>,
    /// Requests that may be with the workers at once, shared fairly between clients: 503.
    pub in_flight: Vec<(String, InFlight)>,
}

/// Requests in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// In the long run; 0 for none after the burst.
    pub per_second: f64,
    /// At once, after a pause.
    pub burst: u32,
}

/// Requests under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlight {
    /// So many.
    Fixed(usize),
    /// As many as wait no longer for a worker than their work takes: the number follows what is measured.
    Adaptive,
}

/// Where an adaptive bound begins.
const FIRST: usize = 64;

/// The bounds at work.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// For each, that of requests of the high class, and that of all others: who makes too many of those is still told whether
    /// the server lives.
    rates: Prefixes<[RateLimit; 2]>,
    gates: Prefixes<(Arc<Gate>, InFlight)>,
}

impl Admission {
    /// Bounds that nobody has come up against yet.
    pub(crate) fn new(rules: &Rules) -> Self {
        let rate = |(path, rate): &(String, Rate)| {
            (path.clone(), [(); 2].map(|()| RateLimit::new(rate.per_second, rate.burst)))
        };
        let gate = |(path, limit): &(String, InFlight)| {
            let first = match limit {
                InFlight::Fixed(limit) => *limit,
                InFlight::Adaptive => FIRST,
            };
            (path.clone(), (Arc::new(Gate::new(first)), *limit))
        };
        Admission {
            rates: rules.rates.iter().map(rate).collect(),
            gates: rules.in_flight.iter().map(gate).collect(),
        }
    }

    /// Whether the rate of any requests is bounded.
    pub(crate) fn has_rates(&self) -> bool {
        !self.rates.is_empty()
    }

    /// Counts a request, or says after how long another one may come.
    pub(crate) fn rate(&self, path: &str, class: Class, peer: IpAddr, now: Instant) -> Result<(), Duration> {
        let Some([high, others]) = self.rates.of(path) else { return Ok(()) };
        let limit = if class == Class::High { high } else { others };
        limit.take(Client::of(peer), now)
    }

    /// Lets a request go to the workers, for as long as it has the permit, if it needs one; or does not.
    pub(crate) fn enter(&self, path: &str, peer: IpAddr, now: Instant) -> Option<Option<Permit>> {
        let Some((gate, _)) = self.gates.of(path) else { return Some(None) };
        gate.enter(Client::of(peer), now).map(Some)
    }

    /// The gates whose bounds follow what is measured.
    pub(crate) fn adaptive(&self) -> Vec<Arc<Gate>> {
        let adaptive = self.gates.iter().filter(|(_, (_, limit))| *limit == InFlight::Adaptive);
        adaptive.map(|(_, (gate, _))| gate.clone()).collect()
    }

    /// Each gate: its route, its bound, and what is under way.
    pub(crate) fn gates(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.gates.iter().map(|(route, (gate, _))| (route, gate.limit(), gate.under_way()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_route_that_fits_counts() {
        let rate = |per_second| Rate { per_second, burst: 1 };
        let rules = Rules {
            rates: vec![("/".into(), rate(1.0)), ("/api/".into(), rate(1e6))],
            in_flight: vec![("/api/".into(), InFlight::Fixed(1))],
        };
        let (admission, now) = (Admission::new(&rules), Instant::now());
        let peer = [127, 0, 0, 1].into();
        let rate = |path, now| admission.rate(path, Class::Normal, peer, now);
        assert!(admission.has_rates() && rate("/x", now).is_ok() && rate("/x", now).is_err());
        // However it is written.
        for same in ["//x", "/%78", "/./x", "/api/../x"] {
            assert!(rate(same, now).is_err(), "{same}");
        }
        let later = now + Duration::from_micros(5);
        assert!(rate("/api/x", now).is_ok() && rate("/api/x", later).is_ok());
        let held = admission.enter("/api/x", peer, now).unwrap();
        assert!(held.is_some() && admission.enter("/api/y", peer, now).is_none());
        assert!(admission.enter("/x", peer, now).is_some_and(|permit| permit.is_none()));
    }

    #[test]
    fn who_makes_too_many_requests_may_still_make_urgent_ones_at_the_same_rate() {
        let rules =
            Rules { rates: vec![("/".into(), Rate { per_second: 1.0, burst: 2 })], ..Rules::default() };
        let (admission, now) = (Admission::new(&rules), Instant::now());
        let let_in = |class| {
            (0..10).filter(|_| admission.rate("/", class, [127, 0, 0, 1].into(), now).is_ok()).count()
        };
        assert_eq!((let_in(Class::Low), let_in(Class::Normal), let_in(Class::High)), (2, 0, 2));
    }
}
