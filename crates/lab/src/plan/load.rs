//! The load of an experiment, where it is other than a plain closed loop.

use std::fmt::Display;
use std::net::SocketAddr;

use load::{Arrivals, Spacing};
use serde::Deserialize;

use super::explain::Problem;
use super::{Engine, Plan, filled, nowhere};
use crate::key::CellKey;

/// How long a response may take, in seconds: source D's limit.
const TIMEOUT_S: f64 = 15.0;

/// The longest such limit.
const LONGEST_S: f64 = 86_400.0;

/// The rate of a load that waits for its answers.
const CLOSED: &str = "closed";

/// What the load does beside sending requests over its connections as fast as they are answered. Factors are filled in.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The load generator: `plimsoll`, `ab`, `wrk`, `h2load`, `tsung` or `webbench`; ours if nothing is said.
    pub engine: Option<String>,
    /// Open loop at this rate, as `plimsoll bench --rate` reads it; `closed` for none.
    pub rate: Option<String>,
    /// An emulated network, as `plimsoll bench --link` reads it; `none` for none.
    pub link: Option<String>,
    /// Bytes per second that each connection takes; 0 for no limit.
    pub receive_rate: Option<String>,
    /// Time between an answer and the next request.
    pub think: Option<String>,
    /// Seconds that an answer may take; 15 if nothing is said, as in source D.
    pub timeout_s: Option<f64>,
    /// Statuses of answers that count; any other is an error. All count if none is given.
    #[serde(default)]
    pub expect_status: Vec<u16>,
    /// Processes of our own load and of `webbench`; 0 for as many as their limits take.
    #[serde(default)]
    pub processes: u32,
    /// Addresses of this host that connections come from.
    #[serde(default)]
    pub sources: u32,
}

impl Load {
    /// Every text in which factors are filled in.
    pub(super) fn texts(&self) -> impl Iterator<Item = &String> {
        [&self.engine, &self.rate, &self.link, &self.receive_rate, &self.think].into_iter().flatten()
    }
}

impl Plan {
    /// The load of a cell in a round, on a server. Arrivals are others in each round, and the same for all cells of it.
    ///
    /// # Errors
    /// What of it cannot be read.
    pub(crate) fn load_of(
        &self,
        key: &CellKey,
        round: u32,
        address: SocketAddr,
    ) -> Result<load::Plan, String> {
        let bad = |what: &str, error: &dyn Display| format!("load.{what}: {error}");
        let think_s = match filled_in(&self.load.think, key, "0s") {
            Some(think) => {
                humantime::parse_duration(&think).map_err(|error| bad("think", &error))?.as_secs_f64()
            }
            None => 0.0,
        };
        let rate = filled_in(&self.load.rate, key, CLOSED);
        let seed = self.seed.wrapping_add(round.into());
        let arrivals = arrivals(rate.as_deref().unwrap_or(CLOSED), seed, think_s)
            .map_err(|error| bad("rate", &error))?;
        let link = match filled_in(&self.load.link, key, "none") {
            Some(link) => Some(link.parse().map_err(|error| bad("link", &error))?),
            None => None,
        };
        let receive_rate = match filled_in(&self.load.receive_rate, key, "0") {
            Some(rate) => rate.parse().map_err(|error| bad("receive_rate", &error))?,
            None => 0.0,
        };
        let processes = match (self.load.processes, filled_in(&self.load.engine, key, "plimsoll").as_deref())
        {
            (0, None) => load::processes_for(key.connections, self.threads),
            (0, Some("webbench")) => load::webbench::processes_for(key.connections),
            (processes, _) => processes.max(1),
        };
        Ok(load::Plan {
            arrivals,
            processes,
            link,
            receive_rate,
            sources: self.load.sources,
            expect: self.expect(),
            connections: key.connections,
            threads: self.threads,
            stop: self.stops(),
            warmup_s: self.warmup_s,
            timeout_s: self.timeout_s(),
            close: key.close,
            cpus: self.load_cpus.clone(),
            ..load::Plan::new(format!("http://{address}{}", key.path))
        })
    }

    /// What an answer must be to count.
    pub(super) fn expect(&self) -> load::Expect {
        load::Expect { statuses: self.load.expect_status.clone(), ..load::Expect::default() }
    }

    /// Seconds that an answer may take.
    pub(super) fn timeout_s(&self) -> f64 {
        self.load.timeout_s.unwrap_or(TIMEOUT_S)
    }

    /// The load generators beside our own that its cells use, each once.
    pub(crate) fn engines(&self) -> Vec<Engine> {
        let mut engines = Vec::new();
        for engine in self.cells().iter().filter_map(|cell| self.engine_of(cell).ok().flatten()) {
            if !engines.contains(&engine) {
                engines.push(engine);
            }
        }
        engines
    }

    /// The load generator of a cell; `None` for our own.
    ///
    /// # Errors
    /// It is not known, or cannot do what the load asks for.
    pub(crate) fn engine_of(&self, key: &CellKey) -> Result<Option<Engine>, String> {
        let Some(name) = filled_in(&self.load.engine, key, "plimsoll") else { return Ok(None) };
        let engine = Engine::named(&name)?;
        let Load { rate, link, receive_rate, think, .. } = &self.load;
        let beyond = [
            ("rate", filled_in(rate, key, CLOSED)),
            ("link", filled_in(link, key, "none")),
            ("receive_rate", filled_in(receive_rate, key, "0")),
            ("think", filled_in(think, key, "0s")),
        ];
        if let Some((what, value)) = beyond.into_iter().find_map(|(what, value)| Some((what, value?))) {
            return Err(format!("load.{what}: {name} cannot do {value:?}: only the engine plimsoll can"));
        }
        if engine == Engine::Webbench && !key.close {
            return Err("load.engine: webbench makes a connection per request: write close = [true]".into());
        }
        if engine == Engine::H2load && key.close {
            return Err(
                "load.engine: h2load does not end where each request has a connection: write close = [false]"
                    .into(),
            );
        }
        if !self.load.expect_status.is_empty() {
            return Err(format!(
                "load.expect_status: {name} does not look at it: only the engine plimsoll does"
            ));
        }
        if engine != Engine::Webbench && self.load.processes > 1 {
            return Err(format!(
                "load.processes: {name} is one process: only plimsoll and webbench can be several"
            ));
        }
        // Several sources only make room for more connections; without them a generator says what it lacks.
        Ok(Some(engine))
    }
}

/// When requests are sent, by a rate as it is written; `think_s` is for a closed loop.
pub(super) fn arrivals(rate: &str, seed: u64, think_s: f64) -> Result<Arrivals, load::BadRate> {
    if rate == CLOSED {
        return Ok(Arrivals::Closed { think_s });
    }
    Ok(Arrivals::Open { rate: rate.parse()?, spacing: Spacing::Poisson, seed, session: None })
}

/// Whether the load of every cell can be read and is one that can be made, before the first is run.
pub(super) fn check(plan: &Plan) -> Result<(), Problem> {
    if plan.load.timeout_s.is_some_and(|seconds| !(0.001..=LONGEST_S).contains(&seconds)) {
        let text = format!("load.timeout_s must be 0.001 to {LONGEST_S} seconds");
        return Err(Problem::at("load.timeout_s", text));
    }
    plan.cells().iter().try_for_each(|cell| {
        let load = plan.load_of(cell, 0, nowhere()).map_err(|text| Problem::at("load", text))?;
        plan.engine_of(cell).map_err(|text| Problem::at("load", text))?;
        let bare = load::Plan::new(load.url.clone());
        sound(bare).map_err(|text| Problem::at("paths", text))?;
        sound(load::Plan { processes: plan.load.processes.max(1), ..load })
            .map_err(|text| Problem::at("load", text))
    })
}

/// Whether a load is one that some host can make: how many connections, threads and processes there may be is another matter on
/// each of them.
pub(super) fn sound(load: load::Plan) -> Result<(), String> {
    load::Plan { connections: 1, threads: 1, ..load }.validate().map_err(|error| error.to_string())
}

/// A text of the load with the cell's levels in it; `None` if it says what is the case without it.
fn filled_in(text: &Option<String>, key: &CellKey, nothing: &str) -> Option<String> {
    Some(filled(text.as_ref()?, &key.condition)).filter(|text| text != nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(load: &str) -> String {
        let text = format!(
            "title = \"t\"\nconnections = [1]\npaths = [\"/\"]\nduration_s = 1\n[load]\n{load}\n\
             [factor]\ntool = [\"wrk\", \"plimsoll\"]\n[[target]]\nname = \"a\"\nmodel = \"reactor\"\n"
        );
        Plan::parse(&text, "x.toml").map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn a_load_that_cannot_be_had_is_refused_before_anything_runs() {
        assert_eq!(refused("engine = \"{tool}\"\nlink = \"none\"\nthink = \"0s\""), "");
        let why = refused("engine = \"{tool}\"\nlink = \"delay=20ms\"");
        assert_eq!(
            why,
            "x.toml: line 5: load.link: wrk cannot do \"delay=20ms\": only the engine plimsoll can"
        );
        let why = refused("engine = \"{tool}s\"");
        assert_eq!(
            why,
            "x.toml: line 5: load.engine: \"wrks\": there are plimsoll, ab, wrk, h2load, tsung and webbench"
        );
        assert!(refused("rate = \"{tool}\"").starts_with("x.toml: line 5: load.rate: \"wrk\" is no number"));
        assert!(refused("engine = \"{tool}\"\nrate = \"100\"").contains("load.rate: wrk cannot do"));
    }

    #[test]
    fn a_load_that_no_host_can_make_is_refused_before_anything_runs() {
        for (load, message) in [
            ("timeout_s = 0", "line 6: load.timeout_s must be 0.001 to 86400 seconds"),
            ("timeout_s = nan", "line 6: load.timeout_s must be 0.001 to 86400 seconds"),
            ("sources = 1000", "line 5: sources 1000: must be at most 250"),
            ("expect_status = [99]", "line 5: status 99: answers have 200 to 599"),
            ("rate = \"1e12\"", "line 5: rate of 1000000000000 requests per second: must be 0"),
            ("think = \"2years\"", "line 5: think time of "),
        ] {
            let text = format!(
                "title = \"t\"\nconnections = [1]\npaths = [\"/\"]\nduration_s = 1\n[load]\n{load}\n\
                 [[target]]\nname = \"a\"\nmodel = \"reactor\"\n"
            );
            let why = Plan::parse(&text, "x.toml").unwrap_err().to_string();
            assert!(why.starts_with(&format!("x.toml: {message}")), "{why}");
        }
    }

    #[test]
    fn who_only_closes_and_who_cannot_is_told_so() {
        let with = |engine: &str, close: &str| {
            let text = format!(
                "title = \"t\"\nconnections = [1]\npaths = [\"/\"]\nclose = [{close}]\nduration_s = 1\n[load]\n\
                 engine = \"{engine}\"\n[[target]]\nname = \"a\"\nmodel = \"reactor\"\n"
            );
            Plan::parse(&text, "x.toml").map(|_| ()).map_err(|error| error.to_string())
        };
        let why =
            "x.toml: line 6: load.engine: webbench makes a connection per request: write close = [true]";
        let webbench = |close| with("webbench", close);
        assert_eq!((webbench("true"), webbench("true, false")), (Ok(()), Err(why.to_string())));
        let why = with("h2load", "true").unwrap_err();
        assert!(why.starts_with("x.toml: line 6: load.engine: h2load does not end"), "{why}");
        assert_eq!(with("h2load", "false"), Ok(()));
    }
}
