//! Queueing models of a server: the bounds that hold in any closed loop, and the queue M/M/c of an open one. Each says when it
//! does not hold.

use crate::stats::median;

/// Fewest levels of load: they show where the bounds of a closed loop meet; of an open one, two unknowns can be told by them,
/// and checked.
pub(crate) const FEWEST: usize = 4;

/// How much less than the load at which the bounds meet the lowest load must be for its response time to be one without
/// waiting.
const UNLOADED: f64 = 0.5;

/// How much the rate may still rise to the highest load, and how far it may be above its bounds, relative.
const SLACK: f64 = 0.1;

/// How much the response time must rise for waiting to be seen, relative.
const WAITING: f64 = 0.25;

/// How far predictions may be off, relative, in the median of the rates.
const OFF: f64 = 0.25;

/// Share of its capacity above which a queue's waits are so sensitive that a prediction is hardly one.
pub(crate) const SENSITIVE: f64 = 0.9;

/// Steps of a first look at service times, and of a closer one.
const COARSE: u32 = 60;
const FINE: u32 = 40;

/// The bounds of a closed loop (Denning and Buzen: The Operational Analysis of Queueing Network Models, 1978): the rate is at
/// most N / (R0 + Z) and at most 1 / D, and they meet at N* = (R0 + Z) / D.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Time of a whole turn without waiting, R0 + Z, in seconds: response time at the lowest load, and time to think.
    pub turn_s: f64,
    /// Highest rate, 1 / D, per second.
    pub most: f64,
    /// Clients from which on some must wait, N*.
    pub meet: f64,
}

impl Bounds {
    /// The highest rate that this many clients can have, per second.
    pub fn at(&self, clients: f64) -> f64 {
        (clients / self.turn_s).min(self.most)
    }
}

/// Reads the bounds from rates at numbers of clients, in ascending order, where a turn takes so long at the lowest.
///
/// # Errors
/// Why they cannot be read: too few levels, a lowest one that waits already, a rate that still rises at the highest, or one
/// that is above the bounds.
pub fn bounds(points: &[(f64, f64)], turn_s: f64) -> Result<Bounds, String> {
    let ([(lowest, _), ..], [.., (_, before), (_, last)]) = (points, points) else {
        return Err("too few levels".into());
    };
    if points.len() < FEWEST {
        return Err(format!("{} levels of load are too few: at least {FEWEST}", points.len()));
    }
    let most = points.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let bounds = Bounds { turn_s, most, meet: turn_s * most };
    if !(bounds.meet.is_finite() && turn_s > 0.0 && most > 0.0) {
        return Err("there is no response time at the lowest load".into());
    }
    if *lowest > UNLOADED * bounds.meet {
        return Err(format!(
            "at the lowest load, {lowest}, requests wait already (the bounds would meet at {:.1})",
            bounds.meet
        ));
    }
    if *last > before * (1.0 + SLACK) {
        return Err("the rate still rises at the highest load".into());
    }
    let above = points.iter().find(|(clients, rate)| *rate > bounds.at(*clients) * (1.0 + SLACK));
    match above {
        Some((clients, rate)) => Err(format!(
            "at {clients} the rate is {:.0} % above the bound, so requests take less time under load than without",
            (rate / bounds.at(*clients) - 1.0) * 100.0
        )),
        None => Ok(bounds),
    }
}

/// How likely a request must wait in a queue M/M/c, by Erlang's formula C; `load` is the arrivals in the time of one service.
/// `None` where the queue grows without end.
pub fn erlang_c(servers: u32, load: f64) -> Option<f64> {
    let busy = load / f64::from(servers);
    if !(0.0..1.0).contains(&busy) {
        return None;
    }
    // Erlang's formula B by its recursion, which stays within 0 and 1 where factorials would not.
    let blocked = (1..=servers).fold(1.0, |b, k| load * b / (f64::from(k) + load * b));
    Some(blocked / (1.0 - busy * (1.0 - blocked)))
}

/// Mean response time of a queue M/M/c, in seconds, where `rate` arrive per second and each takes `service_s`.
pub fn response_s(servers: u32, service_s: f64, rate: f64) -> Option<f64> {
    let waits = erlang_c(servers, rate * service_s)?;
    Some(service_s + waits / (f64::from(servers) / service_s - rate))
}

/// A queue M/M/c: arrivals at random, c servers with service times at random, one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mmc {
    /// Servers, c.
    pub servers: u32,
    /// Mean service time, in seconds.
    pub service_s: f64,
    /// How far its mean response times are off, relative, in the median of the rates.
    pub off: f64,
    /// Share of its capacity that is used at the highest rate.
    pub busiest: f64,
}

impl Mmc {
    /// Rate at which it would be full, per second.
    pub fn capacity(&self) -> f64 {
        f64::from(self.servers) / self.service_s
    }

    fn of(servers: u32, service_s: f64, points: &[(f64, f64)]) -> Option<Self> {
        let off = |(rate, response): &(f64, f64)| {
            Some((response_s(servers, service_s, *rate)? / response - 1.0).abs())
        };
        let off = median(&points.iter().map(off).collect::<Option<Vec<f64>>>()?)?;
        let fastest = points.iter().map(|(rate, _)| *rate).fold(0.0, f64::max);
        let busiest = fastest * service_s / f64::from(servers);
        Some(Mmc { servers, service_s, off, busiest })
    }
}

/// Finds the queue M/M/c whose mean response times, in seconds, are nearest to those measured at rates per second, all of
/// which it must be able to serve.
///
/// # Errors
/// Why there is none: too few rates, no waiting to be seen, or predictions that are too far off.
pub fn mmc(points: &[(f64, f64)]) -> Result<Mmc, String> {
    if points.len() < FEWEST {
        return Err(format!("{} rates are too few: at least {FEWEST}", points.len()));
    }
    let least = points.iter().map(|(_, response)| *response).fold(f64::MAX, f64::min);
    let most = points.iter().map(|(_, response)| *response).fold(0.0, f64::max);
    if !(least > 0.0 && most.is_finite()) {
        return Err("not every rate has a response time".into());
    }
    if most < least * (1.0 + WAITING) {
        return Err("requests take about the same time at every rate, so nothing tells how many wait".into());
    }
    // Beyond 32 a server more is hardly to be seen.
    let servers = (1..=32).chain([40, 48, 64, 96, 128, 192, 256]);
    let found = servers.filter_map(|servers| {
        let service_s = nearest(servers, least, points)?;
        Some((error(servers, service_s, points), Mmc::of(servers, service_s, points)?))
    });
    let best = found.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, best)| best);
    let Some(best) = best else { return Err("no queue serves these rates in such times".into()) };
    if best.off > OFF {
        return Err(format!(
            "its best, {} servers of {:.3} ms, is off by {:.0} % in the median of the rates",
            best.servers,
            best.service_s * 1e3,
            best.off * 100.0
        ));
    }
    Ok(best)
}

/// Squares of the logarithms by which the predictions are off: long waits count no more than short ones.
fn error(servers: u32, service_s: f64, points: &[(f64, f64)]) -> f64 {
    let off = |(rate, response): &(f64, f64)| {
        Some((response_s(servers, service_s, *rate)? / response).ln().powi(2))
    };
    points.iter().map(off).sum::<Option<f64>>().unwrap_or(f64::INFINITY)
}

/// The service time with the least error for so many servers: it is at most about the shortest response time.
fn nearest(servers: u32, least: f64, points: &[(f64, f64)]) -> Option<f64> {
    let (mut low, mut high) = ((least * 0.05).ln(), (least * 1.25).ln());
    for steps in [COARSE, FINE, FINE] {
        let step = (high - low) / f64::from(steps);
        let at = |index: u32| low + step * f64::from(index);
        let best = (0..=steps)
            .map(|index| (error(servers, at(index).exp(), points), at(index)))
            .min_by(|a, b| a.0.total_cmp(&b.0))?;
        if best.0.is_infinite() {
            return None;
        }
        (low, high) = (best.1 - step, best.1 + step);
    }
    Some(((low + high) / 2.0).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 1e-9
    }

    #[test]
    fn erlangs_formula_agrees_with_what_is_known_in_closed_form() {
        // One server: the share of the time that it is busy.
        assert!(near(erlang_c(1, 0.7).unwrap(), 0.7));
        // Two: 2 p^2 / (1 + p).
        assert!(near(erlang_c(2, 1.0).unwrap(), 1.0 / 3.0));
        // Ten with 8 erlang, from tables: 0.4092.
        assert!((erlang_c(10, 8.0).unwrap() - 0.4092).abs() < 5e-5);
        assert_eq!((erlang_c(3, 3.0), erlang_c(3, -1.0), erlang_c(1, f64::NAN)), (None, None, None));
    }

    #[test]
    fn response_times_agree_with_what_is_known_in_closed_form() {
        // M/M/1: S / (1 - p). M/M/2: S / (1 - p^2).
        assert!(near(response_s(1, 0.01, 80.0).unwrap(), 0.05));
        assert!(near(response_s(2, 0.01, 160.0).unwrap(), 0.01 / 0.36));
        assert_eq!(response_s(2, 0.01, 200.0), None);
    }

    #[test]
    fn a_queue_is_found_again_in_its_own_times() {
        for (servers, service_s) in [(1, 0.010), (4, 0.010), (16, 0.002)] {
            let capacity = f64::from(servers) / service_s;
            let shares = [0.2, 0.5, 0.7, 0.8, 0.9, 0.95];
            // Measured within 3 %, now more and now less.
            let measured = |at: usize| {
                let rate = shares[at] * capacity;
                (rate, response_s(servers, service_s, rate).unwrap() * [1.03, 0.97][at % 2])
            };
            let found = mmc(&(0..6).map(measured).collect::<Vec<_>>()).unwrap();
            let far = f64::from(found.servers.abs_diff(servers)) / f64::from(servers);
            assert!(far <= 0.25 && (found.capacity() / capacity - 1.0).abs() < 0.03, "{servers}: {found:?}");
            assert!(
                (found.service_s / service_s - 1.0).abs() < 0.25 && found.off < 0.06,
                "{servers}: {found:?}"
            );
        }
    }

    #[test]
    fn where_there_is_no_such_queue_it_says_so() {
        let refused = |points: &[(f64, f64)]| mmc(points).unwrap_err();
        assert!(refused(&[(1.0, 1.0)]).contains("too few"));
        assert!(refused(&[(1.0, 0.01), (2.0, 0.01), (3.0, 0.011), (4.0, 0.01)]).contains("about the same"));
        assert!(refused(&[(1.0, 0.01), (2.0, 0.0), (3.0, 0.011), (4.0, 0.01)]).contains("not every rate"));
        // Times that fall as the load rises are those of no queue.
        let falling = [(10.0, 1.0), (20.0, 0.1), (40.0, 0.01), (80.0, 0.001), (90.0, 0.0001)];
        assert!(refused(&falling).contains("off by"), "{}", refused(&falling));
    }

    /// Rates of one client after another through a bottleneck of 1 ms with 7 ms elsewhere.
    fn closed(clients: &[f64]) -> Vec<(f64, f64)> {
        clients.iter().map(|n| (*n, (n / 0.008).min(1000.0) * (1.0 - 0.05 * f64::from(*n == 8.0)))).collect()
    }

    #[test]
    fn the_bounds_of_a_closed_loop_meet_where_arithmetic_says() {
        let found = bounds(&closed(&[1.0, 2.0, 8.0, 32.0, 64.0]), 0.008).unwrap();
        assert!(near(found.meet, 8.0) && near(found.at(4.0), 500.0) && near(found.at(100.0), 1000.0));
    }

    #[test]
    fn bounds_that_were_not_seen_are_not_told_of() {
        let refused = |clients: &[f64], turn_s: f64| bounds(&closed(clients), turn_s).unwrap_err();
        assert!(refused(&[1.0, 2.0], 0.008).contains("too few"));
        assert!(refused(&[], 0.008).contains("too few"));
        assert!(refused(&[6.0, 12.0, 32.0, 64.0], 0.008).contains("wait already"));
        assert!(refused(&[1.0, 2.0, 4.0, 6.0], 0.008).contains("still rises"));
        assert!(refused(&[1.0, 2.0, 8.0, 32.0, 64.0], 0.012).contains("50 % above the bound"));
        assert!(refused(&[1.0, 2.0, 8.0, 32.0, 64.0], f64::NAN).contains("no response time"));
    }
}
