//! A search under way: going up, halving, and trying again what was found.

use super::{
    BEYOND, CONFIRMATIONS, Capacity, End, HALVINGS, LONGEST_S, MOST_PROBES, Measure, News, Probe, SPARE,
    Search, WAITED, What, at_level,
};
use crate::error::Error;
use crate::outcome::Outcome;
use crate::threshold::Threshold;
use crate::verdict;

/// A search under way.
pub(super) struct Hunt<'a, 'm> {
    search: &'a Search,
    probes: Vec<Probe>,
    measure: &'a mut Measure<'m>,
    news: &'a mut dyn FnMut(News<'_>),
}

impl<'a, 'm> Hunt<'a, 'm> {
    pub(super) fn new(
        search: &'a Search,
        measure: &'a mut Measure<'m>,
        news: &'a mut dyn FnMut(News<'_>),
    ) -> Self {
        Hunt { search, probes: Vec::new(), measure, news }
    }

    /// From the first level to the answer.
    pub(super) fn run(mut self, start: f64) -> Result<Capacity, Error> {
        let (mut low, mut high) = self.bracket(start)?;
        while let Some(missed) = high {
            let next = self.between(low, missed);
            if missed / low <= 1.0 + self.search.precision || next <= low || next >= missed || self.is_tired()
            {
                break;
            }
            if self.keeps(next)? { low = next } else { high = Some(next) }
        }
        let mut confirmed = self.probe(low, self.search.probe_s * 3.0)?;
        // What was kept for a short while only is too much; the next lower step may last.
        for _ in 0..CONFIRMATIONS {
            let next = self.level(low / (1.0 + self.search.precision));
            if confirmed || next >= low {
                break;
            }
            (low, high) = (next, Some(low));
            confirmed = self.probe(low, self.search.probe_s * 3.0)?;
        }
        let (end, reason) = self.end(high);
        Ok(Capacity {
            what: self.search.what,
            at_least: low,
            below: high,
            confirmed,
            end,
            reason,
            probe_s: self.search.probe_s,
            most: self.search.most,
            probes: self.probes,
        })
    }

    /// The last level that kept the target, going up, and the first that missed it.
    fn bracket(&mut self, start: f64) -> Result<(f64, Option<f64>), Error> {
        let mut level = self.level(start.min(self.search.most));
        let (mut halved, mut missed) = (0, None);
        let halvings = if self.search.what == What::Clients { u32::MAX } else { HALVINGS };
        while !self.keeps(level)? {
            missed = Some(level);
            halved += 1;
            if halved > halvings || level <= 1.0 {
                let why = self.probes.last().map(|probe| probe.reasons.join("; ")).unwrap_or_default();
                return Err(Error::Nothing(format!("even {level:.0} is too much for the target: {why}")));
            }
            level = self.level(level / 2.0);
        }
        while missed.is_none() && level < self.search.most && !self.is_tired() {
            let next = self.level((level * 2.0).min(self.search.most));
            if self.keeps(next)? { level = next } else { missed = Some(next) }
        }
        Ok((level, missed))
    }

    /// Whether a level keeps the target: at once, or in two of three probes.
    fn keeps(&mut self, level: f64) -> Result<bool, Error> {
        let seconds = self.search.probe_s;
        Ok(self.probe(level, seconds)? || (self.probe(level, seconds)? && self.probe(level, seconds)?))
    }

    fn probe(&mut self, level: f64, seconds: f64) -> Result<bool, Error> {
        let seconds = self.long_enough(level, seconds);
        let mut outcome = self.measure(level, seconds)?;
        if let Some(longer) = self.longer(&outcome, seconds) {
            outcome = self.measure(level, longer)?;
        }
        let mut reasons = self.missed(&outcome);
        let kept = reasons.is_empty() && outcome.answered() > 0;
        if !kept {
            reasons.extend(errors(&outcome));
        }
        let client_bound = is_client_bound(&outcome);
        if client_bound {
            reasons.push("the load generator is at its own limit".into());
        }
        let probe = Probe {
            level,
            kept,
            reasons,
            requests_per_second: outcome.requests_per_second,
            p50_us: outcome.response_time_us.p50,
            p99_us: outcome.response_time_us.p99,
            max_us: outcome.response_time_us.max,
            client_bound,
        };
        (self.news)(News::Done(&probe));
        self.probes.push(probe);
        Ok(kept)
    }

    /// What of the target an outcome misses.
    fn missed(&self, outcome: &Outcome) -> Vec<String> {
        let missed = self.search.target.iter().filter_map(|threshold| threshold.missed_by(outcome));
        let mut reasons: Vec<String> = missed.collect();
        if outcome.offered.as_ref().is_some_and(|offered| offered.unsent > 0) {
            reasons.push("not all that was due could be sent: every connection was busy".into());
        }
        reasons
    }

    /// Seconds of a longer probe, where one of so many does not tell whether the target is kept.
    fn longer(&self, outcome: &Outcome, seconds: f64) -> Option<f64> {
        let (times, needed) = (&outcome.response_time_us, self.samples_needed());
        let longest_s = self.search.target.iter().filter_map(Threshold::longest_s).reduce(f64::min);
        // How fast clients are answered is only known now: too few answers to tell are no miss.
        let wanted = if (times.count as f64) < needed && outcome.requests_per_second > 0.0 {
            needed * SPARE / outcome.requests_per_second
        } else if self.search.what == What::Clients
            && times.max as f64 >= seconds * 1e6 * WAITED
            && self.missed(outcome).is_empty()
        {
            longest_s? * BEYOND
        } else {
            return None;
        };
        Some(wanted.min(LONGEST_S)).filter(|wanted| *wanted > seconds)
    }

    fn measure(&mut self, level: f64, seconds: f64) -> Result<Outcome, Error> {
        let plan = at_level(self.search, level, seconds);
        (self.measure)(&plan, &mut |progress| (self.news)(News::Trying(level, progress)))
    }

    /// Seconds in which enough is answered to know what the target asks for.
    fn long_enough(&self, level: f64, seconds: f64) -> f64 {
        let needed = self.samples_needed() * SPARE;
        let rate = match self.search.what {
            What::Rate => level,
            What::Clients => {
                self.probes.last().map_or(f64::INFINITY, |probe| probe.requests_per_second.max(1.0))
            }
        };
        seconds.max((needed / rate).min(LONGEST_S))
    }

    fn samples_needed(&self) -> f64 {
        self.search.target.iter().map(Threshold::samples_needed).fold(1.0, f64::max)
    }

    fn is_tired(&self) -> bool {
        self.probes.len() >= MOST_PROBES
    }

    /// Clients come in whole numbers.
    fn level(&self, level: f64) -> f64 {
        match self.search.what {
            What::Rate => level,
            What::Clients => level.floor().max(1.0),
        }
    }

    /// The geometric mean: relative steps suit a relative precision. Between two numbers of clients it is one of those between.
    fn between(&self, low: f64, high: f64) -> f64 {
        let mean = self.level((low * high).sqrt());
        if self.search.what == What::Clients { mean.max(low + 1.0) } else { mean }
    }

    /// Whose limit ended the search, and in words.
    fn end(&self, high: Option<f64>) -> (End, String) {
        let Some(high) = high else {
            return (End::Highest, "the highest level that was to be tried still keeps the target".into());
        };
        let missed = self.probes.iter().rfind(|probe| probe.level == high && !probe.kept);
        let end = if missed.is_some_and(|probe| probe.client_bound) { End::Generator } else { End::Server };
        (end, missed.map(|probe| probe.reasons.join("; ")).unwrap_or_default())
    }
}

/// What went wrong with the requests of a probe: `3 reset, 2 first byte timeout`.
fn errors(outcome: &Outcome) -> Option<String> {
    let named = outcome.errors.named().into_iter().filter(|(_, count)| *count > 0);
    let said: Vec<String> =
        named.map(|(name, count)| format!("{count} {}", name.replace('_', " "))).collect();
    (!said.is_empty()).then(|| format!("errors: {}", said.join(", ")))
}

/// Whether a miss may be the load generator's own: connections that could not be made for want of ports or descriptors, or a
/// thread that is busy all the time, and nothing that only the server can have done. Where such a thread was busy, a request may
/// have run out of time for that; where it was idle, it waited for the server.
fn is_client_bound(outcome: &Outcome) -> bool {
    let (own, timeouts) = (outcome.errors.connect_failed, outcome.errors.timeouts());
    let servers = verdict::failed(outcome) - own - timeouts;
    own > servers + timeouts || servers == 0 && verdict::client_is_at_its_limit(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::search_by;
    use crate::plan::{Arrivals, Plan, Stop};
    use crate::progress::Progress;

    fn search_of(what: What, target: &str, most: f64) -> Search {
        let target = vec![target.parse().unwrap()];
        let plan = Plan::new("http://x/");
        Search { plan, what, target, probe_s: 1.0, precision: 0.02, start: Some(10.0), most }
    }

    /// Hunts on a server whose 99th percentile at a level is known.
    fn hunt(search: &Search, p99_us: impl Fn(f64, usize) -> f64) -> Result<Capacity, Error> {
        let mut made = 0;
        let mut measure = |plan: &Plan, _: &mut dyn FnMut(&Progress)| {
            made += 1;
            let level = match &plan.arrivals {
                Arrivals::Open { rate, .. } => rate.in_the_long_run(),
                _ => f64::from(plan.connections),
            };
            let mut outcome = Outcome::empty(&search.plan);
            (outcome.requests, outcome.requests_per_second) = (1000, level);
            outcome.response_time_us.p99 = Some(p99_us(level, made) as u64);
            Ok(outcome)
        };
        search_by(search, &mut measure, &mut |_| ())
    }

    /// M/M/1: the response time is exponential with rate mu - lambda, here with mu of 10,000.
    fn queue(level: f64) -> f64 {
        if level < 10_000.0 { 100f64.ln() / (10_000.0 - level) * 1e6 } else { 1e9 }
    }

    #[test]
    fn the_load_within_the_target_is_found_in_an_interval() {
        // ln(100) / (mu - lambda) = 50 ms at lambda = 9907.9.
        let found = hunt(&search_of(What::Rate, "p99<50ms", 1e6), |level, _| queue(level)).unwrap();
        let below = found.below.unwrap();
        assert!(found.at_least <= 9907.9 && below >= 9907.9 && below / found.at_least <= 1.02, "{found:?}");
        assert!(found.confirmed && found.reason.contains("p99<50ms: it is "), "{}", found.reason);
    }

    #[test]
    fn one_noisy_probe_decides_nothing() {
        // Every fifth probe is bad, whatever the level.
        let noisy = |level: f64, made: usize| if made.is_multiple_of(5) { 1e9 } else { queue(level) };
        let found = hunt(&search_of(What::Rate, "p99<50ms", 1e6), noisy).unwrap();
        assert!((9500.0..=9907.9).contains(&found.at_least), "{found:?}");
    }

    #[test]
    fn clients_come_in_whole_numbers_and_a_limit_ends_the_search() {
        let found = hunt(&search_of(What::Clients, "p99<1s", 1000.0), |level, _| level * 3000.0).unwrap();
        assert!((327.0..=333.0).contains(&found.at_least) && found.at_least.fract() == 0.0, "{found:?}");
        let found = hunt(&search_of(What::Clients, "p99<1s", 100.0), |_, _| 1.0).unwrap();
        assert_eq!((found.at_least, found.below), (100.0, None));
        assert!(found.reason.contains("highest level"), "{}", found.reason);
        assert!(found.end == End::Highest && found.is_lower_bound());
    }

    /// A server that holds so many clients, and does this to those beyond.
    fn holding(most: u32, start: f64, beyond: fn(&mut Outcome)) -> Result<Capacity, Error> {
        let mut measure = |plan: &Plan, _: &mut dyn FnMut(&Progress)| {
            let mut outcome = Outcome::empty(plan);
            (outcome.requests, outcome.requests_per_second) = (1000, 1000.0);
            if plan.connections > most {
                beyond(&mut outcome);
            }
            Ok(outcome)
        };
        let search = Search { start: Some(start), ..search_of(What::Clients, "errors<0.1%", 20_000.0) };
        search_by(&search, &mut measure, &mut |_| ())
    }

    #[test]
    fn whose_limit_ended_a_search_is_told_apart() {
        let found = holding(1500, 100.0, |outcome| outcome.errors.reset = 30).unwrap();
        assert!(found.end == End::Server && (1470.0..=1500.0).contains(&found.at_least), "{found:?}");
        assert!(found.reason.ends_with("; errors: 30 reset"), "{}", found.reason);
        let found = holding(1500, 100.0, |outcome| outcome.errors.connect_failed = 30).unwrap();
        assert!(found.end == End::Generator && found.is_lower_bound(), "{found:?}");
        // A busy load may be why answers are late, and not why connections are reset.
        let mut busy = Outcome::empty(&Plan::new("http://x/"));
        busy.client.busiest_thread_share = 0.99;
        assert!(is_client_bound(&busy));
        busy.errors.first_byte_timeout = 5_000;
        assert!(is_client_bound(&busy), "a busy load may be why requests ran out of time");
        busy.errors.reset = 1;
        assert!(!is_client_bound(&busy));
        // An idle load that waits in vain waits for the server, whatever else went wrong once.
        let mut idle = Outcome::empty(&Plan::new("http://x/"));
        (idle.errors.first_byte_timeout, idle.errors.connect_failed) = (5_000, 1);
        assert!(!is_client_bound(&idle));
        idle.errors.connect_failed = 5_001;
        assert!(is_client_bound(&idle));
    }

    #[test]
    fn a_client_that_is_answered_only_since_the_load_ended_is_not_held() {
        // Beyond 100 clients some wait as long as the load lasts.
        let mut measure = |plan: &Plan, _: &mut dyn FnMut(&Progress)| {
            let Stop::Seconds(seconds) = plan.stop else { panic!("no time") };
            let mut outcome = Outcome::empty(plan);
            (outcome.requests, outcome.requests_per_second) = (1000, 1000.0);
            let waited = if plan.connections > 100 { seconds } else { 0.01 };
            (outcome.response_time_us.count, outcome.response_time_us.max) = (1000, (waited * 1e6) as u64);
            Ok(outcome)
        };
        let found =
            search_by(&search_of(What::Clients, "max<15s", 1000.0), &mut measure, &mut |_| ()).unwrap();
        assert!((98.0..=100.0).contains(&found.at_least) && found.end == End::Server, "{found:?}");
        assert!(found.reason.starts_with("max<15s: it is 16.5"), "{}", found.reason);
    }

    #[test]
    fn clients_are_halved_down_to_one() {
        let found = holding(3, 5000.0, |outcome| outcome.errors.reset = 30).unwrap();
        assert_eq!((found.at_least, found.below), (3.0, Some(4.0)));
    }

    #[test]
    fn a_target_that_nothing_keeps_is_said() {
        let error = hunt(&search_of(What::Rate, "p99<50ms", 1e6), |_, _| 1e9).unwrap_err().to_string();
        assert!(error.contains("p99<50ms"), "{error}");
    }
}
