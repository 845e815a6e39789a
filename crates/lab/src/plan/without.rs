//! Cells of a grid that are left out, since they cannot say anything.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::explain::Problem;
use super::{Level, Plan};
use crate::key::CellKey;

/// Cells that are not run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Without {
    /// Why, for whoever reads the plan.
    pub reason: String,
    /// At these numbers of connections; at all if none is given.
    #[serde(default)]
    pub connections: Vec<u32>,
    /// At these levels of factors.
    #[serde(default)]
    pub at: BTreeMap<String, Level>,
}

impl Without {
    /// Whether a cell is one of those.
    pub(super) fn names(&self, key: &CellKey) -> bool {
        (self.connections.is_empty() || self.connections.contains(&key.connections))
            && self.at.iter().all(|(name, level)| key.level(name) == Some(level.to_string().as_str()))
    }
}

/// What cells that are left out must keep: they are some that there are, and others are left.
pub(super) fn check(plan: &Plan) -> Result<(), Problem> {
    for (index, without) in plan.without.iter().enumerate() {
        let refuse = |key: &str, text: String| Err(Problem::at(&format!("without.{index}{key}"), text));
        if without.connections.is_empty() && without.at.is_empty() {
            return refuse(
                "",
                "this leaves out everything: say at how many connections, or at which levels".into(),
            );
        }
        plan.check_levels(&without.at).or_else(|why| refuse(".at", why))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(without: &str) -> Result<Plan, String> {
        let text = format!(
            "title = \"t\"\nconnections = [1, 8]\npaths = [\"/{{work}}\"]\nduration_s = 1\n[[without]]\n{without}\n\
             [factor]\nwork = [\"a\", \"b\"]\n[[target]]\nname = \"a\"\nmodel = \"reactor\"\n"
        );
        Plan::parse(&text, "x.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn cells_that_all_of_it_names_are_left_out() {
        let cells = |without: &str| {
            let plan = parse(&format!("reason = \"r\"\n{without}")).unwrap();
            plan.cells().iter().map(|key| format!("{}{}", key.connections, key.path)).collect::<Vec<_>>()
        };
        assert_eq!(cells("connections = [8]\nat = { work = \"b\" }"), ["1/a", "1/b", "8/a"]);
        assert_eq!(cells("connections = [8]"), ["1/a", "1/b"]);
        assert_eq!(cells("at = { work = \"a\" }"), ["1/b", "8/b"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (without, message) in [
            (
                "reason = \"r\"",
                "line 5: this leaves out everything: say at how many connections, or at which levels",
            ),
            ("connections = [8]", "line 5: the key \"reason\" is missing"),
            (
                "reason = \"r\"\nat = { wrk = \"a\" }",
                "line 7: there is no factor \"wrk\"; did you mean \"work\"?",
            ),
            ("reason = \"r\"\nat = { work = \"c\" }", "line 7: work c is none of its levels"),
            ("reason = \"r\"\nconnections = [1, 8]", "line 5: every cell is left out"),
        ] {
            assert_eq!(parse(without).unwrap_err(), format!("x.toml: {message}"), "{without}");
        }
    }
}
