//! A search for the most simultaneous clients that a target holds, in place of loads at given numbers of connections.

use std::net::SocketAddr;

use load::capacity::{self, What, most_clients};
use serde::Deserialize;

use super::explain::Problem;
use super::{Plan, nowhere};
use crate::key::CellKey;

/// How narrow the answer is if nothing is said, in per cent.
const PRECISION: f64 = 5.0;

/// Probes that halve the interval between what is held and what is not, for the estimate.
const HALVINGS: f64 = 6.0;

/// Times a probe that the last look at the answer takes.
const LAST_LOOK: f64 = 3.0;

/// The search; a probe of a number of clients takes the plan's `duration_s`. What is left out is as usual.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// What must be kept, as `plimsoll bench --threshold` reads it: every answer within 15 s, and no error.
    pub keep: Option<Vec<String>>,
    /// How narrow the answer must be, in per cent: 5.
    pub precision: Option<f64>,
    /// The first number of clients to try: 1.
    pub start: Option<u32>,
    /// The highest: as many as this process has descriptors and ports for.
    pub most: Option<u32>,
}

impl Search {
    /// This one, with whatever another says in its place.
    pub(super) fn with(self, other: Search) -> Search {
        Search {
            keep: other.keep.or(self.keep),
            precision: other.precision.or(self.precision),
            start: other.start.or(self.start),
            most: other.most.or(self.most),
        }
    }
}

impl Plan {
    /// The search of a cell in a round, on a server; `None` where the plan has loads at given numbers of connections.
    ///
    /// # Errors
    /// What of it cannot be read.
    pub(crate) fn search_of(
        &self,
        key: &CellKey,
        round: u32,
        address: SocketAddr,
    ) -> Result<Option<capacity::Search>, String> {
        let Some(Search { keep, precision, start, most }) = &self.search else { return Ok(None) };
        let plan = self.load_of(key, round, address)?;
        let usual: Vec<String> = What::Clients.usual_target().map(String::from).into();
        let target = keep.as_ref().unwrap_or(&usual).iter().map(|bound| bound.parse());
        let can = most_clients(&plan);
        Ok(Some(capacity::Search {
            what: What::Clients,
            target: target.collect::<Result<_, _>>().map_err(|error| format!("search.keep: {error}"))?,
            probe_s: self.duration_s,
            // It is the rounds that repeat it.
            confirmations: 1,
            precision: precision.unwrap_or(PRECISION) / 100.0,
            start: start.map(f64::from),
            most: most.map_or(can, f64::from).min(can),
            plan,
        }))
    }

    /// About how long the search of a cell takes, in seconds, unless answers are late; `None` where there is none.
    pub(super) fn estimate_of_search_s(&self) -> Option<f64> {
        let cells = self.cells();
        let search = self.search_of(cells.first()?, 0, nowhere()).ok()??;
        let doublings = (search.most / search.start.unwrap_or(1.0)).log2().max(0.0) + 1.0;
        Some((doublings + HALVINGS) * (self.duration_s + self.warmup_s) + LAST_LOOK * self.duration_s)
    }
}

/// The rules of a search.
pub(super) fn check(plan: &Plan) -> Result<(), Problem> {
    let Some(Search { precision, start, most, .. }) = &plan.search else { return Ok(()) };
    let refuse = |key: &str, text: &str| Err(Problem::at(key, text));
    if !plan.connections.is_empty() {
        return refuse("connections", "a search finds the number of connections: leave connections out");
    }
    if plan.load.rate.is_some() || plan.load.engine.is_some() {
        return refuse(
            "load",
            "a search is a closed loop of our own load: leave load.rate and load.engine out",
        );
    }
    if plan.beside.is_some() {
        return refuse("beside", "a search has no load beside it: leave [beside] or [search] out");
    }
    if let Some(index) = plan.without.iter().position(|without| !without.connections.is_empty()) {
        let text = "a search finds the number of connections: leave out levels of factors only";
        return refuse(&format!("without.{index}.connections"), text);
    }
    if precision.is_some_and(|precision| !(0.1..=100.0).contains(&precision)) {
        return refuse("search.precision", "search.precision must be 0.1 to 100 per cent");
    }
    if *start == Some(0) || start.zip(*most).is_some_and(|(start, most)| start > most) {
        return refuse("search", "search.start must be at least 1, and search.most at least as many");
    }
    let cells = plan.cells();
    let read = cells.iter().try_for_each(|cell| plan.search_of(cell, 0, nowhere()).map(|_| ()));
    read.map_err(|text| Problem::at("search", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(search: &str, rest: &str) -> Result<Plan, String> {
        let text = format!(
            "title = \"t\"\npaths = [\"/\"]\nduration_s = 1\n{rest}\n[search]\n{search}\n[[target]]\nname = \"a\"\n\
             model = \"reactor\"\n[quick.search]\nmost = 4\n"
        );
        Plan::parse(&text, "x.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn a_search_is_one_cell_for_each_target_and_quick_makes_it_smaller() {
        let plan = parsed("start = 2\nprecision = 10\nmost = 64", "").unwrap();
        let cells = plan.cells();
        assert!(cells.len() == 1 && cells[0].is_searched(), "{cells:?}");
        let search = plan.search_of(&cells[0], 0, nowhere()).unwrap().unwrap();
        assert_eq!((search.start, search.most, search.precision), (Some(2.0), 64.0, 0.1));
        assert_eq!(
            search.target.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["max<15s", "errors<0%"]
        );
        // The first and five doublings, six halvings, and three times as long at the end.
        assert_eq!(plan.estimate_of_search_s(), Some(6.0 + 6.0 + 3.0));
        let quick = plan.quicker();
        assert_eq!(quick.search_of(&cells[0], 0, nowhere()).unwrap().unwrap().most, 4.0);
    }

    #[test]
    fn a_search_that_makes_no_sense_is_refused_with_its_line() {
        for (search, rest, message) in [
            (
                "",
                "connections = [1]",
                "line 4: a search finds the number of connections: leave connections out",
            ),
            (
                "start = 9\nmost = 8",
                "",
                "line 5: search.start must be at least 1, and search.most at least as many",
            ),
            ("precision = 0", "", "line 6: search.precision must be 0.1 to 100 per cent"),
            (
                "",
                "[load]\nrate = \"10\"",
                "line 4: a search is a closed loop of our own load: leave load.rate and load.engine out",
            ),
            (
                "",
                "[beside]\npath = \"/\"\nconnections = 1\nrate = \"closed\"",
                "line 4: a search has no load beside it: leave [beside] or [search] out",
            ),
            (
                "",
                "[[without]]\nreason = \"r\"\nconnections = [8]",
                "line 6: a search finds the number of connections: leave out levels of factors only",
            ),
        ] {
            assert_eq!(parsed(search, rest).unwrap_err(), format!("x.toml: {message}"));
        }
        // What is found by a search cannot be asked for without one.
        let budget = "target = \"a\"\nagainst = \"b\"\nat_least = 1\nmetric = \"clients_held\"";
        let claim = "text = \"x\"\nleft = { target = \"a\" }\nat_least = 1\nmetric = \"clients_held\"";
        for (word, asked) in [("budget", budget), ("claim", claim)] {
            let text = format!(
                "title = \"t\"\nconnections = [1]\npaths = [\"/\"]\nduration_s = 1\n[[{word}]]\n{asked}\n\
                 [[target]]\nname = \"a\"\nmodel = \"reactor\"\n[[target]]\nname = \"b\"\nmodel = \"reactor\"\n"
            );
            let why = "line 9: clients_held is what a search finds: put [search] in place of connections";
            assert_eq!(Plan::parse(&text, "x.toml").unwrap_err().to_string(), format!("x.toml: {why}"));
        }
        assert!(parsed("keep = [\"p98<1s\"]", "").unwrap_err().contains("search.keep: \"p98<1s\""));
    }
}
