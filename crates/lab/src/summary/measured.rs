//! Which cells of a plan were measured, and which were not: nobody should take a part for the whole.

use std::collections::BTreeSet;

use super::cell;
use crate::key::CellKey;
use crate::plan::Plan;
use crate::results::{Cell, Results};

/// Every cell of the plan: with its figures, or without any.
pub(super) fn cells(results: &Results, plan: &Plan) -> (Vec<Cell>, Vec<CellKey>) {
    let looked_at: BTreeSet<&CellKey> = results.runs.iter().map(|run| &run.cell).collect();
    let (mut measured, mut unmeasured) = (Vec::new(), Vec::new());
    for key in plan.cells() {
        match looked_at.contains(&key).then(|| cell(results, &key)).flatten() {
            Some(cell) => measured.push(cell),
            None => unmeasured.push(key),
        }
    }
    (measured, unmeasured)
}

/// How many cells were measured, and why the others were not; `None` where all were.
pub(crate) fn sentence(results: &Results) -> Option<String> {
    let (measured, unmeasured) = (results.cells.len(), results.unmeasured.len());
    if unmeasured == 0 {
        return None;
    }
    let looked_at: BTreeSet<&CellKey> = results.runs.iter().map(|run| &run.cell).collect();
    let failed = results.unmeasured.iter().filter(|key| looked_at.contains(key)).count();
    let why = match (unmeasured - failed, failed) {
        (untried, 0) => format!("{untried} were not looked at"),
        (0, failed) => format!("{failed} gave no figure"),
        (untried, failed) => format!("{untried} were not looked at, and {failed} gave no figure"),
    };
    Some(format!("{measured} of {} cells were measured; {why}.", measured + unmeasured))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::summary::summarise;

    #[test]
    fn cells_without_a_figure_are_kept_and_counted_by_why() {
        let mut results = fake::results(&["a", "b"], 3, |_, _| (1_000.0, 10.0));
        let targets = ["a", "b", "c", "d"];
        for run in results.runs.iter_mut().filter(|run| run.cell.target == "b") {
            run.failure = Some("it ended".into());
        }
        summarise(&mut results, &fake::plan(&targets, ""));
        let names: Vec<&str> = results.unmeasured.iter().map(|key| key.target.as_str()).collect();
        assert_eq!((results.cells.len(), names), (1, vec!["b", "c", "d"]));
        let said = "1 of 4 cells were measured; 2 were not looked at, and 1 gave no figure.";
        assert_eq!(results.findings.last().unwrap(), said);
        assert!(crate::report::text_table(&results).contains(said));
        summarise(&mut results, &fake::plan(&["a"], ""));
        assert_eq!((results.unmeasured.len(), sentence(&results)), (0, None));
    }
}
