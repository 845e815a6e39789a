//! Claims of others, as an experiment tests them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::explain::{Problem, did_you_mean};
use super::{Level, Metric, Plan};
use crate::key::CellKey;

/// A claim about a figure of one side, or of two together, over that of another, or about the figure itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What is claimed, in a sentence.
    pub text: String,
    /// Who claims it, and where.
    #[serde(default)]
    pub source: String,
    /// What the method behind it could show, and what it could not, in a sentence or two.
    #[serde(default)]
    pub note: String,
    /// Which figure; requests per second if nothing is said.
    #[serde(default)]
    pub metric: Metric,
    /// Whose figure.
    pub left: Side,
    /// Whose figure is added to that: a line that falls most at its beginning lies, there, below the middle of its ends.
    pub plus: Option<Side>,
    /// Over whose; without one the claim is about the figure itself.
    pub right: Option<Side>,
    /// The ratio, or the figure, is at least this.
    pub at_least: Option<f64>,
    /// It is at most this.
    pub at_most: Option<f64>,
}

impl Claim {
    /// The sides that it names, each with its key below the claim's.
    pub(crate) fn sides(&self) -> impl Iterator<Item = (&'static str, &Side)> {
        let others = [(".plus", &self.plus), (".right", &self.right)];
        let others = others.into_iter().filter_map(|(key, side)| Some((key, side.as_ref()?)));
        std::iter::once((".left", &self.left)).chain(others)
    }
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
        key.target == self.target
            && self.connections.is_none_or(|connections| connections == key.connections)
            && self.close.is_none_or(|close| close == key.close)
            && self.path.as_ref().is_none_or(|path| *path == key.path)
            && self.at.iter().all(|(name, level)| key.level(name) == Some(level.to_string().as_str()))
    }
}

/// The rules of claims. They hold for the full plan only: the quick form may lack the cells of a claim.
pub(super) fn check(plan: &Plan) -> Result<(), Problem> {
    for (index, claim) in plan.claims.iter().enumerate() {
        let refuse = |key: &str, text: String| Err(Problem::at(&format!("claim.{index}{key}"), text));
        if claim.at_least.is_none() && claim.at_most.is_none() {
            return refuse("", format!("the claim {:?} has neither at_most nor at_least", claim.text));
        }
        if claim.plus.is_some() && claim.right.is_none() {
            return refuse(".plus", "a sum is compared with something: write right too".into());
        }
        if let Some(why) = claim.metric.is_missing_in(plan) {
            return refuse(".metric", why.into());
        }
        for (key, side) in claim.sides() {
            if plan.target(&side.target).is_none() {
                let hint = did_you_mean(&side.target, plan.targets.iter().map(|target| &target.name));
                return refuse(
                    key,
                    format!("a claim names the target {:?}, which is not there{hint}", side.target),
                );
            }
            plan.check_levels(&side.at).or_else(|why| refuse(key, why))?;
        }
    }
    Ok(())
}
