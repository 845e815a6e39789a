//! Claims of others, as an experiment tests them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Level;
use crate::key::CellKey;

/// A claim about the rate of one side over that of another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What is claimed, in a sentence.
    pub text: String,
    /// Who claims it, and where.
    #[serde(default)]
    pub source: String,
    /// Whose rate.
    pub left: Side,
    /// Over whose.
    pub right: Side,
    /// The ratio is at least this.
    pub at_least: Option<f64>,
    /// The ratio is at most this.
    pub at_most: Option<f64>,
}

/// One side of a claim: the fastest of all cells that it names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// Name of the target.
    pub target: String,
    /// Levels of factors.
    #[serde(default)]
    pub at: BTreeMap<String, Level>,
    /// Connections.
    pub connections: Option<u32>,
    /// Path, as it is requested.
    pub path: Option<String>,
    /// Whether each request has a connection of its own.
    pub close: Option<bool>,
}

impl Side {
    /// Whether a cell is one of those that it names.
    pub(crate) fn names(&self, key: &CellKey) -> bool {
        let has = |name: &String, level: &String| {
            key.setting.get(name).or_else(|| key.condition.get(name)).is_some_and(|own| own == level)
        };
        key.target == self.target
            && self.connections.is_none_or(|connections| connections == key.connections)
            && self.close.is_none_or(|close| close == key.close)
            && self.path.as_ref().is_none_or(|path| *path == key.path)
            && self.at.iter().all(|(name, level)| has(name, &level.to_string()))
    }

    /// Whether it names this very setting, and not the best of several.
    pub(crate) fn asks_for(&self, key: &CellKey) -> bool {
        self.names(key) && key.setting.keys().all(|name| self.at.contains_key(name))
    }
}
