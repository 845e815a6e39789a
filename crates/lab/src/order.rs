//! Which cell is run next: all of them in shuffled rounds, or, where time is short, where the answer is.

mod search;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::key::CellKey;
use crate::plan::Plan;
use crate::results::Run;
use crate::stats::estimate;

pub(crate) use search::Search;

/// A run that is to be made: its round, its position in it, and its cell.
pub(crate) type Next = (u32, u32, CellKey);

/// All runs in the order they are made: every round holds every cell, shuffled anew, so that a drift of the
/// host falls on all cells alike (Abedi and Brecht, 2017: randomised multiple interleaved trials).
pub(crate) fn rounds(plan: &Plan) -> Vec<Next> {
    (0..plan.rounds).flat_map(|round| shuffled(plan, round, plan.cells())).collect()
}

/// The runs that are left of the next further round, where `[stop]` asks for more rounds of cells whose interval is wide: that
/// of the rounds before it, so that an experiment that was interrupted goes on with the same cells.
pub(crate) fn further(plan: &Plan, runs: &[Run]) -> Vec<Next> {
    let Some((within, most_rounds)) = plan.stop.further() else { return Vec::new() };
    for round in plan.rounds..most_rounds {
        let is_wide =
            |cell: &CellKey| is_wide(plan, cell, runs.iter().filter(|run| run.round < round), within);
        let all: Vec<Next> =
            shuffled(plan, round, plan.cells().into_iter().filter(is_wide).collect()).collect();
        let is_made = |next: &Next| runs.iter().any(|run| run.round == round && run.cell == next.2);
        let left: Vec<Next> = all.iter().filter(|next| !is_made(next)).cloned().collect();
        if all.is_empty() || !left.is_empty() {
            return left;
        }
    }
    Vec::new()
}

/// Whether an end of the interval of a cell's rate is further from the median than this share of it. What was never measured
/// soundly has nothing that more rounds could make narrower.
fn is_wide<'a>(plan: &Plan, cell: &CellKey, runs: impl Iterator<Item = &'a Run>, within: f64) -> bool {
    let rates: Vec<f64> =
        runs.filter(|run| run.cell == *cell && run.is_sound()).filter_map(Run::rate).collect();
    let Some(found) = estimate(&rates, plan.seed) else { return false };
    let half = |(low, high): (f64, f64)| (high - found.median).max(found.median - low);
    found.interval().is_none_or(|ends| half(ends) > within * found.median)
}

/// A round of some cells, in an order of its own that the seed decides.
fn shuffled(plan: &Plan, round: u32, mut cells: Vec<CellKey>) -> impl Iterator<Item = Next> {
    cells.shuffle(&mut ChaCha8Rng::seed_from_u64(plan.seed.wrapping_add(round.into())));
    (0u32..).zip(cells).map(move |(position, key)| (round, position, key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    const STOP: &str = "[stop]\nwithin = \"3%\"\nmost_rounds = 6\n";

    /// Makes runs until there are none left, where the rate of a varies by 10 % and that of b by 1 % from round to round.
    fn made(mut runs: Vec<Run>, most: usize) -> Vec<Run> {
        let plan = fake::plan(&["a", "b", "c"], STOP);
        let mut next = rounds(&plan);
        while !next.is_empty() {
            for (round, position, cell) in std::mem::take(&mut next) {
                let is_made = runs.iter().any(|run| run.round == round && run.cell == cell);
                if is_made || runs.len() == most {
                    continue;
                }
                let spread = if cell.target == "a" { 0.1 } else { 0.01 };
                let found = fake::measured(&cell, 1_000.0 * (1.0 + spread * f64::from(round % 2)), 10.0);
                let failure = (cell.target == "c").then(|| "it is not installed".to_string());
                runs.push(Run { round, position, failure, ..fake::run(cell, found) });
            }
            next = if runs.len() == most { Vec::new() } else { further(&plan, &runs) };
        }
        runs
    }

    #[test]
    fn cells_with_a_wide_interval_get_further_rounds_up_to_a_limit() {
        let runs = made(Vec::new(), 1000);
        let count = |target: &str| runs.iter().filter(|run| run.cell.target == target).count();
        assert_eq!((count("a"), count("b"), count("c")), (6, 3, 3));
        assert!(further(&fake::plan(&["a"], ""), &runs).is_empty(), "nobody asked for it");
    }

    #[test]
    fn further_rounds_that_were_interrupted_are_gone_on_with() {
        let key = |runs: &[Run]| runs.iter().map(|run| (run.round, run.cell.clone())).collect::<Vec<_>>();
        let whole = made(Vec::new(), 1000);
        for cut in [4, 9, 10, 11] {
            assert_eq!(key(&made(made(Vec::new(), cut), 1000)), key(&whole), "after {cut}");
        }
    }
}
