//! Which cell is run next: all of them in shuffled rounds, or, where time is short, where the answer is.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use load::Verdict;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::plan::Plan;
use crate::results::{CellKey, Run};
use crate::stats::median;

/// How close to the best a cell must be to be worth another look, relative.
const NEAR: f64 = 0.05;

/// A run that is to be made: its round, its position in it, and its cell.
pub(crate) type Next = (u32, u32, CellKey);

/// All runs in the order they are made: every round holds every cell, shuffled anew, so that a drift of the
/// host falls on all cells alike (Abedi and Brecht, 2017: randomised multiple interleaved trials).
pub(crate) fn rounds(plan: &Plan) -> Vec<Next> {
    let mut order = Vec::new();
    for round in 0..plan.rounds {
        let mut cells = plan.cells();
        cells.shuffle(&mut ChaCha8Rng::seed_from_u64(plan.seed.wrapping_add(round.into())));
        order.extend((0u32..).zip(cells).map(|(position, key)| (round, position, key)));
    }
    order
}

/// An experiment with less time than its grid takes: each target is first looked at where its factors are least, middle
/// and most; then from its best setting to the neighbours of that, until none is better; then the best ones again, until
/// they have as many rounds as the plan wants; and with the rest of the time everything else.
pub(crate) struct Search<'a> {
    plan: &'a Plan,
    cells: Vec<CellKey>,
    /// Coarse cells that are still to be looked at.
    coarse: Vec<CellKey>,
    until: Instant,
}

impl<'a> Search<'a> {
    /// A search that ends when so much time has passed.
    pub(crate) fn new(plan: &'a Plan, budget: Duration) -> Self {
        let cells = plan.cells();
        let is_coarse = |cell: &&CellKey| {
            cell.setting.iter().all(|(name, level)| {
                let (at, count) = place(plan, name, level);
                at == 0 || at + 1 == count || at == count / 2
            })
        };
        let mut coarse: Vec<CellKey> = cells.iter().filter(is_coarse).cloned().collect();
        coarse.shuffle(&mut ChaCha8Rng::seed_from_u64(plan.seed));
        Search { plan, cells, coarse, until: Instant::now() + budget }
    }

    /// The next run, after those that were made; `None` when time is up or there is nothing left to do.
    pub(crate) fn next(&mut self, runs: &[Run]) -> Option<Next> {
        let each = Duration::from_secs_f64(self.plan.estimate_of_run_s());
        if Instant::now() + each > self.until {
            return None;
        }
        let cell = self.choose(runs)?;
        let round = runs.iter().filter(|run| run.cell == cell).count() as u32;
        Some((round, runs.len() as u32, cell))
    }

    fn choose(&mut self, runs: &[Run]) -> Option<CellKey> {
        while let Some(cell) = self.coarse.pop() {
            if !runs.iter().any(|run| run.cell == cell) {
                return Some(cell);
            }
        }
        let known = rates(runs);
        self.neighbour(runs, &known).or_else(|| self.again(&known)).or_else(|| {
            let unknown = |cell: &&CellKey| !runs.iter().any(|run| run.cell == **cell);
            self.cells.iter().find(unknown).cloned()
        })
    }

    /// A neighbour of the best setting of a target that nobody has looked at.
    fn neighbour(&self, runs: &[Run], known: &BTreeMap<CellKey, Vec<f64>>) -> Option<CellKey> {
        for (_, cells) in self.groups(known) {
            let (best, _) = cells.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
            let is_new =
                |cell: &&CellKey| self.beside(cell, best) && !runs.iter().any(|run| run.cell == **cell);
            if let Some(cell) = self.cells.iter().find(is_new) {
                return Some(cell.clone());
            }
        }
        None
    }

    /// The least known of the best ones.
    fn again(&self, known: &BTreeMap<CellKey, Vec<f64>>) -> Option<CellKey> {
        let near = self.groups(known).into_values().flat_map(|cells| {
            let best = cells.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
            cells.into_iter().filter(move |(_, rate)| *rate >= best * (1.0 - NEAR)).map(|(cell, _)| cell)
        });
        let (cell, count) = near.map(|cell| (cell, known[cell].len())).min_by_key(|(_, count)| *count)?;
        (count < self.plan.rounds as usize).then(|| cell.clone())
    }

    /// What is known of each target under each condition: the median rate of each setting.
    fn groups<'b>(
        &self,
        known: &'b BTreeMap<CellKey, Vec<f64>>,
    ) -> BTreeMap<CellKey, Vec<(&'b CellKey, f64)>> {
        let mut groups = BTreeMap::<_, Vec<_>>::new();
        for (cell, rates) in known {
            let group = CellKey { setting: BTreeMap::new(), ..cell.clone() };
            groups.entry(group).or_default().push((cell, median(rates).unwrap_or(0.0)));
        }
        groups
    }

    /// Whether a cell differs from another by one step of one factor.
    fn beside(&self, cell: &CellKey, other: &CellKey) -> bool {
        if (CellKey { setting: BTreeMap::new(), ..cell.clone() })
            != (CellKey { setting: BTreeMap::new(), ..other.clone() })
        {
            return false;
        }
        let steps = cell.setting.iter().map(|(name, level)| {
            let at = |level: &str| place(self.plan, name, level).0;
            at(level).abs_diff(other.setting.get(name).map_or(0, |level| at(level)))
        });
        steps.sum::<usize>() == 1
    }
}

/// Where a level stands among those of its factor, and how many there are.
fn place(plan: &Plan, name: &str, level: &str) -> (usize, usize) {
    let levels = plan.factors.get(name).map_or(&[][..], Vec::as_slice);
    (levels.iter().position(|other| other.to_string() == level).unwrap_or(0), levels.len())
}

/// Rates of every cell that was measured soundly.
fn rates(runs: &[Run]) -> BTreeMap<CellKey, Vec<f64>> {
    let mut rates = BTreeMap::<_, Vec<_>>::new();
    for run in runs.iter().filter(|run| !matches!(run.verdict, Verdict::Invalid(_))) {
        if let Some(outcome) = &run.outcome {
            rates.entry(run.cell.clone()).or_default().push(outcome.requests_per_second);
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    const GRID: &str = r#"
        title = "t"
        connections = [64]
        paths = ["/"]
        duration_s = 1
        [factor]
        reactors = [1, 2, 3, 4, 5, 6, 7, 8, 9]
        workers = [1, 2, 4, 8, 16, 32, 64, 128, 256]
        [[target]]
        name = "a"
        model = "multi-reactor-pool"
        args = ["--reactors", "{reactors}", "--workers", "{workers}"]
    "#;

    /// A hill with its top at 6 reactors and 32 workers.
    fn hill(cell: &CellKey) -> f64 {
        let level = |name: &str| cell.setting[name].parse::<f64>().unwrap();
        let (reactors, workers) = (level("reactors") - 6.0, level("workers").log2() - 5.0);
        10_000.0 - 300.0 * reactors * reactors - 200.0 * workers * workers
    }

    fn search(most: usize) -> Vec<Run> {
        let plan = Plan::parse(GRID, "x.toml").unwrap();
        let mut search = Search::new(&plan, Duration::from_secs(3600));
        let mut runs: Vec<Run> = Vec::new();
        while let Some((round, position, cell)) = search.next(&runs).filter(|_| runs.len() < most) {
            let (outcome, server) = fake::measured(&cell, hill(&cell), 10.0);
            runs.push(Run {
                cell,
                round,
                position,
                outcome: Some(outcome),
                server: Some(server),
                ..Run::default()
            });
        }
        runs
    }

    #[test]
    fn the_top_is_found_with_a_part_of_the_grid_and_looked_at_again() {
        let runs = search(40);
        let top = |run: &&Run| run.cell.setting["reactors"] == "6" && run.cell.setting["workers"] == "32";
        assert_eq!(runs.iter().filter(top).count(), 3, "of {} runs", runs.len());
        // 9 of the 81 cells first, and no cell twice before the top is known.
        let mut first: Vec<_> = runs[..9].iter().map(|run| run.cell.clone()).collect();
        first.sort();
        first.dedup();
        assert_eq!(first.len(), 9);
    }

    #[test]
    fn with_time_enough_every_cell_is_looked_at() {
        let plan = Plan::parse(GRID, "x.toml").unwrap();
        let mut cells: Vec<_> = search(1000).into_iter().map(|run| run.cell).collect();
        cells.sort();
        cells.dedup();
        assert_eq!(cells.len(), plan.cells().len());
    }

    #[test]
    fn without_time_nothing_is_run() {
        let plan = Plan::parse(GRID, "x.toml").unwrap();
        assert_eq!(Search::new(&plan, Duration::from_millis(100)).next(&[]), None);
    }
}
