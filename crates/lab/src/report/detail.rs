//! How much of an experiment its page holds: all of it, or, where that weighs more than a page should, what matters most.

use std::iter;

use serde_json::{Map, Value};

use super::format::{json_for_script, number};
use crate::results::Results;

/// What a page holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detail {
    /// Most rows of a table.
    pub(super) rows: usize,
    /// Most charts.
    pub(super) charts: usize,
    raw: Raw,
}

/// What the figures for programs are about. The page never has histograms and what a server used tenth by tenth of a second,
/// which take most room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Raw {
    Seconds,
    Runs,
    Cells,
    Experiment,
}

/// From all to less, as long as a page is too large.
const STEPS: [Detail; 6] = [
    Detail { rows: usize::MAX, charts: usize::MAX, raw: Raw::Seconds },
    Detail { rows: usize::MAX, charts: usize::MAX, raw: Raw::Runs },
    Detail { rows: usize::MAX, charts: usize::MAX, raw: Raw::Cells },
    Detail { rows: 400, charts: usize::MAX, raw: Raw::Cells },
    Detail { rows: 100, charts: usize::MAX, raw: Raw::Experiment },
    Detail { rows: 25, charts: 64, raw: Raw::Experiment },
];

/// What a run's load found that is of its seconds, of the parts of its requests, or the same in every run.
const OF_SECONDS: [&str; 6] = ["timeline", "plan", "connect_us", "first_byte_us", "transfer_us", "failed_us"];

impl Detail {
    /// Every one to try, in turn: the last ones have fewer and fewer charts, down to none.
    pub(super) fn steps() -> impl Iterator<Item = Detail> {
        let last = STEPS[STEPS.len() - 1];
        let fewer =
            |detail: &Detail| (detail.charts > 0).then_some(Detail { charts: detail.charts / 2, ..*detail });
        STEPS.into_iter().chain(iter::successors(fewer(&last), fewer))
    }

    /// The figures for programs, as JSON that may stand in a script.
    pub(super) fn raw(&self, results: &Results) -> String {
        let mut light = results.clone();
        for run in &mut light.runs {
            for outcome in run.outcome.iter_mut().chain(&mut run.beside) {
                outcome.response_time_histogram.clear();
                outcome.timeline.iter_mut().for_each(|second| second.histogram.clear());
            }
            if let Some(server) = &mut run.server {
                server.moments.clear();
            }
        }
        if self.raw >= Raw::Cells {
            light.runs.clear();
            light.unmeasured.clear();
        }
        if self.raw == Raw::Experiment {
            light.cells.clear();
        }
        if self.raw != Raw::Runs {
            return json_for_script(&light);
        }
        // Plain structs with string keys always serialise.
        let mut value = serde_json::to_value(&light).unwrap_or_default();
        for run in value["runs"].as_array_mut().into_iter().flatten() {
            for load in ["outcome", "beside"] {
                let outcome = run.get_mut(load).and_then(Value::as_object_mut);
                outcome.into_iter().for_each(|outcome| without(outcome, &OF_SECONDS));
            }
        }
        json_for_script(&value)
    }

    /// What is left out, in a sentence; `None` where nothing is. `longest` is the number of rows of the longest table, and
    /// `charts` that of the charts that there are.
    pub(super) fn left_out(&self, longest: usize, charts: usize) -> Option<String> {
        let raw = match self.raw {
            Raw::Seconds => None,
            Raw::Runs => Some("the seconds of each run in the raw figures"),
            Raw::Cells => Some("the runs and what was not measured in the raw figures"),
            Raw::Experiment => Some("runs and cells in the raw figures"),
        };
        let rows = (longest > self.rows).then(|| format!("what is beyond {} rows of a table", self.rows));
        let fewer = (charts > self.charts).then(|| {
            let (left_out, all) = (number_of(charts - self.charts), number_of(charts));
            format!("{left_out} of {all} charts")
        });
        let parts: Vec<String> = fewer.into_iter().chain(rows).chain(raw.map(String::from)).collect();
        (!parts.is_empty()).then(|| {
            format!(
                "Left out, so that this page stays below 2 MB: {}. All of it is in results.json, cells.csv and \
                 results.sqlite.",
                parts.join("; ")
            )
        })
    }
}

fn without(object: &mut Map<String, Value>, names: &[&str]) {
    object.retain(|name, _| !names.contains(&name.as_str()));
}

fn number_of(count: usize) -> String {
    number(count as f64).trim_end_matches(".00").trim_end_matches(".0").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_step_has_no_chart() {
        let charts: Vec<usize> = Detail::steps().map(|detail| detail.charts).skip(5).collect();
        assert_eq!(charts, [64, 32, 16, 8, 4, 2, 1, 0]);
    }

    #[test]
    fn what_is_left_out_is_said() {
        let steps: Vec<Detail> = Detail::steps().collect();
        assert_eq!(steps[0].left_out(1_000_000, 1_000), None);
        let said = steps[6].left_out(26, 70).unwrap();
        assert!(
            said.contains("38 of 70 charts; what is beyond 25 rows of a table; runs and cells in the raw"),
            "{said}"
        );
        assert!(!steps[3].left_out(400, 1).unwrap().contains("rows"));
    }
}
