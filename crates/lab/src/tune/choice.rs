//! Which settings are looked at once more after a search, and which of them is chosen, with the reasons.

use std::collections::BTreeMap;

use load::verdict::{CLIENT_SHARE, client_is_at_its_limit};

use super::plan::MOST_FINALISTS;
use crate::key::Levels;
use crate::report::{interval, number};
use crate::results::{Cell, Results, Run, fastest};

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
    let chosen = candidates(results).and_then(|candidates| cheapest(candidates.most));
    let first = [Some(*leader), chosen, other.copied()];
    let mut finalists: Vec<Finalist> = Vec::new();
    for cell in first.into_iter().flatten().chain(cells.iter().copied()) {
        let finalist = Finalist::of(cell);
        if finalists.len() < MOST_FINALISTS && !finalists.contains(&finalist) {
            finalists.push(finalist);
        }
    }
    finalists
}

/// The settings that may be chosen.
struct Candidates<'a> {
    /// Those that reach the fastest, with that one where it has an interval or nothing reaches it.
    near: Vec<&'a Cell>,
    /// Those of them that were looked at as often as any.
    most: Vec<&'a Cell>,
    /// Whether the fastest is the only one.
    is_alone: bool,
}

/// The fastest setting and those that cannot be told from it, as far as they were looked at as often as any of them. One look
/// says little, and tells nothing apart: settings that were looked at again and reach the fastest come first.
fn candidates(results: &Results) -> Option<Candidates<'_>> {
    let leader = fastest(&results.cells)?;
    let rate = leader.requests_per_second;
    let is_near = |cell: &&Cell| {
        let reaches =
            |high: f64| if rate.interval().is_some() { cell.tied_best } else { high >= rate.median };
        cell.requests_per_second.high.is_some_and(reaches)
    };
    let mut near: Vec<&Cell> = results.cells.iter().filter(is_near).collect();
    if near.is_empty() {
        near.push(leader);
    }
    let is_alone = near.iter().all(|cell| cell.key == leader.key);
    let rounds = near.iter().map(|cell| cell.rounds).max();
    let most = near.iter().filter(|cell| Some(cell.rounds) == rounds).copied().collect();
    Some(Candidates { near, most, is_alone })
}

fn cost(cell: &Cell) -> f64 {
    cell.server_cpu_us_per_request.map_or(f64::MAX, |cost| cost.median)
}

fn cheapest(cells: Vec<&Cell>) -> Option<&Cell> {
    cells.into_iter().min_by(|a, b| cost(a).total_cmp(&cost(b)))
}

/// The cheapest of the settings that are fastest in a search or cannot be told from it, and why: where there was no time for more.
pub(super) fn of_search(results: &Results) -> Option<Choice> {
    let Candidates { near, most, is_alone } = candidates(results)?;
    let (count, doubt) = (most.len(), at_its_limit(results, &near));
    let is_most_often = count < near.len();
    let best = cheapest(most)?;
    let cheapest = match count {
        _ if is_alone && best.rounds == 1 => "it was the fastest in the one look at it".into(),
        _ if is_alone => "no other setting comes as near that its interval reaches it".into(),
        1 => format!(
            "of the settings that reach the fastest it was looked at most often, {} times",
            best.rounds
        ),
        count => format!(
            "of {count} settings that cannot be told from the fastest{} it takes the least processor time, {} us per request",
            if is_most_often { " and were looked at most often" } else { "" },
            number(cost(best))
        ),
    };
    let next = fastest(results.cells.iter().filter(|cell| cell.key.target != best.key.target));
    let beside = next.map_or(String::new(), |next| {
        let ratio = best.requests_per_second.median / next.requests_per_second.median;
        format!("; the best of another model, {}, answers {:.2} x as many", next.key.contender(), 1.0 / ratio)
    });
    let few = match best.rounds {
        ..FEWEST => " It was looked at too few times for an interval: give the search a larger --budget.",
        _ => "",
    };
    let answers = answers(best);
    let why = format!("{answers}{beside}. It was chosen because {cheapest}.{few}{doubt}");
    Some((Finalist::of(best).settings(), why))
}

/// The cheapest of those that are fastest side by side or cannot be told from it, and by how much it is the fastest or with what it
/// is tied. `None` where nothing was measured.
pub(super) fn of_validation(results: &Results, finalists: &[Finalist]) -> Option<Choice> {
    let Candidates { near, most, is_alone } = candidates(results)?;
    let (count, doubt) = (most.len(), at_its_limit(results, &near));
    let best = cheapest(most)?;
    let chosen = finalists.iter().find(|finalist| finalist.name == best.key.target)?;
    let next = fastest(results.cells.iter().filter(|cell| cell.key != best.key));
    let reason = match next {
        None => "It was chosen because it alone could be measured again".into(),
        // Nothing is tied with it, so that it is the fastest itself.
        Some(next) if is_alone => {
            format!(
                "It was chosen because it is {} than the next of them, {}",
                faster(next)?,
                next.key.target
            )
        }
        Some(_) => tied_with(results, best, near.len() - count, count),
    };
    let beside = match finalists.len() - 1 {
        1 => "another".into(),
        count => format!("{count} others"),
    };
    let (answers, rounds) = (answers(best), best.rounds);
    let why = format!(
        "{answers} in {rounds} rounds side by side with {beside} of the best of the search. {reason}.{doubt}"
    );
    Some((chosen.settings(), why))
}

/// With what the chosen one is tied, and what it has over them: the least processor time, or more rounds that were measured. So
/// many of them have fewer rounds, and so many as many as it.
fn tied_with(results: &Results, best: &Cell, fewer: usize, as_many: usize) -> String {
    let tied = results.cells.iter().filter(|cell| cell.key != best.key && cell.tied_best);
    let names: Vec<&str> = tied.map(|cell| cell.key.target.as_str()).collect();
    let (rounds, cost) = (best.rounds, number(cost(best)));
    let reason = match (fewer, as_many) {
        (0, _) => format!("it takes the least processor time of them, {cost} us per request"),
        (_, 1) => format!("it alone could be measured in {rounds} rounds"),
        _ => format!(
            "of those that could be measured in {rounds} rounds it takes the least processor time, {cost} us per request"
        ),
    };
    format!("It is tied with {}, and was chosen because {reason}", names.join(" and "))
}

/// That the load itself was at its limit with some settings, where it was: they may be less alike than they look.
fn at_its_limit(results: &Results, near: &[&Cell]) -> String {
    let runs = || near.iter().flat_map(|cell| results.sound(&cell.key));
    let is_busy = |run: &&Run| run.outcome.as_ref().is_some_and(client_is_at_its_limit);
    match runs().filter(is_busy).count() {
        0 => String::new(),
        busy => format!(
            " In {busy} of {} runs with the fastest the load used more than {:.0} % of a core of its own, which may be its limit \
             and not theirs: settings may differ by more than could be seen.",
            runs().count(),
            CLIENT_SHARE * 100.0
        ),
    }
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

    /// The finalists a and b side by side in five rounds at these rates, where a fails in some, and what is chosen.
    fn validated(rates: [f64; 2], failing: u32, busy: f64) -> (String, String) {
        let surface = |target: &str, round: u32| {
            let noise = 20.0 * f64::from(round % 3);
            if target == "a" { (rates[0] + noise, 20.0) } else { (rates[1] + noise, 30.0) }
        };
        let mut results = fake::results(&["a", "b"], 5, surface);
        for run in results.runs.iter_mut().filter(|run| run.cell.target == "a" && run.round < failing) {
            run.failure = Some("it ended".into());
        }
        let share = |run: &mut Run| run.outcome.as_mut().unwrap().client.busiest_thread_share = busy;
        results.runs.iter_mut().for_each(share);
        summarise(&mut results, &fake::plan(&["a", "b"], ""));
        let finalist =
            |name: &str| Finalist { name: name.into(), model: name.into(), setting: Levels::new() };
        let (settings, why) = of_validation(&results, &["a", "b"].map(finalist)).unwrap();
        (settings["model"].clone(), why)
    }

    #[test]
    fn what_is_tied_is_not_called_faster_where_a_run_was_lost() {
        // The fastest lost a run, and the other is neither faster nor cheaper.
        let (model, why) = validated([1001.0, 1000.0], 1, 0.5);
        assert_eq!(model, "b");
        let said = "It is tied with a, and was chosen because it alone could be measured in 5 rounds.";
        assert!(why.ends_with(said), "{why}");
        // The slower one of the two lost it.
        let (model, why) = validated([1000.0, 1001.0], 1, 0.5);
        assert_eq!(model, "b");
        assert!(why.contains("It is tied with a, and") && !why.contains("faster"), "{why}");
        let (model, why) = validated([1000.0, 1001.0], 0, 0.5);
        assert_eq!(model, "a");
        assert!(why.ends_with("tied with b, and was chosen because it takes the least processor time of them, 20.0 us per request."), "{why}");
        let (model, why) = validated([2000.0, 1000.0], 1, 0.5);
        assert!(
            model == "a" && why.contains(" % [") && why.contains("faster than the next of them, b."),
            "{why}"
        );
    }

    #[test]
    fn a_search_says_of_no_setting_that_nothing_comes_near_where_something_does() {
        let surface = |target: &str, round: u32| {
            (if target == "a" { 1001.0 } else { 1000.0 } + 20.0 * f64::from(round % 3), 10.0)
        };
        let mut results = fake::results(&["a", "b"], 5, surface);
        results.runs.retain(|run| run.cell.target == "b" || run.round > 0);
        summarise(&mut results, &fake::plan(&["a", "b"], ""));
        let (settings, why) = of_search(&results).unwrap();
        assert_eq!(settings["model"], "b");
        assert!(
            why.contains("of the settings that reach the fastest it was looked at most often, 5 times"),
            "{why}"
        );
    }

    #[test]
    fn that_the_load_was_at_its_own_limit_is_said() {
        let (_, why) = validated([1001.0, 1000.0], 0, 0.95);
        let said = " In 10 of 10 runs with the fastest the load used more than 80 % of a core of its own, which may be its limit and";
        assert!(why.contains(said), "{why}");
        // The other is far behind, and does not matter.
        let (_, why) = validated([2000.0, 1000.0], 1, 0.95);
        assert!(why.contains(" In 4 of 4 runs "), "{why}");
        assert!(!validated([1001.0, 1000.0], 0, 0.79).1.contains("limit"));
    }
}
