//! What a plan must keep beyond its types, each rule with the message of who breaks it.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::{Component, Path};

use super::explain::{Problem, did_you_mean};
use super::{Plan, Target};

/// Words in braces that are filled in.
const WORDS: [&str; 4] = ["port", "root", "dir", "bin_dir"];

/// Most points of a grid, and most runs of an experiment: a second each would take a week and a half.
const MOST_CELLS: u64 = 100_000;
const MOST_RUNS: u64 = 1_000_000;

/// Most threads of a load.
const MOST_THREADS: u32 = 1024;

/// Most bytes of all files that are made for an experiment, 10 GiB.
const MOST_BYTES: usize = 10 << 30;

/// Every rule that holds for the full plan and for its quick form.
pub(super) fn all(plan: &Plan) -> Result<(), Problem> {
    factors(plan)?;
    own_factors(plan)?;
    load(plan)?;
    files(plan)?;
    let mut names = BTreeSet::new();
    for (index, target) in plan.targets.iter().enumerate() {
        if !names.insert(&target.name) {
            let text = format!("two targets are called {:?}: give each its own name", target.name);
            return Err(Problem::at(&format!("target.{index}.name"), text));
        }
        check_target(plan, target).map_err(|text| Problem::at(&format!("target.{index}"), text))?;
    }
    size(plan)?;
    if plan.cells().is_empty() {
        return Err(Problem::at("without", "every cell is left out"));
    }
    super::load::check(plan)?;
    super::beside::check(plan)?;
    super::search::check(plan)?;
    super::stop::check(plan)
}

/// Whether there are so few cells and runs that they can be made at all.
fn size(plan: &Plan) -> Result<(), Problem> {
    let cells = plan.count_cells();
    if cells > MOST_CELLS {
        let key = if plan.factors.is_empty() { "connections" } else { "factor" };
        let text =
            format!("the grid has {cells} cells: {MOST_CELLS} at most, so leave levels of factors out");
        return Err(Problem::at(key, text));
    }
    let further = plan.stop.most_rounds.filter(|most| *most > plan.rounds);
    let (key, rounds) = further.map_or(("rounds", plan.rounds), |most| ("stop.most_rounds", most));
    match cells * u64::from(rounds) {
        ..=MOST_RUNS => Ok(()),
        runs => {
            let text = format!("{cells} cells in {rounds} rounds are {runs} runs: {MOST_RUNS} at most");
            Err(Problem::at(key, text))
        }
    }
}

fn factors(plan: &Plan) -> Result<(), Problem> {
    filled("target", &plan.targets)?;
    if plan.search.is_none() {
        filled("connections", &plan.connections)?;
    }
    filled("paths", &plan.paths)?;
    filled("close", &plan.close)?;
    // A value given twice would count the same cell twice.
    once("connections", &plan.connections)?;
    once("paths", &plan.paths)?;
    once("close", &plan.close)?;
    if plan.connections.contains(&0) {
        return Err(Problem::at("connections", "connections must be at least 1"));
    }
    match plan.paths.iter().find(|path| !path.starts_with('/')) {
        Some(path) => Err(Problem::at("paths", format!("path {path:?}: must begin with /"))),
        None => Ok(()),
    }
}

/// Factors that the plan makes up.
fn own_factors(plan: &Plan) -> Result<(), Problem> {
    for (name, levels) in &plan.factors {
        let key = format!("factor.{name}");
        if name.is_empty()
            || WORDS.contains(&name.as_str())
            || in_braces(&format!("{{{name}}}")).next().is_none()
        {
            let text =
                format!("factor {name:?}: a name is small letters and _, and none of {}", WORDS.join(", "));
            return Err(Problem::at(&key, text));
        }
        filled(&key, levels)?;
        let texts: Vec<String> = levels.iter().map(ToString::to_string).collect();
        once(&key, &texts)?;
        let named = format!("{{{name}}}");
        let targets = plan.targets.iter().flat_map(Target::texts);
        let paths = plan.paths.iter().map(String::as_str);
        let load = plan.load_texts().map(String::as_str);
        if !targets.chain(paths).chain(load).any(|text| text.contains(&named)) {
            let text =
                format!("factor {name:?} has no effect: write {named} into a target, a path or the load");
            return Err(Problem::at(&key, text));
        }
    }
    for name in &plan.conditions {
        plan.levels_of(name).map_err(|why| Problem::at("conditions", why))?;
    }
    let mut words = plan.paths.iter().chain(plan.load_texts()).flat_map(|text| in_braces(text));
    match words.find(|word| !plan.factors.contains_key(*word)) {
        Some(word) => {
            let hint = did_you_mean(word, plan.factors.keys());
            Err(Problem::at("paths", format!("{{{word}}} in a path or the load is no factor{hint}")))
        }
        None => Ok(()),
    }
}

fn filled<T>(name: &str, values: &[T]) -> Result<(), Problem> {
    if values.is_empty() {
        return Err(Problem::at(
            name,
            format!("{name} is empty, so there is nothing to run: give at least one"),
        ));
    }
    Ok(())
}

fn once<T: Ord + Debug>(name: &str, values: &[T]) -> Result<(), Problem> {
    let mut seen = BTreeSet::new();
    match values.iter().find(|value| !seen.insert(*value)) {
        Some(value) => Err(Problem::at(name, format!("{name} has {value:?} twice"))),
        None => Ok(()),
    }
}

fn load(plan: &Plan) -> Result<(), Problem> {
    for (name, value) in [("rounds", plan.rounds), ("threads", plan.threads)] {
        if value == 0 {
            return Err(Problem::at(name, format!("{name} must be at least 1")));
        }
    }
    if plan.threads > MOST_THREADS {
        return Err(Problem::at("threads", format!("threads must be at most {MOST_THREADS}")));
    }
    for (name, value, least) in [("duration_s", plan.duration_s, 0.05), ("warmup_s", plan.warmup_s, 0.0)] {
        if !(least..=86_400.0).contains(&value) {
            return Err(Problem::at(name, format!("{name} must be {least} to 86400 seconds, not {value}")));
        }
    }
    Ok(())
}

fn files(plan: &Plan) -> Result<(), Problem> {
    if !plan.files.is_empty() && plan.root.is_some() {
        return Err(Problem::at("root", "give either a root or files that are made, not both"));
    }
    let mut bytes = 0_usize;
    for (index, file) in plan.files.iter().enumerate() {
        bytes = bytes.saturating_add(file.bytes);
        if bytes > MOST_BYTES {
            let text =
                format!("file {:?}: all files together may have {MOST_BYTES} bytes at most", file.path);
            return Err(Problem::at(&format!("file.{index}.bytes"), text));
        }
        if !stays_below(&file.path) {
            let text = format!("file {:?}: must be a path below the root, such as \"a/b.html\"", file.path);
            return Err(Problem::at(&format!("file.{index}.path"), text));
        }
    }
    Ok(())
}

fn check_target(plan: &Plan, target: &Target) -> Result<(), String> {
    let name = &target.name;
    // The name becomes part of the names of files.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+ ".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(format!("target {name:?}: a name is letters, digits, spaces, - _ + and inner dots"));
    }
    if target.model.is_some() != target.command.is_empty() {
        return Err(format!("target {name:?}: give either a model or a command"));
    }
    if target.model.is_none() && !target.args.is_empty() {
        return Err(format!("target {name:?}: args go with a model; write them into the command"));
    }
    if let Some(file) =
        target.config.keys().find(|file| Path::new(file).components().count() != 1 || !stays_below(file))
    {
        return Err(format!(
            "target {name:?}: config {file:?} must be the name of a file, without a directory"
        ));
    }
    let texts = target.command.iter().chain(&target.args).chain(&target.model);
    let mut words = texts.flat_map(|text| in_braces(text));
    match words.find(|word| !WORDS.contains(word) && !plan.factors.contains_key(*word)) {
        Some(word) => {
            Err(format!("target {name:?}: nothing is known to fill in for {{{word}}}{}", meant(word)))
        }
        None => Ok(()),
    }
}

fn meant(word: &str) -> String {
    match did_you_mean(word, WORDS) {
        meant if meant.is_empty() => format!("; known are {{{}}}", WORDS.join("}, {")),
        meant => meant,
    }
}

/// Whether a path leads nowhere but below the directory it starts from.
fn stays_below(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// Names in braces: `{name}`.
fn in_braces(text: &str) -> impl Iterator<Item = &str> {
    let inside = text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    inside.filter(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
}

/// The rules of budgets. They hold for the full plan only: the quick form may lack the cells of a budget.
pub(super) fn budgets(plan: &Plan) -> Result<(), Problem> {
    for (index, budget) in plan.budgets.iter().enumerate() {
        let refuse = |key: &str, text: String| Err(Problem::at(&format!("budget.{index}{key}"), text));
        for (key, name) in [(".target", &budget.target), (".against", &budget.against)] {
            if plan.target(name).is_none() {
                let hint = did_you_mean(name, plan.targets.iter().map(|target| &target.name));
                return refuse(key, format!("a budget names the target {name:?}, which is not there{hint}"));
            }
        }
        if budget.target == budget.against {
            return refuse(".against", format!("a budget compares {:?} with itself", budget.target));
        }
        let bounds = [budget.at_most, budget.at_least];
        if bounds.iter().all(Option::is_none) {
            return refuse("", format!("the budget of {:?} has neither at_most nor at_least", budget.target));
        }
        if bounds.iter().flatten().any(|bound| !bound.is_finite() || *bound < 0.0) {
            return refuse("", format!("the budget of {:?} must have bounds of 0 or more", budget.target));
        }
        if let Some(why) = budget.metric.is_missing_in(plan) {
            return refuse(".metric", why.into());
        }
        if let Some(close) = budget.close.filter(|wanted| !plan.close.contains(wanted)) {
            return refuse(".close", format!("a budget is for close = {close}, which no cell has"));
        }
        if let Some(connections) = budget.connections.filter(|wanted| !plan.connections.contains(wanted)) {
            return refuse(
                ".connections",
                format!("a budget is for {connections} connections, which no cell has"),
            );
        }
    }
    Ok(())
}
