//! Where to look when there is less time than a grid takes: at what claims compare, at the best, and where the rate bends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::Next;
use crate::fit::knee;
use crate::key::{CellKey, Levels};
use crate::plan::{Plan, Side};
use crate::results::Run;
use crate::stats::median;

/// How close to the best a cell must be to be worth another look, relative.
const NEAR: f64 = 0.05;

/// Share of the time until which new cells are looked at; the rest is for looking again at what was found, and at what comes
/// near it.
const EXPLORING: f64 = 0.6;

/// An experiment with less time than its grid takes. Each target is first looked at where a claim asks for it, and where its
/// factors are least, middle and most; then from its best setting to the neighbours of that, until none is better, and the
/// same for each side of a claim; then around the knees of the lines through its best setting. After that, at what claims
/// compare, at the best of all and at those of each target, until they have as many rounds as the plan wants; with the rest of
/// the time at everything else; and with what is left even then at what claims compare, for as long as there is time.
pub(crate) struct Search<'a> {
    plan: &'a Plan,
    cells: Vec<CellKey>,
    /// Coarse cells that are still to be looked at, the first of them last.
    coarse: Vec<CellKey>,
    /// When exploring ends, and when everything does.
    explore_until: Instant,
    until: Instant,
}

impl<'a> Search<'a> {
    /// A search that ends when so much time has passed.
    pub(crate) fn new(plan: &'a Plan, budget: Duration) -> Self {
        let cells = plan.cells();
        let is_coarse = |name: &str, level: &str| {
            let (at, count) = place(plan, name, level);
            at == 0 || at + 1 == count || at == count / 2
        };
        let is_asked_for = |side: &Side, cell: &CellKey| {
            let mut free = cell.setting.iter().filter(|(name, _)| !side.at.contains_key(*name));
            side.names(cell) && free.all(|(name, level)| is_coarse(name, level))
        };
        let mut shuffled = cells.clone();
        shuffled.shuffle(&mut ChaCha8Rng::seed_from_u64(plan.seed));
        let (asked, others): (Vec<_>, Vec<_>) =
            shuffled.into_iter().partition(|cell| sides(plan).any(|side| is_asked_for(side, cell)));
        let is_corner = |cell: &CellKey| cell.setting.iter().all(|(name, level)| is_coarse(name, level));
        let coarse = others.into_iter().filter(is_corner).chain(asked).collect();
        let now = Instant::now();
        Search { plan, cells, coarse, explore_until: now + budget.mul_f64(EXPLORING), until: now + budget }
    }

    /// The next run, after those that were made; `None` when time is up or there is nothing left to do.
    pub(crate) fn next(&mut self, runs: &[Run]) -> Option<Next> {
        if self.is_over() {
            return None;
        }
        let cell = self.choose(runs)?;
        Some(numbered(cell, runs))
    }

    /// Whether there is no time for another run.
    fn is_over(&self) -> bool {
        Instant::now() + Duration::from_secs_f64(self.plan.estimate_of_run_s()) > self.until
    }

    fn choose(&mut self, runs: &[Run]) -> Option<CellKey> {
        let known = rates(runs);
        let tried: BTreeSet<&CellKey> = runs.iter().map(|run| &run.cell).collect();
        self.coarse.retain(|cell| !tried.contains(cell));
        if Instant::now() < self.explore_until {
            let new = self.coarse.pop().or_else(|| self.neighbour(&tried, &known));
            if let Some(cell) = new.or_else(|| self.around_a_knee(&tried, &known)) {
                return Some(cell);
            }
        }
        let again = |common: fn(&CellKey) -> CellKey| self.again(&groups(&known, common));
        let asked = self.plan.rounds as usize;
        self.compared(&known, asked)
            .or_else(|| again(CellKey::without_contender))
            .or_else(|| again(CellKey::without_setting))
            .or_else(|| self.coarse.pop())
            .or_else(|| self.cells.iter().find(|cell| !tried.contains(cell)).cloned())
            .or_else(|| self.compared(&known, usize::MAX))
    }

    /// A neighbour of the best setting of a target, or of a side of a claim, that nobody has looked at.
    fn neighbour(&self, tried: &BTreeSet<&CellKey>, known: &Rates) -> Option<CellKey> {
        let new = |best: &CellKey, is_wanted: &dyn Fn(&CellKey) -> bool| {
            let is_new =
                |cell: &&CellKey| self.beside(cell, best) && is_wanted(cell) && !tried.contains(cell);
            self.cells.iter().find(is_new).cloned()
        };
        let targets = groups(known, CellKey::without_setting);
        let of_target = targets.values().find_map(|cells| new(best(cells)?.cell, &|_| true));
        let of_side = |side: &Side| new(best_of(side, known)?, &|cell| side.names(cell));
        of_target.or_else(|| sides(self.plan).find_map(of_side))
    }

    /// The middle between the knee of a line through the best setting of a target, over one factor that is a number, and the
    /// level next to it that is known. A knee among few levels may be anywhere between those beside it.
    fn around_a_knee(&self, tried: &BTreeSet<&CellKey>, known: &Rates) -> Option<CellKey> {
        let targets = groups(known, CellKey::without_setting);
        targets.values().find_map(|cells| {
            let best = best(cells)?.cell;
            best.setting.keys().find_map(|name| {
                let middles = self.middles(name, best, cells)?;
                middles.into_iter().find(|cell| self.cells.contains(cell) && !tried.contains(cell))
            })
        })
    }

    /// Half the way from the knee of a line to what is known on either side of it.
    fn middles(&self, name: &str, best: &CellKey, cells: &[Known<'_>]) -> Option<Vec<CellKey>> {
        let mut levels: Vec<(f64, String)> =
            self.plan.factors.get(name)?.iter().filter_map(|level| numeric(&level.to_string())).collect();
        levels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let at = |place: usize| {
            let mut cell = best.clone();
            cell.setting.insert(name.into(), levels[place].1.clone());
            cell
        };
        let rate = |place: usize| cells.iter().find(|known| *known.cell == at(place)).map(|known| known.rate);
        let line: Vec<(usize, f64)> =
            (0..levels.len()).filter_map(|place| Some((place, rate(place)?))).collect();
        let points: Vec<(f64, f64)> = line.iter().map(|(place, rate)| (levels[*place].0, *rate)).collect();
        let bend = knee(&points)?;
        let ends = line.windows(2).map(|pair| (pair[0].0, pair[1].0));
        let is_beside = |(low, high): &(usize, usize)| levels[*low].0 == bend || levels[*high].0 == bend;
        Some(ends.filter(is_beside).map(|(low, high)| at(low.midpoint(high))).collect())
    }

    /// The least known of what claims compare, the best cell of each side, if it has fewer rounds than these. What the claims
    /// say so far does not matter: rounds until one says something would let chance decide it (optional stopping).
    fn compared(&self, known: &Rates, rounds: usize) -> Option<CellKey> {
        let cells = sides(self.plan).filter_map(|side| best_of(side, known));
        let least = cells.min_by_key(|cell| known[*cell].len())?;
        (known[least].len() < rounds).then(|| least.clone())
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
        fn common(key: &CellKey) -> (&str, u32, &str, bool, &Levels) {
            (&key.target, key.connections, &key.path, key.close, &key.condition)
        }
        if common(cell) != common(other) {
            return false;
        }
        let steps = cell.setting.iter().map(|(name, level)| {
            let at = |level: &str| place(self.plan, name, level).0;
            at(level).abs_diff(other.setting.get(name).map_or(0, |level| at(level)))
        });
        steps.sum::<usize>() == 1
    }
}

/// Rates of cells, over their rounds.
type Rates = BTreeMap<CellKey, Vec<f64>>;

/// What is known of a cell.
struct Known<'a> {
    cell: &'a CellKey,
    /// Median of its rates.
    rate: f64,
    rounds: usize,
}

/// A cell with the first round in which it was not run yet.
fn numbered(cell: CellKey, runs: &[Run]) -> Next {
    let made: BTreeSet<u32> = runs.iter().filter(|run| run.cell == cell).map(|run| run.round).collect();
    let round = (0..).find(|round| !made.contains(round)).unwrap_or_default();
    (round, runs.len() as u32, cell)
}

/// Both sides of all claims.
fn sides(plan: &Plan) -> impl Iterator<Item = &Side> {
    plan.claims.iter().flat_map(|claim| claim.sides().map(|(_, side)| side))
}

/// The best of what is known of a group.
fn best<'a, 'b>(cells: &'b [Known<'a>]) -> Option<&'b Known<'a>> {
    cells.iter().max_by(|a, b| a.rate.total_cmp(&b.rate))
}

/// The best of what is known of a side of a claim.
fn best_of<'a>(side: &Side, known: &'a Rates) -> Option<&'a CellKey> {
    let named = known.iter().filter(|(cell, _)| side.names(cell));
    let worths = named.filter_map(|(cell, rates)| Some((median(rates)?, cell)));
    worths.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, cell)| cell)
}

/// What is known, by what the cells have in common.
fn groups(known: &Rates, common: impl Fn(&CellKey) -> CellKey) -> BTreeMap<CellKey, Vec<Known<'_>>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for (cell, rates) in known {
        let known = Known { cell, rate: median(rates).unwrap_or(0.0), rounds: rates.len() };
        groups.entry(common(cell)).or_default().push(known);
    }
    groups
}

/// A level that is a number, with its text.
fn numeric(level: &str) -> Option<(f64, String)> {
    Some((level.parse().ok()?, level.into()))
}

/// Where a level stands among those of its factor, and how many there are.
fn place(plan: &Plan, name: &str, level: &str) -> (usize, usize) {
    let levels = plan.factors.get(name).map_or(&[][..], Vec::as_slice);
    (levels.iter().position(|other| other.to_string() == level).unwrap_or(0), levels.len())
}

/// Rates of every cell that was measured soundly.
fn rates(runs: &[Run]) -> Rates {
    let mut rates = Rates::new();
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

    /// The runs of a search over a plan, as many as there are at most, where this is what is measured.
    fn search_over(plan: &str, most: usize, rate: fn(&CellKey) -> f64) -> Vec<Run> {
        let plan = Plan::parse(plan, "x.toml").unwrap();
        let mut search = Search::new(&plan, Duration::from_secs(3600));
        let mut runs: Vec<Run> = Vec::new();
        while let Some((round, position, cell)) = search.next(&runs).filter(|_| runs.len() < most) {
            let found = fake::measured(&cell, rate(&cell), 10.0);
            runs.push(Run { round, position, ..fake::run(cell, found) });
        }
        runs
    }

    fn search(most: usize) -> Vec<Run> {
        search_over(GRID, most, hill)
    }

    /// How many runs there are at these levels.
    fn looks(runs: &[Run], reactors: &str, workers: &str) -> usize {
        let is_it =
            |run: &&Run| run.cell.setting["reactors"] == reactors && run.cell.setting["workers"] == workers;
        runs.iter().filter(is_it).count()
    }

    #[test]
    fn the_top_is_found_with_a_part_of_the_grid_and_looked_at_again() {
        let runs = search(40);
        assert_eq!(looks(&runs, "6", "32"), 3, "of {} runs", runs.len());
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

    /// Two settings far from the top are compared, and the best of those with so many reactors.
    const CLAIMS: &str = r#"
        [[claim]]
        text = "slow against slow"
        at_least = 1
        left = { target = "a", at = { reactors = 2, workers = 8 } }
        right = { target = "a", at = { reactors = 1, workers = 1 } }
        [[claim]]
        text = "slow against the best"
        at_most = 1
        left = { target = "a", at = { reactors = 8 } }
        right = { target = "a" }
    "#;

    #[test]
    fn what_a_claim_asks_for_is_looked_at_first() {
        let plan = Plan::parse(&format!("{GRID}{CLAIMS}"), "x.toml").unwrap();
        let search = Search::new(&plan, Duration::from_secs(3600));
        // Of those with eight reactors the least, the middle and the most workers; the last side asks for the corners.
        assert_eq!(search.coarse.len(), 9 + 1 + 3);
        let runs = search_over(&format!("{GRID}{CLAIMS}"), 13, hill);
        assert_eq!((looks(&runs, "2", "8"), looks(&runs, "1", "1"), looks(&runs, "8", "16")), (1, 1, 1));
    }

    #[test]
    fn claims_about_slow_cells_have_all_their_rounds_before_the_rest_is_looked_at() {
        let runs = search_over(&format!("{GRID}{CLAIMS}"), 55, hill);
        assert_eq!((looks(&runs, "2", "8"), looks(&runs, "1", "1")), (3, 3), "of {} runs", runs.len());
        assert_eq!(looks(&runs, "8", "32"), 3, "the best of those with eight reactors");
        assert_eq!(looks(&runs, "6", "32"), 3);
    }

    #[test]
    fn a_knee_between_coarse_levels_is_found() {
        // The rate rises up to twelve workers, and stays; a neighbour of the best is not better.
        let workers: Vec<String> = (1..=64).map(|count| count.to_string()).collect();
        let line = GRID.replace("reactors = [1, 2, 3, 4, 5, 6, 7, 8, 9]", "reactors = [1]");
        let line = line.replace("1, 2, 4, 8, 16, 32, 64, 128, 256", &workers.join(", "));
        let rate = |cell: &CellKey| cell.setting["workers"].parse::<f64>().unwrap().min(12.0) * 100.0;
        let runs = search_over(&line, 16, rate);
        for workers in ["11", "12", "13"] {
            assert!(looks(&runs, "1", workers) > 0, "{workers} workers");
        }
        assert_eq!(looks(&runs, "1", "5"), 0);
    }

    #[test]
    fn without_time_nothing_is_run() {
        let plan = Plan::parse(GRID, "x.toml").unwrap();
        assert_eq!(Search::new(&plan, Duration::from_millis(100)).next(&[]), None);
    }
}
