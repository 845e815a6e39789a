//! What an experiment says, in sentences: missed budgets first, then who is best and by how much.

use super::{groups, over};
use crate::report::number;
use crate::results::{BudgetOutcome, Cell, Results, Run, fastest};
use crate::stats::{median, tied, variation};

/// Most contenders that a sentence names.
const MOST_NAMED: usize = 4;

/// The sentences, most important first.
pub(super) fn findings(results: &Results) -> Vec<String> {
    let mut findings: Vec<String> = results.budgets.iter().filter_map(broken).collect();
    findings.extend(overall(results));
    // What was searched is spoken of where the searches are.
    for group in
        groups(&results.cells).into_iter().filter(|(key, _)| !key.is_searched()).map(|(_, group)| group)
    {
        findings.extend(best(results, &group));
        findings.extend(cheapest(results, &group));
    }
    findings.extend(smallest(results));
    findings
}

/// The smallest difference that these rounds can be expected to show: 2.8 standard errors of a difference, which is found
/// four times in five at 95 % confidence.
fn smallest(results: &Results) -> Option<String> {
    let variations: Vec<f64> =
        results.cells.iter().filter_map(|cell| variation(&results.values(&cell.key, Run::figure))).collect();
    let usual = median(&variations)?;
    let rounds = f64::from(results.cells.iter().map(|cell| cell.rounds).max()?);
    let difference = 2.8 * usual * (2.0 / rounds).sqrt() * 100.0;
    // Whatever is smaller than that hardly interests anybody.
    (difference >= 1.0).then(|| format!(
        "The rounds of a cell vary by {:.1} % here, so {rounds} of them can show differences from some {difference:.0} % on.",
        usual * 100.0
    ))
}

/// What is to be said about a budget that is not clearly kept.
fn broken(BudgetOutcome { text, ratio, met, clear }: &BudgetOutcome) -> Option<String> {
    let Some(ratio) = ratio else {
        return Some(format!("A budget is missed for want of figures: {text}."));
    };
    let median = ratio.median;
    let Some((low, high)) = ratio.interval() else {
        let word = if *met { "met" } else { "missed" };
        return Some(format!(
            "A budget is {word} by one round alone, which has no interval: {text}; it is {median:.2}."
        ));
    };
    let how = match (met, clear) {
        (true, true) => return None,
        (true, false) => "met by the median but not by the whole interval",
        (false, false) => "missed by the median but not by the whole interval",
        (false, true) => "missed",
    };
    Some(format!("A budget is {how}: {text}; it is {median:.2} [{low:.2} to {high:.2}]."))
}

/// Who is best most often, where there is more than one condition to be best in.
fn overall(results: &Results) -> Option<String> {
    let mut groups = groups(&results.cells);
    groups.retain(|key, _| !key.is_searched());
    let conditions = groups.values().filter(|group| group.len() > 1).count();
    if conditions < 2 {
        return None;
    }
    let mut wins: Vec<(String, usize)> = Vec::new();
    // By one round alone nobody can be told from the fastest, so that says nothing.
    let has_interval = |cell: &&&Cell| cell.requests_per_second.interval().is_some();
    let tied = groups.values().filter(|group| group.len() > 1).flatten().filter(|cell| cell.tied_best);
    for cell in tied.filter(has_interval) {
        let contender = cell.key.contender();
        match wins.iter_mut().find(|(name, _)| *name == contender) {
            Some((_, count)) => *count += 1,
            None => wins.push((contender, 1)),
        }
    }
    let most = wins.iter().map(|(_, count)| *count).max()?;
    let names: Vec<&str> =
        wins.iter().filter(|(_, count)| *count == most).map(|(name, _)| name.as_str()).collect();
    let (named, more) = names.split_at(names.len().min(MOST_NAMED));
    let named = match more.len() {
        0 => list(named),
        more => format!("{} and {more} more", named.join(", ")),
    };
    let verb = if names.len() == 1 { "is" } else { "are each" };
    Some(format!(
        "{named} {verb} fastest, or not to be told from the fastest, in {most} of {conditions} conditions."
    ))
}

/// Who is fastest in a group, and how far the next one is behind.
fn best(results: &Results, group: &[&Cell]) -> Option<String> {
    let best = fastest(group.iter().copied())?;
    let (at, name) = (best.key.load(), best.key.contender());
    let rate_of_best = format!("{} requests per second", number(best.requests_per_second.median));
    let rest: Vec<&Cell> = group.iter().copied().filter(|cell| cell.key != best.key).collect();
    let mut tied: Vec<&Cell> = rest.iter().copied().filter(|cell| cell.tied_best).collect();
    tied.sort_by(|a, b| b.requests_per_second.median.total_cmp(&a.requests_per_second.median));
    if !tied.is_empty() {
        return Some(format!(
            "At {at}: {name} leads with {rate_of_best}; {} cannot be told from it{}.",
            some_of(&tied),
            for_want_of_rounds(group.iter().copied().filter(|cell| cell.tied_best))
        ));
    }
    let Some(second) = fastest(rest.iter().copied()) else {
        return Some(format!("At {at}: {name} answers {rate_of_best}."));
    };
    let lead = times(results, best, second, Run::rate)?;
    Some(format!("At {at}: {name} is fastest with {rate_of_best}, {lead}."))
}

/// Whose requests cost the server least in a group.
fn cheapest(results: &Results, group: &[&Cell]) -> Option<String> {
    let mut costs: Vec<(f64, &Cell)> =
        group.iter().filter_map(|cell| Some((cell.server_cpu_us_per_request?.median, *cell))).collect();
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let [(cost, least), (_, next), ..] = costs[..] else { return None };
    let (at, name) = (least.key.load(), least.key.contender());
    let cost = format!("{} us of CPU per request", number(cost));
    let is_tied =
        |cell: &&Cell| over(results, &least.key, &cell.key, Run::cpu).is_some_and(|ratio| tied(&ratio));
    let rivals: Vec<&Cell> = costs[1..].iter().map(|(_, cell)| *cell).filter(is_tied).collect();
    if !rivals.is_empty() {
        return Some(format!(
            "At {at}: {name} costs least, {cost}, but {} cannot be told from it{}.",
            some_of(&rivals),
            for_want_of_rounds([&[least], &rivals[..]].concat())
        ));
    }
    Some(format!("At {at}: {name} costs least, {cost}, {}.", times(results, least, next, Run::cpu)?))
}

/// The first of some contenders by name, and how many more there are.
fn some_of(cells: &[&Cell]) -> String {
    let names: Vec<String> = cells.iter().take(MOST_NAMED).map(|cell| cell.key.contender()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match cells.len() - names.len() {
        0 => list(&names),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// `0.87 times that of b [0.85 to 0.90]`.
fn times(results: &Results, cell: &Cell, other: &Cell, get: fn(&Run) -> Option<f64>) -> Option<String> {
    let ratio = over(results, &cell.key, &other.key, get)?;
    let (low, high) = ratio.interval()?;
    Some(format!("{:.2} times that of {} [{low:.2} to {high:.2}]", ratio.median, other.key.contender()))
}

/// What is added where cells cannot be told apart since one of them was run once.
pub(super) fn for_want_of_rounds<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> &'static str {
    let lacks = cells.into_iter().any(|cell| cell.requests_per_second.interval().is_none());
    if lacks { ": one round has no interval" } else { "" }
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn list(names: &[&str]) -> String {
    match names {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        names => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::results::Estimate;
    use crate::summary::summarise;

    fn said(targets: &[&str], surface: impl Fn(&str, u32) -> (f64, f64)) -> Vec<String> {
        let mut results: Results = fake::results(targets, 3, surface);
        summarise(&mut results, &fake::plan(targets, ""));
        results.findings
    }

    #[test]
    fn a_clear_winner_is_named_with_its_lead() {
        let findings = said(&["a", "b"], |target, round| match target {
            "a" => (2_000.0 + f64::from(round), 12.0),
            _ => (1_000.0, 10.0),
        });
        assert_eq!(
            findings,
            [
                "At 10 connections, /: a is fastest with 2,001 requests per second, 2.00 times that of b [2.00 to 2.00].",
                "At 10 connections, /: b costs least, 10.0 us of CPU per request, 0.83 times that of a [0.83 to 0.83].",
            ]
        );
    }

    #[test]
    fn a_tie_is_called_a_tie() {
        let findings = said(&["a", "b", "c"], |_, round| (1_000.0 + f64::from(round), 10.0));
        assert_eq!(
            findings[1],
            "At 10 connections, /: a costs least, 10.0 us of CPU per request, but b and c cannot be told from it."
        );
        assert_eq!(
            findings[0],
            "At 10 connections, /: c leads with 1,001 requests per second; a and b cannot be told from it."
        );
    }

    #[test]
    fn what_costs_least_is_told_from_all_others_and_not_from_the_next_one_alone() {
        let findings = said(&["a", "b", "c"], |target, round| match target {
            "a" => (1_000.0, 10.0),
            "b" => (1_000.0, 10.5),
            _ => (1_000.0, [8.0, 11.0, 14.0][round as usize]),
        });
        assert_eq!(
            findings[1],
            "At 10 connections, /: a costs least, 10.0 us of CPU per request, but c cannot be told from it."
        );
    }

    #[test]
    fn those_that_are_nearest_to_the_best_are_named_first() {
        let findings = said(&["a", "b", "c", "d", "e", "f"], |target, round| {
            let below = f64::from(u32::from(target.as_bytes()[0] - b'a'));
            (1_000.0 + below + 20.0 * f64::from(round), 10.0)
        });
        assert!(findings[0].contains("; e, d, c, b and 1 more cannot be told from it"), "{findings:?}");
    }

    #[test]
    fn budgets_are_spoken_of_unless_they_are_clearly_kept() {
        let outcome =
            |met, clear, ratio| BudgetOutcome { text: "a / b: at most 1.10".into(), ratio, met, clear };
        let ratio = Some(Estimate { median: 1.0, low: Some(0.9), high: Some(1.2) });
        assert_eq!(broken(&outcome(true, true, ratio)), None);
        assert_eq!(
            broken(&outcome(true, false, ratio)).unwrap(),
            "A budget is met by the median but not by the whole interval: a / b: at most 1.10; it is 1.00 [0.90 to 1.20]."
        );
        assert!(broken(&outcome(false, true, ratio)).unwrap().starts_with("A budget is missed: "));
        assert_eq!(
            broken(&outcome(false, false, None)).unwrap(),
            "A budget is missed for want of figures: a / b: at most 1.10."
        );
    }

    #[test]
    fn one_target_alone_is_not_best_of_anything() {
        assert_eq!(
            said(&["a"], |_, _| (1_000.0, 10.0)),
            ["At 10 connections, /: a answers 1,000 requests per second."]
        );
    }
}
