//! The best settings of a server for this host and its work: an experiment over its topologies with a time budget, and the
//! choice that comes of it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::campaign::Progress;
use crate::error::Error;
use crate::report::{interval, number};
use crate::results::{Cell, Results, fastest};
use crate::run::{Options, Summary, run};

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
    /// The experiment.
    pub summary: Summary,
}

/// Most workers that are tried, where work waits.
const MOST_WORKERS: usize = 256;

/// Fewest looks at a setting for an interval.
const FEWEST: u32 = 3;

/// Seconds of load in a run: enough for a rate, few enough for a search.
const EACH_S: f64 = 1.0;

/// Runs the experiment and chooses; `options` are those of any experiment, with a plan and a budget that do not matter.
///
/// # Errors
/// As [`run`]; or nothing could be measured.
pub fn tune(wanted: &Wanted, options: &Options, observer: &mut dyn FnMut(&Progress)) -> Result<Tuned, Error> {
    let options = Options {
        name: "tune".into(),
        plan: plan(wanted, options.root.is_none()),
        quick: false,
        budget: Some(wanted.budget),
        ..options.clone()
    };
    let summary = run(&options, observer)?;
    let Some((settings, why)) = choose(&summary.results) else {
        let problem = "nothing could be measured; the report says why".into();
        return Err(Error::Plan { file: options.out.display().to_string(), problem });
    };
    Ok(Tuned { settings, why, summary })
}

/// The experiment, as a file that anybody can read and change.
fn plan(wanted: &Wanted, make_file: bool) -> String {
    let Wanted { work, path, connections, close, cores, .. } = wanted;
    let path = toml::Value::from(path.as_str());
    let waits = work.as_ref().is_some_and(|(_, mode)| mode == "sleep");
    let reactors: Vec<String> = doubling(*cores * 2).map(|count| count.to_string()).collect();
    let most = if waits { MOST_WORKERS } else { *cores * 4 };
    let workers: Vec<String> = doubling(most).map(|count| count.to_string()).collect();
    let (reactors, workers) = (reactors.join(", "), workers.join(", "));
    let base: Vec<String> = match work {
        Some((time, mode)) => ["--work", time, "--work-mode", mode].map(String::from).into(),
        None => Vec::new(),
    };
    let mut text = format!(
        "title = \"The best settings for this host and its work\"\n\
         question = \"Which topology answers the most requests?\"\n\
         paths = [{path}]\nconnections = [{connections}]\nclose = [{close}]\nrounds = 5\nduration_s = {EACH_S}\n\
         warmup_s = 0.2\nthreads = 1\nseed = 1\n\n[factor]\nreactors = [{reactors}]\nworkers = [{workers}]\n"
    );
    if make_file {
        let file = wanted.path.trim_start_matches('/').split('?').next().unwrap_or_default();
        let file = toml::Value::from(if file.is_empty() { "index.html" } else { file });
        text += &format!("\n[[file]]\npath = {file}\nbytes = 1024\n");
    }
    let models: [(&str, &[&str]); 8] = [
        ("thread-pool", &["workers"]),
        ("reactor", &[]),
        ("reactor-pool", &["workers"]),
        ("multi-reactor", &["reactors"]),
        ("multi-reactor-pool", &["reactors", "workers"]),
        ("reuseport", &["reactors"]),
        ("reuseport-pool", &["reactors", "workers"]),
        ("proactor", &["reactors"]),
    ];
    for (model, factors) in models {
        let mut args = base.clone();
        args.extend(factors.iter().flat_map(|factor| [format!("--{factor}"), format!("{{{factor}}}")]));
        text += &format!("\n[[target]]\nname = \"{model}\"\nmodel = \"{model}\"\nargs = {args:?}\n");
    }
    text
}

/// 1, 2, 4 and so on, up to a number.
fn doubling(most: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1), |count| Some(count * 2)).take_while(move |count| *count <= most)
}

/// The fastest setting and those that cannot be told from it, as far as they were looked at as often as any of them. One look
/// says little, and tells nothing apart: settings that were looked at again and reach the fastest come first.
fn candidates(results: &Results) -> Option<Vec<&Cell>> {
    let leader = fastest(&results.cells)?;
    let rate = leader.requests_per_second;
    let is_near = |cell: &&Cell| {
        let reaches =
            |high: f64| if rate.interval().is_some() { cell.tied_best } else { high >= rate.median };
        cell.requests_per_second.high.is_some_and(reaches)
    };
    let near: Vec<&Cell> = results.cells.iter().filter(is_near).collect();
    let Some(most) = near.iter().map(|cell| cell.rounds).max() else { return Some(vec![leader]) };
    Some(near.into_iter().filter(|cell| cell.rounds == most).collect())
}

/// The cheapest of the settings that are fastest or cannot be told from it, and why.
fn choose(results: &Results) -> Option<(BTreeMap<String, String>, String)> {
    let cost = |cell: &&Cell| cell.server_cpu_us_per_request.map_or(f64::MAX, |cost| cost.median);
    let tied = candidates(results)?;
    let best = *tied.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    let mut settings = best.key.setting.clone();
    settings.insert("model".into(), best.key.target.clone());
    let rate = best.requests_per_second;
    let cheapest = match tied.len() {
        1 if best.rounds == 1 => "it was the fastest in the one look at it".into(),
        1 => "no other setting comes as near that its interval reaches it".into(),
        count => format!(
            "of {count} settings that cannot be told from the fastest it takes the least processor time, {} us per request",
            number(cost(&best))
        ),
    };
    let next = fastest(results.cells.iter().filter(|cell| cell.key.target != best.key.target));
    let beside = next.map_or(String::new(), |next| {
        let ratio = rate.median / next.requests_per_second.median;
        format!("; the best of another model, {}, answers {:.2} x as many", next.key.contender(), 1.0 / ratio)
    });
    let doubt = match best.rounds {
        ..FEWEST => " It was looked at too few times for an interval: give the search a larger --budget.",
        _ => "",
    };
    let why = format!(
        "{} answers {} requests per second [{}]{beside}. It was chosen because {cheapest}.{doubt}",
        best.key.contender(),
        number(rate.median),
        interval(&rate, " to "),
    );
    Some((settings, why))
}

/// Settings as a file that `plimsoll serve --config` takes, with the reasons on top.
pub fn config(tuned: &Tuned, wanted: &Wanted, command: &str) -> String {
    let mut text = format!("# Written by `{command}`, {}.\n", tuned.summary.results.started);
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
    use super::*;
    use crate::fake;
    use crate::plan::Plan;
    use crate::summary::summarise;

    fn wanted(mode: &str) -> Wanted {
        Wanted {
            work: Some(("200us".into(), mode.into())),
            path: "/".into(),
            connections: 64,
            close: false,
            budget: Duration::from_secs(60),
            cores: 2,
        }
    }

    #[test]
    fn the_plan_is_sound_and_sleeping_work_gets_more_workers() {
        let workers = |mode: &str| {
            let plan = Plan::parse(&plan(&wanted(mode), true), "tune").unwrap();
            assert_eq!(plan.targets.len(), 8);
            plan.factors["workers"].len()
        };
        assert_eq!((workers("sleep"), workers("spin")), (9, 4));
        Plan::parse(&plan(&Wanted { work: None, ..wanted("spin") }, false), "tune").unwrap();
    }

    #[test]
    fn of_those_that_are_tied_the_cheapest_is_chosen() {
        // a and b cannot be told apart, b is cheaper; c is cheapest and slow.
        let surface = |target: &str, round: u32| {
            let noise = f64::from(round) * 10.0;
            match target {
                "a" => (1000.0 + noise, 20.0),
                "b" => (995.0 + noise, 10.0),
                _ => (500.0 + noise, 5.0),
            }
        };
        let mut results = fake::results(&["a", "b", "c"], 3, surface);
        summarise(&mut results, &fake::plan(&["a", "b", "c"], ""));
        let (settings, why) = choose(&results).unwrap();
        assert_eq!(settings["model"], "b");
        assert!(why.contains("of 2 settings that cannot be told from the fastest"), "{why}");
        results.cells.clear();
        assert!(choose(&results).is_none());
    }

    #[test]
    fn of_settings_that_were_looked_at_once_the_fastest_is_chosen_and_not_the_cheapest() {
        let surface = |target: &str, _| if target == "a" { (1000.0, 20.0) } else { (500.0, 5.0) };
        let mut results = fake::results(&["a", "b"], 1, surface);
        let plan = fake::plan(&["a", "b"], "");
        summarise(&mut results, &plan);
        let (settings, why) = choose(&results).unwrap();
        assert_eq!(settings["model"], "a");
        assert!(
            why.contains("1,000 requests per second [n/a]") && why.contains("the one look at it"),
            "{why}"
        );
        // Where one that was looked at again reaches it, that comes first.
        let choice = |near: f64| {
            let mut results = results.clone();
            let again = fake::results(&["b"], 3, |_, round| (near + f64::from(round), 5.0)).runs;
            results.runs.retain(|run| run.cell.target == "a");
            results.runs.extend(again);
            summarise(&mut results, &plan);
            choose(&results).unwrap().0["model"].clone()
        };
        assert_eq!([choice(500.0), choice(999.0)], ["a", "b"]);
    }
}
