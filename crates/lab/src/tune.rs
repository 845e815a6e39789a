//! The best settings of a server for this host and its work: a search over its topologies with a time budget, the best of
//! them once more side by side, and the choice that comes of it.

mod choice;
mod plan;

use std::collections::BTreeMap;
use std::time::Duration;

use load::Switch;

use crate::campaign::Progress;
use crate::error::Error;
use crate::run::{Options, Summary, run};

use self::plan::Rounds;

/// What is to be tuned.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What each request does beside its answer: `--work` and `--work-mode` of the server.
    pub work: Option<(String, String)>,
    /// The path that is requested.
    pub path: String,
    /// Connections of the load.
    pub connections: u32,
    /// A connection per request.
    pub close: bool,
    /// How long it may take.
    pub budget: Duration,
    /// Cores that the server may use.
    pub cores: usize,
}

/// What came of it.
#[derive(Debug)]
pub struct Tuned {
    /// The settings, by the name of their flag.
    pub settings: BTreeMap<String, String>,
    /// Why these, in two sentences.
    pub why: String,
    /// The search.
    pub search: Summary,
    /// The best of the search side by side; `None` where there was no time for that, or nothing to choose from.
    pub validation: Option<Summary>,
}

/// An experiment: its plan, how long it may look where the answer is (all of its rounds if nothing is said), and a directory of its
/// own beneath that of the results, where it is not the first.
type Experiment<'a> = dyn FnMut(String, Option<Duration>, Option<&str>) -> Result<Summary, Error> + 'a;

/// Searches, validates and chooses; `options` are those of any experiment, with a plan and a budget that do not matter.
///
/// # Errors
/// As [`run`]; nothing could be measured; or it was cancelled, since what is best of a part of the settings is not what was asked
/// for.
pub fn tune(wanted: &Wanted, options: &Options, observer: &mut dyn FnMut(&Progress)) -> Result<Tuned, Error> {
    let mut experiment = |plan: String, budget: Option<Duration>, directory: Option<&str>| {
        let out = directory.map_or(options.out.clone(), |name| options.out.join(name));
        let name = "tune".into();
        run(&Options { name, plan, quick: false, budget, out, ..options.clone() }, observer)
    };
    let tuned = tune_by(wanted, options.root.is_none(), &options.cancel, &mut experiment)?;
    tuned.ok_or_else(|| {
        let problem = "nothing could be measured; the report says why".into();
        Error::Plan { file: options.out.display().to_string(), problem }
    })
}

/// The same, with whatever makes the experiments; `None` where nothing could be measured.
fn tune_by(
    wanted: &Wanted,
    make_file: bool,
    cancel: &Switch,
    experiment: &mut Experiment<'_>,
) -> Result<Option<Tuned>, Error> {
    let validation = plan::time_to_validate(wanted.budget);
    let search = plan::search(wanted, make_file);
    let search = experiment(search, Some(wanted.budget.saturating_sub(validation)), None)?;
    if cancel.is_set() {
        return Err(Error::Interrupted(search.report));
    }
    let Some(found) = choice::of_search(&search.results) else { return Ok(None) };
    let finalists = choice::finalists(&search.results);
    let chosen = match Rounds::within(validation, finalists.len()) {
        Some(rounds) => {
            let finalists = &finalists[..rounds.finalists];
            let plan = plan::validation(wanted, make_file, finalists, &rounds);
            let validation = experiment(plan, None, Some("validation"))?;
            if cancel.is_set() {
                return Err(Error::Interrupted(validation.report));
            }
            let chosen = choice::of_validation(&validation.results, finalists);
            (chosen.unwrap_or(found), Some(validation))
        }
        None => (found, None),
    };
    let ((settings, why), validation) = chosen;
    Ok(Some(Tuned { settings, why, search, validation }))
}

/// Settings as a file that `plimsoll serve --config` takes, with the reasons on top.
pub fn config(tuned: &Tuned, wanted: &Wanted, command: &str) -> String {
    let mut text = format!("# Written by `{command}`, {}.\n", tuned.search.results.started);
    for sentence in tuned.why.split_inclusive(". ") {
        text += &format!("# {}\n", sentence.trim());
    }
    for (name, value) in &tuned.settings {
        match value.parse::<i64>() {
            Ok(number) => text += &format!("{name} = {number}\n"),
            Err(_) => text += &format!("{name} = {value:?}\n"),
        }
    }
    if let Some((time, mode)) = &wanted.work {
        text += &format!("# Measured with: work = {time:?}, work-mode = {mode:?}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::fake;
    use crate::key::CellKey;
    use crate::order::{Search, rounds};
    use crate::plan::Plan;
    use crate::results::{Results, Run, fastest};
    use crate::summary::summarise;

    pub(super) fn wanted(mode: &str) -> Wanted {
        Wanted {
            work: Some(("200us".into(), mode.into())),
            path: "/".into(),
            connections: 64,
            close: false,
            budget: Duration::from_secs(240),
            cores: 4,
        }
    }

    /// A server whose capacity is a formula: a hill for each model over the logarithms of its reactors and workers, with its top at 2
    /// reactors and 32 workers.
    fn hill(model: &str, reactors: f64, workers: f64, top: f64) -> f64 {
        let far = |count: f64, from: f64| (count.log2() - from.log2()).powi(2);
        let of_model = match model {
            "reuseport-pool" => top,
            "multi-reactor-pool" => 10_000.0,
            _ => 6_000.0,
        };
        of_model / (1.0 + 0.15 * far(reactors, 2.0) + 0.06 * far(workers, 32.0))
    }

    /// Tunes on such a server. A cell's settings, how often it was looked at before and whether it is validated decide its rate and
    /// cost; a search has time for 120 runs out of the five rounds of 141 cells that there are.
    fn tuned(surface: impl Fn(&CellKey, u32, bool) -> (f64, f64)) -> Tuned {
        let mut experiment = |text: String, budget: Option<Duration>, directory: Option<&str>| {
            let plan = Plan::parse(&text, "tune").unwrap();
            let measure = |cell: CellKey, round: u32| {
                let (rate, cost) = surface(&cell, round, directory.is_some());
                let found = fake::measured(&cell, rate, cost);
                Run { round, ..fake::run(cell, found) }
            };
            let mut results = Results { rounds: plan.rounds, ..fake::results(&[], 0, |_, _| (0.0, 0.0)) };
            match budget {
                Some(_) => {
                    let mut search = Search::new(&plan, Duration::from_secs(3600));
                    while results.runs.len() < 120
                        && let Some((round, _, cell)) = search.next(&results.runs)
                    {
                        results.runs.push(measure(cell, round));
                    }
                }
                None => results
                    .runs
                    .extend(rounds(&plan).into_iter().map(|(round, _, cell)| measure(cell, round))),
            }
            results.planned_runs = results.runs.len() as u32;
            summarise(&mut results, &plan);
            Ok(Summary { results, report: PathBuf::new(), budgets_met: true, losses: Vec::new() })
        };
        tune_by(&wanted("sleep"), true, &Switch::default(), &mut experiment).unwrap().unwrap()
    }

    /// Model, reactors and workers of a cell, in a search or a validation, where the target is all of them.
    fn levels(cell: &CellKey) -> (String, f64, f64) {
        let text = cell.contender();
        let level = |name: &str| {
            let behind = text.split_once(name).map_or("1", |(_, behind)| behind.trim_start());
            behind.split([',', ')', ' ']).next().unwrap().parse::<f64>().unwrap()
        };
        (text.split(' ').next().unwrap().to_owned(), level("reactors"), level("workers"))
    }

    /// What looks like noise, within 1 %, and is the same every time.
    fn noise(cell: &CellKey, round: u32) -> f64 {
        let mix = cell
            .contender()
            .bytes()
            .fold(u64::from(round) + 17, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        0.99 + 0.02 * ((mix >> 3) % 1000) as f64 / 1000.0
    }

    #[test]
    fn the_known_optimum_is_found_and_by_how_much_it_is_that() {
        let tuned = tuned(|cell, round, _| {
            let (model, reactors, workers) = levels(cell);
            (hill(&model, reactors, workers, 12_000.0) * noise(cell, round), 10.0)
        });
        let expected = [("model", "reuseport-pool"), ("reactors", "2"), ("workers", "32")];
        assert_eq!(tuned.settings, expected.map(|(name, level)| (name.into(), level.into())).into());
        let validation = tuned.validation.unwrap().results;
        assert_eq!((validation.cells.len(), validation.runs.len()), (4, 40));
        // The next of them is the same with half or twice as many workers: 6 % less.
        let (_, by) = tuned.why.split_once("It was chosen because it is ").unwrap();
        let by: f64 = by.split(' ').next().unwrap().parse().unwrap();
        assert!(
            (4.0..8.0).contains(&by) && tuned.why.contains(" faster than the next of them, "),
            "{}",
            tuned.why
        );
        assert_eq!(tuned.why.matches(". ").count(), 1, "two sentences: {}", tuned.why);
    }

    #[test]
    fn what_was_only_lucky_in_the_search_is_found_out() {
        let tuned = tuned(|cell, round, validated| {
            let (model, reactors, workers) = levels(cell);
            let rate = hill(&model, reactors, workers, 12_000.0) * noise(cell, round);
            // The top of another model, as if the host had been quiet for it.
            let is_lucky =
                !validated && (model.as_str(), reactors, workers) == ("multi-reactor-pool", 2.0, 32.0);
            (if is_lucky { rate * 1.4 } else { rate }, 10.0)
        });
        let leader = fastest(&tuned.search.results.cells).unwrap();
        assert_eq!(leader.key.target, "multi-reactor-pool");
        assert_eq!(tuned.settings["model"], "reuseport-pool", "{}", tuned.why);
    }

    #[test]
    fn those_that_are_tied_are_named_and_the_cheapest_is_chosen() {
        let tuned = tuned(|cell, round, _| {
            let (model, reactors, workers) = levels(cell);
            let cost = if model == "multi-reactor-pool" { 8.0 } else { 10.0 };
            (hill(&model, reactors, workers, 10_000.0) * noise(cell, round), cost)
        });
        assert_eq!(tuned.settings["model"], "multi-reactor-pool", "{}", tuned.why);
        let part = "It is tied with reuseport-pool reactors 2 workers 32, and was chosen because it takes the least processor \
                    time of them, 8.00 us per request.";
        assert!(tuned.why.contains(part), "{}", tuned.why);
    }

    #[test]
    fn without_time_for_a_validation_the_search_decides_and_says_so() {
        let results = |rounds| {
            let mut results = fake::results(&["a", "b"], rounds, |target, round| {
                (if target == "a" { 1000.0 } else { 500.0 } + f64::from(round), 10.0)
            });
            summarise(&mut results, &fake::plan(&["a", "b"], ""));
            results
        };
        let mut experiment = |_: String, _: Option<Duration>, directory: Option<&str>| {
            assert_eq!(directory, None);
            Ok(Summary { results: results(1), report: PathBuf::new(), budgets_met: true, losses: Vec::new() })
        };
        let short = Wanted { budget: Duration::from_secs(5), ..wanted("sleep") };
        let tuned = tune_by(&short, true, &Switch::default(), &mut experiment).unwrap().unwrap();
        assert!(tuned.validation.is_none() && tuned.why.contains("larger --budget"), "{}", tuned.why);
    }

    #[test]
    fn an_interrupt_chooses_nothing() {
        for last in [None, Some("validation")] {
            let cancel = Switch::default();
            let mut experiment = |text: String, _: Option<Duration>, directory: Option<&str>| {
                let plan = Plan::parse(&text, "tune").unwrap();
                let mut results = fake::results(&[], 0, |_, _| (0.0, 0.0));
                let measured = plan.cells().into_iter().take(4).map(|cell| {
                    let found = fake::measured(&cell, 1_000.0, 10.0);
                    fake::run(cell, found)
                });
                results.runs.extend(measured);
                summarise(&mut results, &plan);
                if directory == last {
                    cancel.set();
                }
                let report = PathBuf::from(directory.unwrap_or("search"));
                Ok(Summary { results, report, budgets_met: true, losses: Vec::new() })
            };
            let error = tune_by(&wanted("sleep"), true, &cancel, &mut experiment).unwrap_err().to_string();
            let said =
                "interrupted: settings are chosen from a whole search only; what was measured so far: ";
            assert_eq!(error, format!("{said}{}", last.unwrap_or("search")));
        }
    }
}
