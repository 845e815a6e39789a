//! Factors: their levels, and the texts that they are filled into.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::Plan;
use super::explain::did_you_mean;
use crate::key::Levels;

/// A level of a factor.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Level {
    /// A whole number.
    Whole(i64),
    /// Any other number.
    Number(f64),
    /// A switch.
    Switch(bool),
    /// A word, or a number with its unit.
    Text(String),
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Whole(number) => write!(f, "{number}"),
            Level::Number(number) => write!(f, "{number}"),
            Level::Switch(on) => write!(f, "{on}"),
            Level::Text(text) => f.write_str(text),
        }
    }
}

impl Plan {
    /// The levels of a factor.
    ///
    /// # Errors
    /// There is no such factor.
    pub(super) fn levels_of(&self, factor: &str) -> Result<&[Level], String> {
        let levels = self.factors.get(factor).map(Vec::as_slice);
        levels.ok_or_else(|| {
            format!("there is no factor {factor:?}{}", did_you_mean(factor, self.factors.keys()))
        })
    }

    /// Whether there are these levels.
    ///
    /// # Errors
    /// The first that there is not.
    pub(super) fn check_levels(&self, at: &BTreeMap<String, Level>) -> Result<(), String> {
        at.iter().try_for_each(|(name, level)| match self.levels_of(name)?.contains(level) {
            true => Ok(()),
            false => Err(format!("{name} {level} is none of its levels")),
        })
    }
}

/// A text with the levels of factors filled in.
pub(crate) fn filled(text: &str, levels: &Levels) -> String {
    levels.iter().fold(text.to_owned(), |text, (name, level)| text.replace(&format!("{{{name}}}"), level))
}
