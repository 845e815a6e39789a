//! Which cell is run next: all of them in shuffled rounds, or, where time is short, where the answer is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::key::CellKey;
use crate::plan::Plan;
use crate::results::Run;
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

/// Share of the time until which neighbours are looked at; the rest is for looking again at what was found, and at what comes near it.
const EXPLORING: f64 = 0.6;

/// An experiment with less time than its grid takes: each target is first looked at where its factors are least, middle
/// and most, and where a claim asks for it; then from its best setting to the neighbours of that, until none is better; then again at the best of all
/// and at those of each target, until they have as many rounds as the plan wants; and with the rest of the time at
/// everything else.
pub(crate) struct Search<'a> {
    plan: &'a Plan,
    cells: Vec<CellKey>,
    /// Coarse cells that are still to be looked at.
    coarse: Vec<CellKey>,
    /// When exploring ends, and when everything does.
    explore_until: Instant,
    until: Instant,
}

impl<'a> Search<'a> {
    /// A search that ends when so much time has passed.
    pub(crate) fn new(plan: &'a Plan, budget: Duration) -> Self {
        let cells = plan.cells();
        let sides = || plan.claims.iter().flat_map(|claim| claim.sides().map(|(_, side)| side));
        let is_coarse = |cell: &&CellKey| {
            let mut levels = cell.setting.iter().map(|(name, level)| place(plan, name, level));
            levels.all(|(at, count)| at == 0 || at + 1 == count || at == count / 2)
                || sides().any(|side| side.asks_for(cell))
        };
        let mut coarse: Vec<CellKey> = cells.iter().filter(is_coarse).cloned().collect();
        coarse.shuffle(&mut ChaCha8Rng::seed_from_u64(plan.seed));
        let now = Instant::now();
        Search { plan, cells, coarse, explore_until: now + budget.mul_f64(EXPLORING), until: now + budget }
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
        let known = rates(runs);
        let tried: BTreeSet<&CellKey> = runs.iter().map(|run| &run.cell).collect();
        while let Some(cell) = self.coarse.pop() {
            if !tried.contains(&cell) {
                return Some(cell);
            }
        }
        if Instant::now() < self.explore_until
            && let Some(cell) = self.neighbour(&tried, &known)
        {
            return Some(cell);
        }
        let again = |common: fn(&CellKey) -> CellKey| self.again(&groups(&known, common));
        again(CellKey::without_contender)
            .or_else(|| again(CellKey::without_setting))
            .or_else(|| self.cells.iter().find(|cell| !tried.contains(cell)).cloned())
    }

    /// A neighbour of the best setting of a target that nobody has looked at.
    fn neighbour(&self, tried: &BTreeSet<&CellKey>, known: &BTreeMap<CellKey, Vec<f64>>) -> Option<CellKey> {
        for (_, cells) in groups(known, CellKey::without_setting) {
            let Known { cell: best, .. } = cells.into_iter().max_by(|a, b| a.rate.total_cmp(&b.rate))?;
            let is_new = |cell: &&CellKey| self.beside(cell, best) && !tried.contains(cell);
            if let Some(cell) = self.cells.iter().find(is_new) {
                return Some(cell.clone());
            }
        }
        None
    }

    /// The least known of those that come near the best of their group.
    fn again(&self, groups: &BTreeMap<CellKey, Vec<Known<'_>>>) -> Option<CellKey> {
        let near = groups.values().flat_map(|cells| {
            let best = cells.iter().map(|known| known.rate).fold(0.0, f64::max);
            cells.iter().filter(move |known| known.rate >= best * (1.0 - NEAR))
        });
        let least = near.min_by_key(|known| known.rounds)?;
        (least.rounds < self.plan.rounds as usize).then(|| least.cell.clone())
    }

    /// Whether a cell differs from another by one step of one factor.
    fn beside(&self, cell: &CellKey, other: &CellKey) -> bool {
        if cell.without_setting() != other.without_setting() {
            return false;
        }
        let steps = cell.setting.iter().map(|(name, level)| {
            let at = |level: &str| place(self.plan, name, level).0;
            at(level).abs_diff(other.setting.get(name).map_or(0, |level| at(level)))
        });
        steps.sum::<usize>() == 1
    }
}

/// What is known of a cell.
struct Known<'a> {
    cell: &'a CellKey,
    /// Median of its rates.
    rate: f64,
    rounds: usize,
}

/// What is known, by what the cells have in common.
fn groups(
    known: &BTreeMap<CellKey, Vec<f64>>,
    common: impl Fn(&CellKey) -> CellKey,
) -> BTreeMap<CellKey, Vec<Known<'_>>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for (cell, rates) in known {
        let known = Known { cell, rate: median(rates).unwrap_or(0.0), rounds: rates.len() };
        groups.entry(common(cell)).or_default().push(known);
    }
    groups
}

/// Where a level stands among those of its factor, and how many there are.
fn place(plan: &Plan, name: &str, level: &str) -> (usize, usize) {
    let levels = plan.factors.get(name).map_or(&[][..], Vec::as_slice);
    (levels.iter().position(|other| other.to_string() == level).unwrap_or(0), levels.len())
}

/// Rates of every cell that was measured soundly.
fn rates(runs: &[Run]) -> BTreeMap<CellKey, Vec<f64>> {
    let mut rates = BTreeMap::<_, Vec<_>>::new();
    for run in runs.iter().filter(|run| run.is_sound()) {
        if let Some(rate) = run.figure() {
            rates.entry(run.cell.clone()).or_default().push(rate);
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
            let found = fake::measured(&cell, hill(&cell), 10.0);
            runs.push(Run { round, position, ..fake::run(cell, found) });
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
    fn what_a_claim_asks_for_is_looked_at_first() {
        let claim = "[[claim]]\ntext = \"t\"\nat_least = 1\nright = { target = \"a\" }\n\
                     left = { target = \"a\", at = { reactors = 2, workers = 8 } }\n";
        let plan = Plan::parse(&format!("{GRID}{claim}"), "x.toml").unwrap();
        let search = Search::new(&plan, Duration::from_secs(3600));
        assert_eq!(search.coarse.len(), 10);
        assert!(
            search
                .coarse
                .iter()
                .any(|cell| cell.setting["reactors"] == "2" && cell.setting["workers"] == "8")
        );
    }

    #[test]
    fn without_time_nothing_is_run() {
        let plan = Plan::parse(GRID, "x.toml").unwrap();
        assert_eq!(Search::new(&plan, Duration::from_millis(100)).next(&[]), None);
    }
}
