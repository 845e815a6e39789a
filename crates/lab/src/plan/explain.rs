//! What is wrong with a plan, where it stands in the file, and what was probably meant.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Something wrong in a plan.
#[derive(Debug)]
pub(super) struct Problem {
    place: Place,
    text: String,
}

#[derive(Debug)]
enum Place {
    /// Bytes of the file, as the parser says.
    Bytes(Range<usize>),
    /// Keys from the top, an entry of a list by its number. Only as many of them as are there count.
    Keys(Vec<String>),
}

impl Problem {
    /// At these keys, with dots between them: `target.1.name`.
    pub(super) fn at(keys: &str, text: impl Into<String>) -> Self {
        Problem { place: Place::Keys(keys.split('.').map(String::from).collect()), text: text.into() }
    }

    /// The same in this table, if it is there that the value was given.
    pub(super) fn within(self, table: &str) -> Self {
        let place = match self.place {
            Place::Keys(mut keys) => {
                keys.insert(0, table.into());
                Place::Keys(keys)
            }
            bytes => bytes,
        };
        Problem { place, ..self }
    }

    /// The parser's message in the words of this file format, with the nearest known key where one is unknown.
    pub(super) fn from_toml(error: &toml::de::Error, text: &str) -> Self {
        let message = error.message();
        let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        let text = match quoted.split_first() {
            Some((unknown, known)) if message.starts_with("unknown field") => {
                format!("unknown key {unknown:?}{}", meant_or_known(unknown, known))
            }
            Some((unknown, known)) if message.starts_with("unknown variant") => {
                format!("unknown value {unknown:?}{}", meant_or_known(unknown, known))
            }
            Some((missing, [])) if message.starts_with("missing field") => {
                format!("the key {missing:?} is missing")
            }
            _ => {
                let line = error.span().map_or("", |span| line_at(text, span.start));
                format!("{}: {line}", message.replace('\n', " "))
            }
        };
        Problem { place: Place::Bytes(error.span().unwrap_or_default()), text }
    }

    /// `LINE: what is wrong`, where the line is known.
    pub(super) fn placed(&self, text: &str) -> String {
        let start = match &self.place {
            Place::Bytes(span) => Some(span.start),
            Place::Keys(keys) => find(text, keys),
        };
        let line = start.map(|start| text[..start.min(text.len())].matches('\n').count() + 1);
        line.map_or(self.text.clone(), |line| format!("line {line}: {}", self.text))
    }
}

fn line_at(text: &str, byte: usize) -> &str {
    let start = text[..byte.min(text.len())].rfind('\n').map_or(0, |newline| newline + 1);
    text[start..].lines().next().unwrap_or("").trim()
}

/// Where the deepest of the keys stands that is there.
fn find(text: &str, keys: &[String]) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    // A key that quick does not change is in the table above.
    let keys = match keys {
        [table, rest @ ..] if table == "quick" && !holds(document.get_ref(), table, rest) => rest,
        keys => keys,
    };
    let (first, rest) = keys.split_first()?;
    let mut value = document.get_ref().get(first.as_str())?;
    for key in rest {
        match step(value, key) {
            Some(deeper) => value = deeper,
            None => break,
        }
    }
    Some(value.span().start)
}

fn holds(document: &DeTable<'_>, table: &str, keys: &[String]) -> bool {
    let table = document.get(table);
    table.zip(keys.first()).is_some_and(|(table, key)| step(table, key).is_some())
}

fn step<'a, 'i>(value: &'a Spanned<DeValue<'i>>, key: &str) -> Option<&'a Spanned<DeValue<'i>>> {
    match value.get_ref() {
        DeValue::Table(table) => table.get(key),
        DeValue::Array(list) => list.get(key.parse::<usize>().ok()?),
        _ => None,
    }
}

fn meant_or_known(word: &str, known: &[&str]) -> String {
    match did_you_mean(word, known) {
        meant if meant.is_empty() => format!("; known are {}", known.join(", ")),
        meant => meant,
    }
}

/// `; did you mean "x"?` where one of the candidates is near enough.
pub fn did_you_mean(word: &str, candidates: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let scored = candidates.into_iter().map(|known| (strsim::jaro_winkler(word, known.as_ref()), known));
    match scored.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((score, known)) if score > 0.8 => format!("; did you mean {:?}?", known.as_ref()),
        _ => String::new(),
    }
}
