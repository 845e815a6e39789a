//! From runs to findings: what the rounds of each cell come to, which cells are best, and how budgets came out.

use std::collections::BTreeMap;

use crate::gates::judge_all;
use crate::plan::{Budget, Metric, Plan};
use crate::report::number;
use crate::results::{BudgetOutcome, Cell, CellKey, Results, Run};
use crate::stats::{estimate, ratio};

/// The values of one figure over the rounds of one cell.
fn values(runs: &[Run], key: &CellKey, get: impl Fn(&Run) -> Option<f64>) -> Vec<f64> {
    runs.iter().filter(|run| run.cell == *key && run.failure.is_none()).filter_map(get).collect()
}

fn rate(run: &Run) -> Option<f64> {
    Some(run.outcome.as_ref()?.requests_per_second)
}

fn cpu(run: &Run) -> Option<f64> {
    Some(run.server?.cpu_us_per_request)
}

impl Metric {
    fn of(self, run: &Run) -> Option<f64> {
        match self {
            Metric::ServerCpuUsPerRequest => cpu(run),
            Metric::RequestsPerSecond => rate(run),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Metric::ServerCpuUsPerRequest => "CPU per request",
            Metric::RequestsPerSecond => "requests per second",
        }
    }
}

/// Fills in what follows from the runs.
pub(crate) fn summarise(results: &mut Results, plan: &Plan, interrupted: bool) {
    results.cells = plan.cells().iter().filter_map(|key| cell(&results.runs, key, plan.seed)).collect();
    mark_best(results, plan.seed);
    results.budgets = plan.budgets.iter().flat_map(|budget| outcomes(budget, results, plan)).collect();
    let rates: Vec<_> = results
        .cells
        .iter()
        .map(|cell| (cell.key.to_string(), values(&results.runs, &cell.key, rate)))
        .collect();
    results.verdict = judge_all(&results.runs, plan.rounds, interrupted, &rates);
    results.findings = findings(results);
}

fn cell(runs: &[Run], key: &CellKey, seed: u64) -> Option<Cell> {
    let over = |get: &dyn Fn(&Run) -> Option<f64>| estimate(&values(runs, key, get), seed);
    let time = |pick: fn(&load::Distribution) -> Option<u64>| {
        over(&move |run: &Run| Some(pick(&run.outcome.as_ref()?.response_time_us)? as f64))
    };
    Some(Cell {
        key: key.clone(),
        rounds: values(runs, key, rate).len() as u32,
        requests_per_second: over(&rate)?,
        p50_us: time(|times| times.p50),
        p99_us: time(|times| times.p99),
        server_cpu_us_per_request: over(&cpu),
        errors: runs
            .iter()
            .filter(|run| run.cell == *key)
            .filter_map(|run| Some(run.outcome.as_ref()?.errors.total()))
            .sum(),
        tied_best: false,
        ratio_to_best: None,
    })
}

/// Cells that differ only in their target.
fn groups(cells: &[Cell]) -> BTreeMap<(String, bool, u32), Vec<usize>> {
    let mut groups = BTreeMap::<_, Vec<usize>>::new();
    for (index, cell) in cells.iter().enumerate() {
        groups.entry((cell.key.path.clone(), cell.key.close, cell.key.connections)).or_default().push(index);
    }
    groups
}

/// Marks in each group the fastest cell, and those that cannot be told from it: where the interval of the
/// ratio to the fastest includes 1.
fn mark_best(results: &mut Results, seed: u64) {
    for group in groups(&results.cells).values() {
        let median = |index: &&usize| results.cells[**index].requests_per_second.median;
        let Some(&best) = group.iter().max_by(|a, b| median(a).total_cmp(&median(b))) else { continue };
        let fastest = values(&results.runs, &results.cells[best].key, rate);
        for &index in group {
            let own = values(&results.runs, &results.cells[index].key, rate);
            let cell = &mut results.cells[index];
            cell.ratio_to_best = ratio(&own, &fastest, seed);
            cell.tied_best = index == best || cell.ratio_to_best.is_some_and(|ratio| ratio.high >= 1.0);
        }
    }
}

/// How a budget came out in every cell that both of its targets have.
fn outcomes(budget: &Budget, results: &Results, plan: &Plan) -> Vec<BudgetOutcome> {
    let own = |key: &&CellKey| {
        key.target == budget.target && budget.connections.is_none_or(|n| n == key.connections)
    };
    let outcome = |key: &CellKey| {
        let other = CellKey { target: budget.against.clone(), ..key.clone() };
        let of = |key| values(&results.runs, key, |run| budget.metric.of(run));
        let ratio = ratio(&of(key), &of(&other), plan.seed);
        let keeps = |median: f64| {
            budget.at_most.is_none_or(|most| median <= most)
                && budget.at_least.is_none_or(|least| median >= least)
        };
        let bounds = [("at most", budget.at_most), ("at least", budget.at_least)];
        let bounds: Vec<_> =
            bounds.iter().filter_map(|(word, bound)| Some(format!("{word} {:.2}", (*bound)?))).collect();
        BudgetOutcome {
            text: format!(
                "{} / {}, {}, {}: {}",
                budget.target,
                budget.against,
                budget.metric.name(),
                Condition(key),
                bounds.join(" and ")
            ),
            met: ratio.is_some_and(|ratio| keeps(ratio.median)),
            ratio,
        }
    };
    plan.cells().iter().filter(own).map(outcome).collect()
}

/// A cell's condition without its target.
struct Condition<'a>(&'a CellKey);

impl std::fmt::Display for Condition<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let CellKey { connections, path, close, .. } = self.0;
        let kind = if *close { ", a connection per request" } else { "" };
        let plural = if *connections == 1 { "" } else { "s" };
        write!(f, "{connections} connection{plural}, {path}{kind}")
    }
}

impl std::fmt::Display for CellKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", self.target, Condition(self))
    }
}

fn findings(results: &Results) -> Vec<String> {
    groups(&results.cells).values().filter_map(|group| finding(results, group)).collect()
}

/// What a group of cells that differ only in their target says.
fn finding(results: &Results, group: &[usize]) -> Option<String> {
    let tied = || group.iter().map(|index| &results.cells[*index]).filter(|cell| cell.tied_best);
    let best = tied().max_by(|a, b| a.requests_per_second.median.total_cmp(&b.requests_per_second.median))?;
    let others: Vec<_> =
        tied().filter(|cell| cell.key != best.key).map(|cell| cell.key.target.as_str()).collect();
    let (at, name) = (Condition(&best.key), &best.key.target);
    let rate = format!("{} requests per second", number(best.requests_per_second.median));
    Some(match (others.as_slice(), group.len()) {
        (_, 1) => format!("At {at}: {name} answers {rate}."),
        ([], _) => format!("At {at}: {name} is fastest with {rate}."),
        (others, _) => {
            format!("At {at}: {name} leads with {rate}; {} cannot be told from it.", others.join(" and "))
        }
    })
}
