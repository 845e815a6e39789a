//! What names a point of the grid: a target, its setting, and the load and conditions it is measured under.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Levels of factors, by the factor's name.
pub type Levels = BTreeMap<String, String>;

/// The number of connections of a cell that searches how many it holds.
pub(crate) const SEARCHED: u32 = 0;

/// A point of the grid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CellKey {
    /// Name of the target, as the plan gives it.
    pub target: String,
    /// What the target is set to: factors that are a choice, such as its number of workers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub setting: Levels,
    /// Under what it is measured: factors that nobody can choose, such as how long the work of a request takes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub condition: Levels,
    /// Connections; 0 where as many are searched as the target holds.
    pub connections: u32,
    /// Path of the request.
    pub path: String,
    /// One connection per request.
    pub close: bool,
}

impl CellKey {
    /// The target with its setting: `pool (reactors 2, workers 16)`.
    pub fn contender(&self) -> String {
        match self.setting.is_empty() {
            true => self.target.clone(),
            false => format!("{} ({})", self.target, levels(&self.setting)),
        }
    }

    /// Its path and what else it is measured under: `/page, a connection per request, work 100us`.
    pub fn circumstances(&self) -> String {
        let mut text = self.path.clone();
        if self.close {
            text += ", a connection per request";
        }
        for (name, level) in self.condition.iter().filter(|(_, level)| !self.path_has(level)) {
            text += &format!(", {name} {level}");
        }
        text
    }

    /// Whether a level is a whole part of the path, or the value of a part of its query: then it need not be said again.
    fn path_has(&self, level: &str) -> bool {
        self.path
            .split(['/', '?', '&'])
            .any(|part| part == level || part.split_once('=').is_some_and(|(_, value)| value == level))
            || self.path.strip_prefix('/') == Some(level)
    }

    /// Whether it searches how many clients the target holds.
    pub fn is_searched(&self) -> bool {
        self.connections == SEARCHED
    }

    /// All but the contender: `1 connection, /page`.
    pub fn load(&self) -> String {
        if self.is_searched() {
            return format!("as many clients as it holds, {}", self.circumstances());
        }
        let plural = if self.connections == 1 { "" } else { "s" };
        format!("{} connection{plural}, {}", self.connections, self.circumstances())
    }

    /// Its level of a factor.
    pub(crate) fn level(&self, name: &str) -> Option<&str> {
        self.setting.get(name).or_else(|| self.condition.get(name)).map(String::as_str)
    }

    /// What it has in common with the same target in other settings.
    pub(crate) fn without_setting(&self) -> CellKey {
        CellKey { setting: Levels::new(), ..self.clone() }
    }

    /// What it has in common with other contenders under the same load.
    pub(crate) fn without_contender(&self) -> CellKey {
        CellKey { target: String::new(), ..self.without_setting() }
    }

    /// The same cell, but of another contender.
    pub(crate) fn of(&self, other: &CellKey) -> CellKey {
        CellKey { target: other.target.clone(), setting: other.setting.clone(), ..self.clone() }
    }
}

/// `reactors 2, workers 16`.
pub(crate) fn levels(levels: &Levels) -> String {
    levels.iter().map(|(name, level)| format!("{name} {level}")).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.contender(), self.load())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_left_out_only_where_the_path_says_it() {
        let named = |path: &str, level: &str| {
            let condition = Levels::from([("rate".to_owned(), level.to_owned())]);
            CellKey { path: path.into(), condition, ..CellKey::default() }.circumstances()
        };
        assert_eq!(named("/work?bytes=1000", "100"), "/work?bytes=1000, rate 100");
        assert_eq!(named("/work?bytes=1000", "1000"), "/work?bytes=1000");
        assert_eq!(named("/work?sleep=1ms&bytes=1000", "1ms"), "/work?sleep=1ms&bytes=1000");
        assert_eq!(named("/slow", "slow"), "/slow");
        assert_eq!(named("/slow", "low"), "/slow, rate low");
        // A path that is a level as a whole.
        assert_eq!(named("/work?sleep=1ms", "work?sleep=1ms"), "/work?sleep=1ms");
    }
}
