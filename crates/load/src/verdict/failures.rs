//! How many requests of a load failed, of how many.

use crate::outcome::Outcome;

/// Requests that were sent, however they ended.
pub(crate) fn all(outcome: &Outcome) -> u64 {
    outcome.requests + outcome.drained + outcome.errors.total()
}

/// Answers with an error status that nobody expected: each status, and how many.
pub fn bad_answers(outcome: &Outcome) -> impl Iterator<Item = (u16, u64)> {
    let expected = &outcome.plan.expect.statuses;
    let is_bad = |code: &u16| *code >= 400 && !expected.contains(code);
    outcome.statuses.iter().map(|(code, count)| (*code, *count)).filter(move |(code, _)| is_bad(code))
}

pub(super) fn count_bad(outcome: &Outcome) -> u64 {
    bad_answers(outcome).map(|(_, count)| count).sum()
}

/// Requests without a proper answer.
pub fn failed(outcome: &Outcome) -> u64 {
    outcome.errors.total() + count_bad(outcome)
}

/// The share of the requests that were sent, however they ended, without a proper answer; `None` where none was.
pub fn failed_share(outcome: &Outcome) -> Option<f64> {
    let all = all(outcome);
    (all > 0).then(|| failed(outcome) as f64 / all as f64)
}
