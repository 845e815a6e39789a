//! What a verdict says of runs that failed: each way to fail of each target once.

use load::Verdict;

use crate::key::CellKey;
use crate::results::Run;

/// Most ways to fail that a verdict names one by one.
const MOST_KINDS: usize = 8;

/// Each way to fail of each target, with one of the cells that did: what is missing may be another thing for each target.
pub(super) fn judge(runs: &[Run], verdict: &mut Verdict) {
    let mut kinds: Vec<(&CellKey, &String, usize)> = Vec::new();
    for (cell, why) in runs.iter().filter_map(|run| Some((&run.cell, run.failure.as_ref()?))) {
        match kinds.iter_mut().find(|(other, said, _)| other.target == cell.target && *said == why) {
            Some((_, _, count)) => *count += 1,
            None => kinds.push((cell, why, 1)),
        }
    }
    for (cell, why, count) in kinds.iter().take(MOST_KINDS) {
        verdict.suspect(format!("{count} of {} runs failed, such as {cell}: {why}", runs.len()));
    }
    let rest: usize = kinds.iter().skip(MOST_KINDS).map(|(_, _, count)| count).sum();
    if rest > 0 {
        verdict.suspect(format!("{rest} of {} runs failed in other ways: see the runs", runs.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    fn judged(fail: impl Fn(usize, &Run) -> Option<String>) -> Vec<String> {
        let mut results = fake::results(&["a", "b", "c"], 3, |_, _| (1_000.0, 10.0));
        for (number, run) in results.runs.iter_mut().enumerate() {
            run.failure = fail(number, run);
        }
        let mut verdict = Verdict::Valid;
        judge(&results.runs, &mut verdict);
        verdict.reasons().to_vec()
    }

    #[test]
    fn two_targets_that_are_missing_are_both_named() {
        let missing = |_: usize, run: &Run| match run.cell.target.as_str() {
            "a" => Some("apache2 is not installed: apt-get install apache2".into()),
            "b" => Some("lighttpd is not installed: apt-get install lighttpd".into()),
            _ => None,
        };
        assert_eq!(
            judged(missing),
            [
                "3 of 9 runs failed, such as a at 10 connections, /: apache2 is not installed: apt-get install apache2",
                "3 of 9 runs failed, such as b at 10 connections, /: lighttpd is not installed: apt-get install lighttpd",
            ]
        );
    }

    #[test]
    fn a_verdict_stays_readable_where_each_run_fails_in_its_own_way() {
        let said = judged(|number, _| Some(format!("process {number} ended")));
        assert_eq!(said.len(), MOST_KINDS + 1);
        assert_eq!(said[MOST_KINDS], "1 of 9 runs failed in other ways: see the runs");
    }
}
