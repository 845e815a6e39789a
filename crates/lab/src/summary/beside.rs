//! What the load beside came to, in each cell that had one.

use load::verdict::failed;

use crate::key::CellKey;
use crate::report::{number, with_interval};
use crate::results::{Beside, Cell, Results, Run};
use crate::stats::estimate;

/// Its figures over the rounds of a cell.
pub(super) fn of(results: &Results, key: &CellKey) -> Option<Beside> {
    let over = |get: &dyn Fn(&Run) -> Option<f64>| estimate(&results.values(key, get), results.seed);
    let outcomes = results.runs.iter().filter(|run| run.cell == *key).filter_map(|run| run.beside.as_ref());
    Some(Beside {
        requests_per_second: over(&Run::beside_rate)?,
        p99_us: over(&Run::beside_p99),
        errors: outcomes.map(failed).sum(),
    })
}

/// A sentence for each cell that had one.
pub(super) fn sentences(results: &Results) -> Vec<String> {
    results.cells.iter().filter_map(sentence).collect()
}

fn sentence(cell: &Cell) -> Option<String> {
    let Beside { requests_per_second, p99_us, errors } = cell.beside.as_ref()?;
    let (rate, key) = (with_interval(Some(*requests_per_second)), &cell.key);
    let p99 = p99_us.map_or("n/a".into(), |p99| number(p99.median));
    Some(format!("{key}: the load beside had {rate} requests per second, p99 {p99} us, {errors} errors."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::summary::summarise;

    #[test]
    fn a_load_beside_is_told_of_with_its_errors() {
        let mut results = fake::results(&["a", "b"], 3, |_, _| (1_000.0, 10.0));
        for run in results.runs.iter_mut().filter(|run| run.cell.target == "a") {
            let mut beside = run.outcome.clone().unwrap();
            beside.requests_per_second = 2_000.0 + f64::from(run.round);
            beside.errors.connect_refused = 1;
            run.beside = Some(beside);
        }
        summarise(&mut results, &fake::plan(&["a", "b"], ""));
        let said = "a at 10 connections, /: the load beside had 2,001 [2,000, 2,002] requests per second, p99 10,000 us, 3 errors.";
        assert_eq!(sentences(&results), [said]);
        assert!(results.findings.contains(&said.to_owned()));
    }
}
