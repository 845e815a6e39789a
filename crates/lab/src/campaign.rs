//! All runs of an experiment, one after the other, each kept as soon as it is made.

#[cfg(test)]
mod gone_on_with;

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

use load::{Switch, Verdict};

use crate::error::Error;
use crate::gates::judge_run;
use crate::key::CellKey;
use crate::order::{self, Next, Search};
use crate::plan::Plan;
use crate::results::{Measured, Results, Run};
use crate::store::{Kept, Store};
use crate::summary::summarise;

/// Measures one run of a cell: its number, which no other run of the experiment has, and its round.
pub(crate) type Measure<'a> = dyn FnMut(usize, u32, &CellKey) -> Result<Measured, String> + 'a;

/// One part of so many of the time may go into writing down what is known so far.
const KEEPING: u32 = 20;

/// What can be said while an experiment runs.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Runs that are over.
    pub done: usize,
    /// Runs in all.
    pub total: usize,
    /// The run under way, in words.
    pub cell: String,
    /// About how long the rest takes.
    pub left: Duration,
}

/// All runs of an experiment.
pub(crate) struct Campaign<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) store: &'a Store,
    pub(crate) cancel: &'a Switch,
    /// Look only so long, where the answer is.
    pub(crate) budget: Option<Duration>,
}

impl Campaign<'_> {
    /// Makes all runs but those that were made before, and keeps each of them. What failed before is made again: what was missing
    /// may be there by now.
    pub(crate) fn run(
        &self,
        mut results: Results,
        mut before: Kept,
        observer: &mut dyn FnMut(&Progress),
        measure: &mut Measure<'_>,
    ) -> Result<Results, Error> {
        let start = Instant::now();
        results.runs = mem::take(&mut before.runs).into_iter().map(|(_, run)| run).collect();
        let mut fixed = self.left_of_rounds(&results.runs);
        let mut search = self.budget.map(|budget| Search::new(self.plan, budget));
        let first = results.runs.len();
        // Where it is killed, what began it is known all the same.
        self.sum_up(&mut results)?;
        let mut keep_at = start;
        // What claims compare is run for as long as there is time.
        let most = if self.plan.claims.is_empty() { results.planned_runs } else { u32::MAX };
        loop {
            if fixed.is_empty() && search.is_none() {
                fixed = order::further(self.plan, &results.runs).into();
                results.planned_runs = results.planned_runs.max((results.runs.len() + fixed.len()) as u32);
            }
            let next = match &mut search {
                Some(search) => search.next(&results.runs),
                None => fixed.pop_front(),
            };
            let Some((round, position, cell)) = next else { break };
            let done = results.runs.len();
            if let Some(allowed) = self.allowed(start, done - first) {
                results.planned_runs = (done as u32).saturating_add(allowed).min(most);
            }
            let total = results.planned_runs as usize;
            let left = self.left(start, done - first, total.saturating_sub(done));
            observer(&Progress { done, total, cell: cell.to_string(), left });
            let measured = if self.cancel.is_set() {
                Err("interrupted".into())
            } else {
                measure(before.next, round, &cell)
            };
            if self.cancel.is_set() {
                // A run that was cut short measures something else than the others.
                break;
            }
            let run = judged(measured, Run { cell, round, position, ..Run::default() });
            self.keep(&mut before, &run)?;
            results.runs.push(run);
            if Instant::now() >= keep_at {
                let begun = Instant::now();
                self.sum_up(&mut results)?;
                keep_at = Instant::now() + begun.elapsed() * KEEPING;
            }
        }
        if search.is_some() && !self.cancel.is_set() {
            results.planned_runs = results.runs.len() as u32;
        }
        self.sum_up(&mut results)?;
        self.store.keep_reports(&results)?;
        Ok(results)
    }

    /// The runs of all rounds that were not made yet.
    fn left_of_rounds(&self, runs: &[Run]) -> VecDeque<Next> {
        let is_made =
            |(round, _, cell): &Next| runs.iter().any(|run| run.round == *round && run.cell == *cell);
        order::rounds(self.plan).into_iter().filter(|next| !is_made(next)).collect()
    }

    /// Keeps a run, whole in a file of its own: a lab that is killed loses the run under way, and no more.
    fn keep(&self, before: &mut Kept, run: &Run) -> Result<(), Error> {
        self.store.keep_run(before.next, run)?;
        before.next += 1;
        let failed = before.take_failed(run.round, &run.cell);
        failed.map_or(Ok(()), |(number, failed)| self.store.replaced(number, &failed))
    }

    /// Keeps what all runs so far come to.
    fn sum_up(&self, results: &mut Results) -> Result<(), Error> {
        summarise(results, self.plan);
        self.store.keep(results)
    }

    /// About how many more runs a budget allows, at least one; `None` where there is none.
    fn allowed(&self, start: Instant, made: usize) -> Option<u32> {
        let left = self.budget?.saturating_sub(start.elapsed());
        Some((left.as_secs_f64() / self.each_s(start, made)).ceil().max(1.0) as u32)
    }

    /// About how long the rest takes.
    fn left(&self, start: Instant, made: usize, to_make: usize) -> Duration {
        match self.budget {
            Some(budget) => budget.saturating_sub(start.elapsed()),
            None => Duration::from_secs_f64(self.each_s(start, made) * to_make as f64),
        }
    }

    /// About how long a run takes, in seconds: as long as those that were made so far.
    fn each_s(&self, start: Instant, made: usize) -> f64 {
        match made {
            0 => self.plan.estimate_of_run_s(),
            made => start.elapsed().as_secs_f64() / made as f64,
        }
    }
}

/// A run as it is kept: judged, or with the reason why there are no figures.
pub(crate) fn judged(measured: Result<Measured, String>, run: Run) -> Run {
    match measured {
        Ok(measured) => {
            let verdict = judge_run(&measured);
            let Measured { outcome, server, beside, search } = measured;
            Run { outcome: Some(outcome), server: Some(server), beside, search, verdict, ..run }
        }
        Err(why) => Run { verdict: Verdict::Invalid(vec![why.clone()]), failure: Some(why), ..run },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use load::Outcome;
    use load::sample::ServerUse;

    use super::*;
    use crate::fake;

    pub(super) const PLAN: &str = r#"
        title = "t"
        connections = [1, 10, 100]
        paths = ["/"]
        duration_s = 1
        seed = 7
        [[target]]
        name = "a"
        model = "reactor"
        [[target]]
        name = "b"
        model = "reactor"
        [[budget]]
        target = "a"
        against = "b"
        metric = "requests_per_second"
        at_least = 1.5
    "#;

    /// A surface that every test can compute: a rises with connections, b stays at 1000.
    pub(super) fn surface(key: &CellKey) -> (Outcome, ServerUse) {
        let rate = if key.target == "a" { 1_000.0 + 100.0 * f64::from(key.connections) } else { 1_000.0 };
        fake::measured(key, rate, 10.0)
    }

    pub(super) fn campaign<'a>(plan: &'a Plan, store: &'a Store, cancel: &'a Switch) -> Campaign<'a> {
        Campaign { plan, store, cancel, budget: None }
    }

    /// Runs the plan over a measurement that is made up; gives the results and the directory.
    fn run_over(measure: &mut Measure<'_>, cancel: &Switch) -> (Results, tempfile::TempDir) {
        let plan = Plan::parse(PLAN, "x.toml").unwrap();
        let out = tempfile::tempdir().unwrap();
        let store = Store::create(&out.path().join("x"), PLAN).unwrap();
        let mut results = fake::results(&[], 0, |_, _| (0.0, 0.0));
        (results.rounds, results.planned_runs) = (plan.rounds, 18);
        (campaign(&plan, &store, cancel).run(results, Kept::default(), &mut |_| {}, measure).unwrap(), out)
    }

    fn stored(out: &tempfile::TempDir) -> Results {
        serde_json::from_slice(&fs::read(out.path().join("x/results.json")).unwrap()).unwrap()
    }

    #[test]
    fn every_round_has_every_cell_in_an_order_of_its_own_that_the_seed_decides() {
        let plan = Plan::parse(PLAN, "x.toml").unwrap();
        let all = order::rounds(&plan);
        assert_eq!(all.len(), 18);
        let round = |n: u32| all.iter().filter(|run| run.0 == n).map(|run| run.2.clone()).collect::<Vec<_>>();
        assert_ne!(round(0), round(1));
        for n in 0..3 {
            let (mut shuffled, mut cells) = (round(n), plan.cells());
            shuffled.sort();
            cells.sort();
            assert_eq!(shuffled, cells);
        }
        assert_eq!(all, order::rounds(&plan));
        assert_ne!(all, order::rounds(&Plan { seed: 100, ..plan.clone() }));
        // Part of the format: a stored seed gives the same order in every version.
        let first: Vec<String> =
            all.iter().take(3).map(|run| format!("{} {}", run.2.target, run.2.connections)).collect();
        assert_eq!(first, ["a 1", "b 10", "b 100"]);
    }

    #[test]
    fn a_known_surface_comes_out_as_it_is() {
        let (results, out) = run_over(&mut |_, _, key| Ok(surface(key).into()), &Switch::default());
        assert_eq!((results.runs.len(), results.cells.len()), (18, 6));
        for cell in &results.cells {
            let expected = surface(&cell.key).0.requests_per_second;
            assert_eq!(cell.requests_per_second.median, expected);
            assert_eq!(cell.tied_best, cell.key.target == "a", "{}", cell.key);
        }
        let met: Vec<bool> = results.budgets.iter().map(|budget| budget.met).collect();
        assert_eq!(met, [false, true, true]);
        assert_eq!(results.verdict, Verdict::Valid);
        let directory = out.path().join("x");
        for file in ["plan.toml", "results.json", "cells.csv", "summary.md", "report.html"] {
            assert!(directory.join(file).exists(), "{file}");
        }
        assert_eq!(fs::read_dir(directory.join("runs")).unwrap().count(), 18);
    }

    #[test]
    fn a_run_that_fails_is_told_and_the_others_go_on() {
        let mut measure = |_, _, key: &CellKey| match (key.target.as_str(), key.connections) {
            ("b", 100) => Err("the server ended (signal: 9)".to_string()),
            _ => Ok(surface(key).into()),
        };
        let (results, _out) = run_over(&mut measure, &Switch::default());
        assert_eq!((results.runs.len(), results.cells.len()), (18, 5));
        let failed: Vec<_> = results.runs.iter().filter(|run| run.failure.is_some()).collect();
        assert_eq!(failed.len(), 3);
        assert_eq!(failed[0].verdict, Verdict::Invalid(vec!["the server ended (signal: 9)".into()]));
        let why = "3 of 18 runs failed, such as b at 100 connections, /: the server ended (signal: 9)";
        assert_eq!(results.verdict, Verdict::Suspect(vec![why.into()]));
        assert!(!results.budgets[2].met);
    }

    #[test]
    fn time_that_is_left_goes_to_claims_whatever_they_say_by_then() {
        let claim = |bound: &str| {
            let sides =
                "left = { target = \"a\", connections = 1 }\nright = { target = \"b\", connections = 1 }";
            let text = format!("{PLAN}\n[[claim]]\ntext = \"a is faster\"\n{sides}\nat_least = {bound}\n");
            Plan::parse(&text, "x.toml").unwrap()
        };
        let looks = |bound: &str| {
            let (plan, out, cancel) = (claim(bound), tempfile::tempdir().unwrap(), Switch::default());
            let store = Store::create(&out.path().join("x"), "").unwrap();
            // From round to round between as fast and a fifth faster.
            let mut measure = |number: usize, round: u32, key: &CellKey| {
                if number == 28 {
                    cancel.set();
                }
                Ok(fake::measured(key, 1_000.0 * (1.0 + 0.2 * f64::from(round % 2)), 10.0).into())
            };
            let results = fake::results(&[], 0, |_, _| (0.0, 0.0));
            let campaign =
                Campaign { budget: Some(Duration::from_secs(3600)), ..campaign(&plan, &store, &cancel) };
            let results = campaign.run(results, Kept::default(), &mut |_| {}, &mut measure).unwrap();
            let compared = results.runs.iter().filter(|run| run.cell.connections == 1).count();
            (results.runs.len(), compared)
        };
        // Undecided, and reproduced.
        for bound in ["1.05", "0.5"] {
            let (all, compared) = looks(bound);
            assert!(all == 28 && compared > 12, "{compared} of {all}");
        }
    }

    #[test]
    fn further_rounds_count_as_planned_once_they_are_known() {
        let stop = "[stop]\nwithin = \"3%\"\nmost_rounds = 5\n";
        let plan = fake::plan(&["a", "b"], stop);
        let (out, cancel) = (tempfile::tempdir().unwrap(), Switch::default());
        let store = Store::create(&out.path().join("x"), "").unwrap();
        let mut measure = |_: usize, round: u32, key: &CellKey| {
            let spread = if key.target == "a" { 0.1 } else { 0.0 };
            Ok(fake::measured(key, 1_000.0 * (1.0 + spread * f64::from(round % 2)), 10.0).into())
        };
        let results = Results { planned_runs: 6, rounds: 3, ..fake::results(&[], 0, |_, _| (0.0, 0.0)) };
        let mut told = Vec::new();
        let mut observer = |progress: &Progress| told.push(progress.total);
        let results = campaign(&plan, &store, &cancel)
            .run(results, Kept::default(), &mut observer, &mut measure)
            .unwrap();
        assert_eq!((results.runs.len(), results.planned_runs, results.cells[0].rounds), (8, 8, 5));
        assert_eq!(told, [6, 6, 6, 6, 6, 6, 7, 8]);
    }

    #[test]
    fn an_interrupted_experiment_keeps_what_was_measured_and_says_so() {
        let cancel = Switch::default();
        let mut measure = |number, _, key: &CellKey| {
            if number == 4 {
                cancel.set();
            }
            Ok(surface(key).into())
        };
        let (results, out) = run_over(&mut measure, &cancel);
        assert_eq!((results.runs.len(), stored(&out).runs.len()), (4, 4));
        assert_eq!(
            results.verdict.reasons()[0],
            "it was interrupted after 4 of 18 runs: some cells were not measured in every round"
        );
        assert!(out.path().join("x/report.html").exists());
    }

    #[test]
    fn a_budget_plans_as_many_runs_as_it_has_time_for() {
        let (plan, out) = (Plan::parse(PLAN, "x.toml").unwrap(), tempfile::tempdir().unwrap());
        let store = Store::create(&out.path().join("x"), PLAN).unwrap();
        let cancel = Switch::default();
        let mut measure = |_: usize, _: u32, key: &CellKey| {
            cancel.set();
            Ok(surface(key).into())
        };
        // A run is estimated at 1.4 s.
        let budget = Some(Duration::from_secs(14));
        let results = Results { planned_runs: 18, ..fake::results(&[], 0, |_, _| (0.0, 0.0)) };
        let mut told = Vec::new();
        let mut observer = |progress: &Progress| told.push((progress.done, progress.total));
        let results = Campaign { budget, ..campaign(&plan, &store, &cancel) }
            .run(results, Kept::default(), &mut observer, &mut measure)
            .unwrap();
        assert_eq!((told, results.planned_runs), (vec![(0, 10)], 10));
        let reasons = results.verdict.reasons();
        assert!(
            reasons.iter().any(|why| why.starts_with("it was interrupted after 0 of 10 runs")),
            "{reasons:?}"
        );
    }

    #[test]
    fn progress_counts_and_the_rest_is_estimated_from_the_plan_at_first() {
        let (mut told, out) = (Vec::new(), tempfile::tempdir().unwrap());
        let plan = Plan::parse(PLAN, "x.toml").unwrap();
        let store = Store::create(&out.path().join("x"), PLAN).unwrap();
        let results = fake::results(&[], 0, |_, _| (0.0, 0.0));
        let mut observer = |progress: &Progress| told.push((progress.done, progress.total, progress.left));
        let mut measure = |_: usize, _: u32, key: &CellKey| Ok(surface(key).into());
        let results = Results { planned_runs: 18, ..results };
        let cancel = Switch::default();
        campaign(&plan, &store, &cancel).run(results, Kept::default(), &mut observer, &mut measure).unwrap();
        assert_eq!((told.len(), told[0].0, told[17].0, told[0].1), (18, 0, 17, 18));
        assert!((told[0].2.as_secs_f64() - plan.estimate_s()).abs() < 1e-6 && told[17].2 < told[0].2);
    }
}
