//! When a run ends before its time, and when a cell has rounds enough.

use load::Stop;
use serde::Deserialize;

use super::explain::Problem;
use super::{Engine, Plan};

/// Requests that ab can be told of: it reserves 32 bytes for each.
pub(crate) const MOST_OF_AB: u64 = 20_000_000;

/// Rules beside the plan's own `duration_s` and `rounds`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopRule {
    /// A run ends after so many measured requests, or after `duration_s` if that comes first.
    pub requests: Option<u64>,
    /// Cells are run in further rounds until both ends of the interval of their requests per second are within this share of
    /// the median: `3%`.
    pub within: Option<String>,
    /// But in no more than so many rounds, those of every cell included.
    pub most_rounds: Option<u32>,
}

impl StopRule {
    /// This one as `--quick` changes it: a first look takes no further rounds unless they are asked for.
    pub(super) fn quicker(self, quick: StopRule) -> StopRule {
        let asks = quick.within.is_some() || quick.most_rounds.is_some();
        StopRule {
            requests: quick.requests.or(self.requests),
            within: quick.within.or(self.within.filter(|_| asks)),
            most_rounds: quick.most_rounds.or(self.most_rounds.filter(|_| asks)),
        }
    }

    /// How near the ends of an interval must be to its median, relative, and how many rounds there may be; `None` where no
    /// further rounds are asked for.
    pub(crate) fn further(&self) -> Option<(f64, u32)> {
        Some((share(self.within.as_ref()?)?, self.most_rounds?))
    }
}

/// Reads `3%`.
fn share(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.trim_end().parse().ok()?;
    (0.1..=100.0).contains(&percent).then_some(percent / 100.0)
}

impl Plan {
    /// When the load of a run ends; where that is with a number of requests, whoever runs it ends it after `duration_s`.
    pub(crate) fn stops(&self) -> Stop {
        self.stop.requests.map_or(Stop::Seconds(self.duration_s), Stop::Requests)
    }

    /// Runs that there are at most, with all further rounds that `[stop]` allows.
    pub fn most_runs(&self) -> usize {
        let rounds = self.stop.further().map_or(self.rounds, |(_, most)| most);
        self.cells().len() * rounds as usize
    }
}

/// The rules of `[stop]`.
pub(super) fn check(plan: &Plan) -> Result<(), Problem> {
    let StopRule { requests, within, most_rounds } = &plan.stop;
    let refuse = |key: &str, text: String| Err(Problem::at(&format!("stop{key}"), text));
    if plan.search.is_some() && (requests.is_some() || within.is_some() || most_rounds.is_some()) {
        return refuse("", "a search ends by rules of its own: leave [stop] out".into());
    }
    if let Some(requests) = requests {
        check_requests(plan, *requests).or_else(|text| refuse(".requests", text))?;
    }
    if within.is_some() != most_rounds.is_some() {
        let text =
            "further rounds need both: how narrow intervals must be (within = \"3%\"), and most_rounds";
        return refuse("", text.into());
    }
    if let Some(text) = within.as_ref().filter(|text| share(text).is_none()) {
        return refuse(".within", format!("stop.within {text:?}: must be 0.1% to 100%, such as \"3%\""));
    }
    match most_rounds {
        Some(most) if *most <= plan.rounds => refuse(
            ".most_rounds",
            format!("stop.most_rounds must be more than the {} rounds of every cell", plan.rounds),
        ),
        _ => Ok(()),
    }
}

/// Whether every cell's load can end after so many requests.
fn check_requests(plan: &Plan, requests: u64) -> Result<(), String> {
    if plan.beside.is_some() {
        return Err(
            "stop.requests: a load beside goes on for duration_s: leave [beside] or stop.requests out".into(),
        );
    }
    if let Some(most) =
        plan.connections.iter().filter(|connections| u64::from(**connections) > requests).max()
    {
        return Err(format!("stop.requests must be at least one for each of {most} connections"));
    }
    plan.cells().iter().try_for_each(|cell| match plan.engine_of(cell)? {
        None => Ok(()),
        Some(Engine::Ab) if requests <= MOST_OF_AB => Ok(()),
        Some(Engine::Ab) => Err(format!("stop.requests: ab takes {MOST_OF_AB} at most")),
        Some(other) => Err(format!(
            "stop.requests: {} cannot stop after a number of requests: only the engines plimsoll and ab can",
            other.name()
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(stop: &str, rest: &str) -> Result<Plan, String> {
        let text = format!(
            "title = \"t\"\npaths = [\"/\"]\nduration_s = 2\n{rest}\n[stop]\n{stop}\n[[target]]\nname = \"a\"\n\
             model = \"reactor\"\n"
        );
        Plan::parse(&text, "x.toml").map_err(|error| error.to_string())
    }

    const ONE: &str = "connections = [5]";

    #[test]
    fn a_run_ends_with_a_number_of_requests_and_quick_keeps_that() {
        let plan = parsed("requests = 1000\nwithin = \"3%\"\nmost_rounds = 9", ONE).unwrap();
        assert_eq!((plan.stops(), plan.stop.further()), (Stop::Requests(1000), Some((0.03, 9))));
        assert_eq!(
            (plan.most_runs(), plan.load_of(&plan.cells()[0], 0, super::super::nowhere()).unwrap().stop),
            (9, Stop::Requests(1000))
        );
        let quick = plan.quicker();
        assert_eq!((quick.stops(), quick.stop.further(), quick.most_runs()), (Stop::Requests(1000), None, 3));
        let asked = format!("{ONE}\n[quick.stop]\nmost_rounds = 4\n");
        let quick = parsed("within = \"3 %\"\nmost_rounds = 9", &asked).unwrap().quicker();
        assert_eq!((quick.stops(), quick.stop.further()), (Stop::Seconds(2.0), Some((0.03, 4))));
    }

    #[test]
    fn ab_can_stop_after_requests_and_others_are_refused() {
        let with = |engine: &str| {
            parsed("requests = 1000", &format!("{ONE}\n[load]\nengine = \"{engine}\"")).map(|_| ())
        };
        assert_eq!((with("ab"), with("plimsoll")), (Ok(()), Ok(())));
        for engine in ["wrk", "h2load", "tsung"] {
            let why = format!(
                "x.toml: line 8: stop.requests: {engine} cannot stop after a number of requests: only the engines plimsoll and ab can"
            );
            assert_eq!(with(engine), Err(why));
        }
    }

    #[test]
    fn rules_that_make_no_sense_are_refused_with_their_line() {
        for (stop, rest, message) in [
            ("requests = 4", ONE, "line 6: stop.requests must be at least one for each of 5 connections"),
            ("requests = 9", "[search]", "line 5: a search ends by rules of its own: leave [stop] out"),
            (
                "within = \"3%\"",
                ONE,
                "line 5: further rounds need both: how narrow intervals must be (within = \"3%\"), and most_rounds",
            ),
            (
                "within = \"3\"\nmost_rounds = 9",
                ONE,
                "line 6: stop.within \"3\": must be 0.1% to 100%, such as \"3%\"",
            ),
            (
                "within = \"3%\"\nmost_rounds = 3",
                ONE,
                "line 7: stop.most_rounds must be more than the 3 rounds of every cell",
            ),
            (
                "requests = 9",
                "connections = [5]\n[beside]\npath = \"/\"\nconnections = 1\nrate = \"10\"",
                "line 10: stop.requests: a load beside goes on for duration_s: leave [beside] or stop.requests out",
            ),
        ] {
            assert_eq!(parsed(stop, rest).unwrap_err(), format!("x.toml: {message}"), "{stop}");
        }
    }
}
