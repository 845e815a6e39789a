//! Values for the paths that begin so: of several that fit, the longest counts.

use std::cmp::Reverse;

use wire::normal_path;

/// A value for each beginning of a path.
#[derive(Debug)]
pub(crate) struct Prefixes<T>(Vec<(String, T)>);

impl<T> Default for Prefixes<T> {
    fn default() -> Self {
        Prefixes(Vec::new())
    }
}

impl<T> FromIterator<(String, T)> for Prefixes<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(values: I) -> Self {
        let mut values: Vec<_> = values.into_iter().collect();
        // The longest first, so that the first that fits is the one that says the most.
        values.sort_by_key(|(prefix, _)| Reverse(prefix.len()));
        Prefixes(values)
    }
}

impl<T> Prefixes<T> {
    /// The value for a path, however it is written.
    pub(crate) fn of(&self, path: &str) -> Option<&T> {
        if self.0.is_empty() {
            return None;
        }
        let path = normal_path(path);
        self.0.iter().find(|(prefix, _)| path.starts_with(prefix.as_str())).map(|(_, value)| value)
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each beginning with its value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(prefix, value)| (prefix.as_str(), value))
    }
}
