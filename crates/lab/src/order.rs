//! Which cell is run next: all of them in shuffled rounds, or, where time is short, where the answer is.

mod search;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::key::CellKey;
use crate::plan::Plan;

pub(crate) use search::Search;

/// A run that is to be made: its round, its position in it, and its cell.
pub(crate) type Next = (u32, u32, CellKey);

/// All runs in the order they are made: every round holds every cell, shuffled anew, so that a drift of the
/// host falls on all cells alike (Abedi and Brecht, 2017: randomised multiple interleaved trials).
pub(crate) fn rounds(plan: &Plan) -> Vec<Next> {
    (0..plan.rounds).flat_map(|round| shuffled(plan, round, plan.cells())).collect()
}

/// A round of some cells, in an order of its own that the seed decides.
fn shuffled(plan: &Plan, round: u32, mut cells: Vec<CellKey>) -> impl Iterator<Item = Next> {
    cells.shuffle(&mut ChaCha8Rng::seed_from_u64(plan.seed.wrapping_add(round.into())));
    (0u32..).zip(cells).map(move |(position, key)| (round, position, key))
}
