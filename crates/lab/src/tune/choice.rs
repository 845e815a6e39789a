//! Which settings are looked at once more after a search, and which of them is chosen, with the reasons.

use std::collections::BTreeMap;

use super::plan::MOST_FINALISTS;
use crate::key::Levels;
use crate::report::{interval, number};
use crate::results::{Cell, Results, fastest};

/// Fewest looks at a setting for an interval.
const FEWEST: u32 = 3;

/// Settings by the name of their flag, and why these, in two sentences.
pub(super) type Choice = (BTreeMap<String, String>, String);

/// A setting that is looked at again beside the others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finalist {
    /// What it is called: `reuseport-pool reactors 2 workers 32`.
    pub(super) name: String,
    pub(super) model: String,
    /// Its other flags.
    pub(super) setting: Levels,
}

impl Finalist {
    fn of(cell: &Cell) -> Self {
        let (name, model) = (cell.key.contender().replace(['(', ')', ','], ""), cell.key.target.clone());
        Finalist { name, model, setting: cell.key.setting.clone() }
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let mut settings = self.setting.clone();
        settings.insert("model".into(), self.model.clone());
        settings
    }
}

/// The best settings of a search, what comes first first: the fastest, the one that the search alone would choose, the best of
/// another model, and then the next fastest. That they are the best of many flatters all of them: each was lucky too.
pub(super) fn finalists(results: &Results) -> Vec<Finalist> {
    let mut cells: Vec<&Cell> = results.cells.iter().collect();
    cells.sort_by(|a, b| b.requests_per_second.median.total_cmp(&a.requests_per_second.median));
    let Some(leader) = cells.first() else { return Vec::new() };
    let other = cells.iter().find(|cell| cell.key.target != leader.key.target);
    let first = [Some(*leader), candidates(results).and_then(cheapest), other.copied()];
    let mut finalists: Vec<Finalist> = Vec::new();
    for cell in first.into_iter().flatten().chain(cells.iter().copied()) {
        let finalist = Finalist::of(cell);
        if finalists.len() < MOST_FINALISTS && !finalists.contains(&finalist) {
            finalists.push(finalist);
        }
    }
    finalists
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

fn cost(cell: &Cell) -> f64 {
    cell.server_cpu_us_per_request.map_or(f64::MAX, |cost| cost.median)
}

fn cheapest(cells: Vec<&Cell>) -> Option<&Cell> {
    cells.into_iter().min_by(|a, b| cost(a).total_cmp(&cost(b)))
}

/// The cheapest of the settings that are fastest in a search or cannot be told from it, and why: where there was no time for more.
pub(super) fn of_search(results: &Results) -> Option<Choice> {
    let tied = candidates(results)?;
    let count = tied.len();
    let best = cheapest(tied)?;
    let cheapest = match count {
        1 if best.rounds == 1 => "it was the fastest in the one look at it".into(),
        1 => "no other setting comes as near that its interval reaches it".into(),
        count => format!(
            "of {count} settings that cannot be told from the fastest it takes the least processor time, {} us per request",
            number(cost(best))
        ),
    };
    let next = fastest(results.cells.iter().filter(|cell| cell.key.target != best.key.target));
    let beside = next.map_or(String::new(), |next| {
        let ratio = best.requests_per_second.median / next.requests_per_second.median;
        format!("; the best of another model, {}, answers {:.2} x as many", next.key.contender(), 1.0 / ratio)
    });
    let doubt = match best.rounds {
        ..FEWEST => " It was looked at too few times for an interval: give the search a larger --budget.",
        _ => "",
    };
    let answers = answers(best);
    let why = format!("{answers}{beside}. It was chosen because {cheapest}.{doubt}");
    Some((Finalist::of(best).settings(), why))
}

/// The cheapest of those that are fastest side by side or cannot be told from it, and by how much it is the fastest or with what it
/// is tied. `None` where nothing was measured.
pub(super) fn of_validation(results: &Results, finalists: &[Finalist]) -> Option<Choice> {
    let tied = candidates(results)?;
    let is_alone = tied.len() == 1;
    let best = cheapest(tied)?;
    let chosen = finalists.iter().find(|finalist| finalist.name == best.key.target)?;
    let others = || results.cells.iter().filter(|cell| cell.key != best.key);
    let reason = match fastest(others()) {
        None => "It was chosen because it alone could be measured again".into(),
        // Nothing is tied with it, so that it is the fastest itself.
        Some(next) if is_alone => {
            format!(
                "It was chosen because it is {} than the next of them, {}",
                faster(next)?,
                next.key.target
            )
        }
        Some(_) => {
            let tied = others().filter(|cell| cell.tied_best);
            let names: Vec<&str> = tied.map(|cell| cell.key.target.as_str()).collect();
            format!(
                "It is tied with {}, and was chosen because it takes the least processor time of them, {} us per request",
                names.join(" and "),
                number(cost(best))
            )
        }
    };
    let beside = match finalists.len() - 1 {
        1 => "another".into(),
        count => format!("{count} others"),
    };
    let (answers, rounds) = (answers(best), best.rounds);
    let why = format!(
        "{answers} in {rounds} rounds side by side with {beside} of the best of the search. {reason}."
    );
    Some((chosen.settings(), why))
}

/// By how much the fastest is faster than another, with the interval of that.
fn faster(other: &Cell) -> Option<String> {
    let ratio = other.ratio_to_best?;
    let more = |ratio: f64| format!("{:.1}", (1.0 / ratio - 1.0) * 100.0);
    let interval =
        ratio.interval().map_or(String::new(), |(low, high)| format!(" [{} to {}]", more(high), more(low)));
    Some(format!("{} %{interval} faster", more(ratio.median)))
}

fn answers(cell: &Cell) -> String {
    let rate = &cell.requests_per_second;
    format!(
        "{} answers {} requests per second [{}]",
        cell.key.contender(),
        number(rate.median),
        interval(rate, " to ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::summary::summarise;

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
        let (settings, why) = of_search(&results).unwrap();
        assert_eq!(settings["model"], "b");
        assert!(why.contains("of 2 settings that cannot be told from the fastest"), "{why}");
        results.cells.clear();
        assert!(of_search(&results).is_none());
    }

    #[test]
    fn of_settings_that_were_looked_at_once_the_fastest_is_chosen_and_not_the_cheapest() {
        let surface = |target: &str, _| if target == "a" { (1000.0, 20.0) } else { (500.0, 5.0) };
        let mut results = fake::results(&["a", "b"], 1, surface);
        let plan = fake::plan(&["a", "b"], "");
        summarise(&mut results, &plan);
        let (settings, why) = of_search(&results).unwrap();
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
            of_search(&results).unwrap().0["model"].clone()
        };
        assert_eq!([choice(500.0), choice(999.0)], ["a", "b"]);
    }
}
