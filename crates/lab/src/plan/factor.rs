//! Factors: their levels, and the texts that they are filled into.

use std::fmt;

use serde::Deserialize;

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

/// A text with the levels of factors filled in.
pub(crate) fn filled(text: &str, levels: &Levels) -> String {
    levels.iter().fold(text.to_owned(), |text, (name, level)| text.replace(&format!("{{{name}}}"), level))
}
