//! A search under way: going up, halving, and trying again what was found.

use super::{Capacity, Drain, End, Means, News, Probe, Search, What, at_level};
use crate::error::Error;
use crate::outcome::Outcome;
use crate::threshold::Threshold;
use crate::verdict;

/// Most probes of one search.
const MOST_PROBES: usize = 60;

/// Steps that the search goes down at the end, if its answer does not last.
const CONFIRMATIONS: u32 = 5;

/// Answers beyond those that are needed, as a factor: some are late.
const SPARE: f64 = 1.2;

/// Share of a probe that a client may have waited before it looks as if it waited for the end of the load.
const WAITED: f64 = 0.9;

/// How much longer than the longest answer that may be a probe is then.
const BEYOND: f64 = 1.1;

/// Longest probe, in seconds.
const LONGEST_S: f64 = 600.0;

/// Times a rate is halved at the start before the search gives up; clients are halved down to one.
const HALVINGS: u32 = 4;

/// A search under way.
pub(super) struct Hunt<'a> {
    search: &'a Search,
    probes: Vec<Probe>,
    drain: Drain,
    means: &'a mut dyn Means,
    news: &'a mut dyn FnMut(News<'_>),
}

/// What a probe found, and why it is suspect where the server had not done with the one before.
type Measured = (Outcome, Option<String>);

impl<'a> Hunt<'a> {
    pub(super) fn new(
        search: &'a Search,
        drain: Drain,
        means: &'a mut dyn Means,
        news: &'a mut dyn FnMut(News<'_>),
    ) -> Self {
        Hunt { search, probes: Vec::new(), drain, means, news }
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
        let (mut outcome, mut undrained) = self.measure(level, seconds)?;
        if let Some(longer) = self.longer(&outcome, seconds) {
            (outcome, undrained) = self.measure(level, longer)?;
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
        let is_undrained = undrained.is_some();
        reasons.extend(undrained);
        let probe = Probe {
            level,
            kept,
            undrained: is_undrained,
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

    /// Waits for the server to be as it was when it was idle, and loads it.
    fn measure(&mut self, level: f64, seconds: f64) -> Result<Measured, Error> {
        let undrained = self.drain.wait(self.means, self.news)?;
        let plan = at_level(self.search, level, seconds);
        let outcome = self.means.load(&plan, &mut |progress| (self.news)(News::Trying(level, progress)))?;
        Ok((outcome, undrained))
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
mod tests;
