//! Whether the number of workers settles, in a sentence for each cell where workers come and go.

use crate::key::CellKey;
use crate::results::{Results, Run};
use crate::stats::median;
use crate::workers::Workers;

/// The sentences, in the order of the cells.
pub(super) fn sentences(results: &Results) -> Vec<String> {
    results.cells.iter().filter_map(|cell| sentence(results, &cell.key)).collect()
}

fn sentence(results: &Results, key: &CellKey) -> Option<String> {
    let of = |run: &Run| Workers::of(run.server.as_ref()?);
    let rounds: Vec<Workers> = results.sound(key).map(of).collect::<Option<_>>()?;
    let (least, most) =
        (rounds.iter().map(|seen| seen.least).min()?, rounds.iter().map(|seen| seen.most).max()?);
    let of = |get: fn(&Workers) -> f64| median(&rounds.iter().map(get).collect::<Vec<f64>>());
    let (variation, turns) = (of(|seen| seen.variation)?, of(|seen| seen.turns as f64)?);
    (least < most).then(|| {
        format!(
            "{key}: after 5 s there are {least} to {most} workers, with a coefficient of variation of {variation:.3} and \
             {turns:.0} turns from more to fewer or back in a round."
        )
    })
}

#[cfg(test)]
mod tests {
    use load::sample::Moment;

    use super::*;
    use crate::fake;

    #[test]
    fn workers_that_come_and_go_are_told_of_and_those_that_stay_are_not() {
        let said = |counts: [u64; 4]| {
            let mut results = fake::results(&["a"], 3, |_, _| (1_000.0, 10.0));
            for run in &mut results.runs {
                let moment = |(at, workers)| Moment { at_s: at, workers, ..Moment::default() };
                let moments = [6.0, 7.0, 8.0, 9.0].into_iter().zip(counts).map(moment);
                run.server.as_mut().unwrap().moments = moments.collect();
            }
            super::super::summarise(&mut results, &fake::plan(&["a"], ""));
            sentences(&results)
        };
        assert_eq!(
            said([9, 10, 9, 10]),
            [
                "a at 10 connections, /: after 5 s there are 9 to 10 workers, with a coefficient of variation of 0.061 and \
                 2 turns from more to fewer or back in a round."
            ]
        );
        assert!(said([8; 4]).is_empty() && said([0; 4]).is_empty());
    }
}
