//! What is said of a load: that its figures can be trusted, need care, or mean nothing, and why.

use serde::{Deserialize, Serialize};

/// Whether figures can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Every gate passed.
    #[default]
    Valid,
    /// A gate failed; the figures need care. The reasons, a sentence each.
    Suspect(Vec<String>),
    /// The figures do not mean what they seem to. The reasons, a sentence each.
    Invalid(Vec<String>),
}

impl Verdict {
    /// Adds a reason for suspicion.
    pub fn suspect(&mut self, reason: String) {
        match self {
            Verdict::Valid => *self = Verdict::Suspect(vec![reason]),
            Verdict::Suspect(reasons) | Verdict::Invalid(reasons) => reasons.push(reason),
        }
    }

    /// Adds a reason why the figures do not mean what they seem to.
    pub fn invalid(&mut self, reason: String) {
        let mut reasons = std::mem::take(self).into_reasons();
        reasons.push(reason);
        *self = Verdict::Invalid(reasons);
    }

    /// Why the figures of something need care, a sentence each: `the search is SUSPECT: ..`.
    pub fn sentences_of(&self, what: &str) -> impl Iterator<Item = String> {
        self.reasons().iter().map(move |reason| format!("{what} is {}: {reason}", self.word()))
    }

    /// The word.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Valid => "VALID",
            Verdict::Suspect(_) => "SUSPECT",
            Verdict::Invalid(_) => "INVALID",
        }
    }

    /// The reasons.
    pub fn reasons(&self) -> &[String] {
        match self {
            Verdict::Valid => &[],
            Verdict::Suspect(reasons) | Verdict::Invalid(reasons) => reasons,
        }
    }

    fn into_reasons(self) -> Vec<String> {
        match self {
            Verdict::Valid => Vec::new(),
            Verdict::Suspect(reasons) | Verdict::Invalid(reasons) => reasons,
        }
    }
}
