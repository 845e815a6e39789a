//! A search under way: going up, halving, and trying again what was found.

use std::time::Duration;

use super::judge::{clearly_kept, errors, is_client_bound, is_troubled, lacks_connections, missed, unknown};
use super::{Capacity, Drain, End, Means, News, Probe, Search, What, at_level, most_clients};
use crate::error::Error;
use crate::outcome::Outcome;
use crate::threshold::Threshold;

/// Most probes of one search.
const MOST_PROBES: usize = 100;

/// Steps that the search goes down at the end, if its answer does not last; each is twice as far as the one before.
const CONFIRMATIONS: u32 = 5;

/// How much longer than the others the probes of the answer are at the end.
const LONGER: f64 = 3.0;

/// Answers beyond those that are needed, as a factor: some are late.
const SPARE: f64 = 1.2;

/// Share of a probe that a client may have waited before it looks as if it waited for the end of the load.
const WAITED: f64 = 0.9;

/// How much longer than the longest answer that may be a probe is then.
const BEYOND: f64 = 1.1;

/// Longest probe, in seconds.
const LONGEST_S: f64 = 600.0;

/// How much longer a probe is made that left the level open: mostly far fewer answers tell than make a percentile known.
const GROWTH: f64 = 3.0;

/// Probes that must agree on a level.
const AGREE: u32 = 2;

/// How far above the first rate the answer is, for the estimate of the time: it is a tenth of what may be carried.
const ABOVE_START: f64 = 10.0;

/// Times a rate is halved at the start before the search gives up; clients are halved down to one.
const HALVINGS: u32 = 4;

/// A search under way.
pub(super) struct Hunt<'a> {
    search: &'a Search,
    probes: Vec<Probe>,
    /// Loads so far, each of which has a seed of its own.
    loads: u64,
    /// Connections of an open loop, and how many it may have: more are taken where those are too few.
    connections: u32,
    most_connections: u32,
    /// What more connections bring, where the server has trouble with so many.
    trouble: Option<String>,
    drain: Drain,
    means: &'a mut dyn Means,
    news: &'a mut dyn FnMut(News<'_>),
}

/// What a probe found, and why it is suspect where the server had not done with the one before.
type Measured = (Outcome, Option<String>);

/// What a probe says of its level.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// It kept the target by far.
    ClearlyKept,
    Kept,
    Missed,
    /// Even the longest probe has too few answers to tell.
    Unknown,
}

impl<'a> Hunt<'a> {
    pub(super) fn new(
        search: &'a Search,
        drain: Drain,
        means: &'a mut dyn Means,
        news: &'a mut dyn FnMut(News<'_>),
    ) -> Self {
        let connections = search.plan.connections;
        let most_connections = (most_clients(&search.plan) as u32).max(connections);
        let (probes, loads, trouble) = (Vec::new(), 0, None);
        Hunt { search, probes, loads, connections, most_connections, trouble, drain, means, news }
    }

    /// From the first level to the answer.
    pub(super) fn run(mut self, start: f64) -> Result<Capacity, Error> {
        let start = self.level(start.max(self.least()).min(self.search.most));
        let expected = Duration::from_secs_f64(self.expected_s(start));
        (self.news)(News::Expected(expected));
        let (mut low, mut high) = self.bracket(start)?;
        while let Some(missed) = high {
            let next = self.between(low, missed);
            if missed / low <= 1.0 + self.search.precision || next <= low || next >= missed || self.is_tired()
            {
                break;
            }
            match self.decide(next)? {
                Sign::Missed => high = Some(next),
                // The interval stays as wide as it is: no level between is more likely to tell.
                Sign::Unknown => break,
                Sign::Kept | Sign::ClearlyKept => low = next,
            }
        }
        let mut lasting = self.lasts(low)?;
        // What was kept for a short while only is too much; a lower step may last.
        for step in 0..CONFIRMATIONS {
            let next = self.level(low / (1.0 + self.search.precision * f64::from(1 << step)));
            if lasting != Sign::Missed || next >= low {
                break;
            }
            (low, high) = (next, Some(low));
            lasting = self.lasts(low)?;
        }
        let (end, reason) = self.end(low, high);
        Ok(Capacity {
            what: self.search.what,
            at_least: low,
            below: high,
            confirmed: lasting == Sign::Kept,
            end,
            reason,
            probe_s: self.search.probe_s,
            most: self.search.most,
            probes: self.probes,
        })
    }

    /// The last level that kept the target, going up, and the first that missed it.
    fn bracket(&mut self, mut level: f64) -> Result<(f64, Option<f64>), Error> {
        let (mut halved, mut missed) = (0, None);
        let halvings = if self.search.what == What::Clients { u32::MAX } else { HALVINGS };
        loop {
            match self.decide(level)? {
                Sign::Kept | Sign::ClearlyKept => break,
                // Higher up there are more answers.
                Sign::Unknown if missed.is_none() && level < self.search.most && !self.is_tired() => {
                    level = self.level((level * 2.0).min(self.search.most));
                    continue;
                }
                Sign::Unknown => {
                    return Err(self.nothing("whether the target is kept is not known at", level));
                }
                Sign::Missed => {}
            }
            missed = Some(level);
            halved += 1;
            let least = self.least().max(1.0);
            if halved > halvings || level <= least {
                return Err(self.nothing("the target is missed even at", level));
            }
            level = self.level((level / 2.0).max(least));
        }
        let mut next = level;
        while missed.is_none() && next < self.search.most && !self.is_tired() {
            next = self.level((next * 2.0).min(self.search.most));
            match self.decide(next)? {
                Sign::Kept | Sign::ClearlyKept => level = next,
                Sign::Missed => missed = Some(next),
                Sign::Unknown => {}
            }
        }
        Ok((level, missed))
    }

    /// Why there is no answer, with what the last probe says.
    fn nothing(&self, what: &str, level: f64) -> Error {
        let why = self.probes.last().map(|probe| probe.reasons.join("; ")).unwrap_or_default();
        Error::Nothing(format!("{what} {level:.0} {}: {why}", self.search.what.unit()))
    }

    /// What a level is: at once where that is clear, or where no probe can tell, and by two of three probes otherwise.
    fn decide(&mut self, level: f64) -> Result<Sign, Error> {
        self.agree(level, self.search.probe_s, AGREE, true)
    }

    /// What most of some longer probes say of a level.
    fn lasts(&mut self, level: f64) -> Result<Sign, Error> {
        self.agree(level, self.search.probe_s * LONGER, self.most_of_last(), false)
    }

    /// How many of the longer probes must agree.
    fn most_of_last(&self) -> u32 {
        self.search.confirmations.max(1) / 2 + 1
    }

    /// What so many probes of a level agree on, where none leaves it open; or a first one that is clear, if that is enough.
    fn agree(&mut self, level: f64, seconds: f64, most: u32, clear_is_enough: bool) -> Result<Sign, Error> {
        let (mut kept, mut missed) = (0, 0);
        while kept < most && missed < most {
            match self.probe(level, seconds)? {
                sign @ Sign::ClearlyKept if clear_is_enough && kept + missed == 0 => return Ok(sign),
                Sign::Kept | Sign::ClearlyKept => kept += 1,
                Sign::Missed => missed += 1,
                Sign::Unknown => return Ok(Sign::Unknown),
            }
        }
        Ok(if kept == most { Sign::Kept } else { Sign::Missed })
    }

    fn probe(&mut self, level: f64, seconds: f64) -> Result<Sign, Error> {
        let mut seconds = self.long_enough(level, seconds);
        let (mut outcome, mut undrained) = self.measure(level, seconds)?;
        while let Some(longer) = self.longer(&outcome, seconds) {
            seconds = longer;
            (outcome, undrained) = self.measure(level, seconds)?;
        }
        let mut too_few = lacks_connections(&self.search.target, &outcome);
        while too_few && self.connections < self.most_connections {
            let before = self.connections;
            self.connections = before.saturating_mul(2).min(self.most_connections);
            let mut more = self.measure(level, seconds)?;
            // A server that has trouble with so many is left with what it had; what happens once is no trouble.
            if is_troubled(&self.search.target, &outcome, &more.0) {
                more = self.measure(level, seconds)?;
            }
            let is_trouble = is_troubled(&self.search.target, &outcome, &more.0);
            if is_trouble {
                self.trouble = errors(&more.0);
                (self.connections, self.most_connections) = (before, before);
            }
            (outcome, undrained) = more;
            too_few = !is_trouble && lacks_connections(&self.search.target, &outcome);
        }
        Ok(self.judge(level, &outcome, undrained, too_few))
    }

    /// Keeps what a probe found, and tells of it.
    fn judge(&mut self, level: f64, outcome: &Outcome, undrained: Option<String>, too_few: bool) -> Sign {
        let target = &self.search.target;
        let mut reasons = missed(target, outcome);
        let open = if reasons.is_empty() { unknown(target, outcome) } else { Vec::new() };
        let undecided = !open.is_empty();
        reasons.extend(open);
        let kept = reasons.is_empty() && outcome.answered() > 0;
        if !kept {
            reasons.extend(errors(outcome));
        }
        let trouble = self.trouble.as_ref().filter(|_| too_few);
        let client_bound = is_client_bound(outcome) || too_few && trouble.is_none();
        match trouble {
            Some(errors) => {
                reasons
                    .push(format!("{} connections are too few, and with more: {errors}", self.connections));
            }
            None if too_few => {
                reasons
                    .push(format!("{} connections are too few, and there cannot be more", self.connections));
            }
            None if client_bound => reasons.push("the load generator is at its own limit".into()),
            None => {}
        }
        let is_undrained = undrained.is_some();
        reasons.extend(undrained);
        let probe = Probe {
            level,
            kept,
            undecided,
            undrained: is_undrained,
            reasons,
            requests_per_second: outcome.requests_per_second,
            p50_us: outcome.response_time_us.p50,
            p99_us: outcome.response_time_us.p99,
            max_us: outcome.response_time_us.max,
            connections: outcome.plan.connections,
            seed: outcome.plan.seed(),
            doubts: if kept { outcome.verdict.reasons().to_vec() } else { Vec::new() },
            client_bound,
        };
        (self.news)(News::Done(&probe));
        self.probes.push(probe);
        match kept {
            false if undecided => Sign::Unknown,
            false => Sign::Missed,
            true if clearly_kept(target, outcome) => Sign::ClearlyKept,
            true => Sign::Kept,
        }
    }

    /// Seconds of a longer probe, where one of so many seconds does not tell whether the target is kept.
    fn longer(&self, outcome: &Outcome, seconds: f64) -> Option<f64> {
        let (target, times) = (&self.search.target, &outcome.response_time_us);
        let longest_s = target.iter().filter_map(Threshold::longest_s).reduce(f64::min);
        if !missed(target, outcome).is_empty() {
            return None;
        }
        // How fast clients are answered is only known now: too few answers to tell are no miss.
        let wanted = if !unknown(target, outcome).is_empty() && outcome.requests_per_second > 0.0 {
            let known = self.most_of(Threshold::samples_needed) * SPARE / outcome.requests_per_second;
            known.min(seconds * GROWTH)
        } else if self.search.what == What::Clients && times.max as f64 >= seconds * 1e6 * WAITED {
            longest_s? * BEYOND
        } else {
            return None;
        };
        Some(wanted.min(LONGEST_S)).filter(|wanted| *wanted > seconds)
    }

    /// Waits for the server to be as it was when it was idle, and loads it.
    fn measure(&mut self, level: f64, seconds: f64) -> Result<Measured, Error> {
        let undrained = self.drain.wait(self.means, self.news)?;
        // The same requests at the same moments once more would be no second look.
        self.loads += 1;
        let plan = at_level(self.search, level, self.connections, seconds, self.loads);
        let outcome = self.means.load(&plan, &mut |progress| (self.news)(News::Trying(level, progress)))?;
        Ok((outcome, undrained))
    }

    /// Seconds in which enough is answered to show that the target is kept, where it is kept by far.
    fn long_enough(&self, level: f64, seconds: f64) -> f64 {
        let needed = self.most_of(Threshold::samples_to_tell) * SPARE;
        let rate = match self.search.what {
            What::Rate => level,
            What::Clients => {
                self.probes.last().map_or(f64::INFINITY, |probe| probe.requests_per_second.max(1.0))
            }
        };
        seconds.max((needed / rate).min(LONGEST_S))
    }

    /// The most of what any threshold of the target asks for.
    fn most_of(&self, asks: fn(&Threshold) -> f64) -> f64 {
        self.search.target.iter().map(asks).fold(1.0, f64::max)
    }

    /// The lowest level at which the longest probe can show that the target is kept.
    fn least(&self) -> f64 {
        match self.search.what {
            What::Rate => self.most_of(Threshold::samples_to_tell) * SPARE / LONGEST_S,
            What::Clients => 1.0,
        }
    }

    /// About how long the search takes, in seconds, where probes are clear and the server drains at once: up to the answer, twice
    /// at each level between, and the longer probes at the end.
    fn expected_s(&self, start: f64) -> f64 {
        let Search { probe_s, precision, what, most, .. } = *self.search;
        let length = |level: f64, seconds: f64| self.long_enough(level, seconds) + self.search.plan.warmup_s;
        let top = if what == What::Rate { most.min(start * ABOVE_START) } else { most };
        let up = std::iter::successors(Some(start), |level| Some(level * 2.0));
        let up: f64 = up.take_while(|level| *level < top * 2.0).map(|level| length(level, probe_s)).sum();
        let halvings = (2f64.ln() / precision.ln_1p()).log2().ceil().max(0.0);
        let last = f64::from(self.most_of_last()) * length(top, probe_s * LONGER);
        up + f64::from(AGREE) * halvings * length(top, probe_s) + last
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
    fn end(&self, low: f64, high: Option<f64>) -> (End, String) {
        let Some(high) = high else {
            let reason = match low < self.search.most && !self.is_tired() {
                true => "too few answers came there to tell",
                false => "the highest level that was to be tried still keeps the target",
            };
            return (End::Highest, reason.into());
        };
        let missed = self.probes.iter().rfind(|probe| probe.level == high && probe.missed());
        let end = if missed.is_some_and(|probe| probe.client_bound) { End::Generator } else { End::Server };
        (end, missed.map(|probe| probe.reasons.join("; ")).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
