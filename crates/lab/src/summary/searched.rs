//! What searches come to: how many clients each target holds, whether it may hold more, and why a search ended.

use load::capacity::{Capacity, End};

use super::findings::{for_want_of_rounds, list};
use super::{groups, over};
use crate::key::CellKey;
use crate::report::{clients, held_by, if_brief, number};
use crate::results::{Cell, Held, Results, Run, fastest};
use crate::stats::estimate;

/// What the searches of a cell come to over its rounds; `None` where there were none.
pub(super) fn held(results: &Results, key: &CellKey) -> Option<Held> {
    let clients = estimate(&results.values(key, Run::clients), results.seed)?;
    let found = || results.sound(key).filter_map(|run| run.search.as_ref());
    let off = |found: &&Capacity| (found.at_least - clients.median).abs();
    let usual = found().min_by(|a, b| off(a).total_cmp(&off(b)))?;
    Some(Held {
        clients,
        at_least: found().any(Capacity::is_lower_bound),
        brief: found().any(|found| !found.confirmed),
        why: why(usual),
    })
}

/// Why a search ended.
fn why(found: &Capacity) -> String {
    let Capacity { end, reason, below, most, .. } = found;
    let at = number(below.unwrap_or(*most));
    match end {
        End::Server => format!("not {at}: {reason}"),
        End::Generator => format!("what {at} missed may be the load's or the host's own: {reason}"),
        End::Highest => format!("more than {at} were not tried, for want of descriptors or by the plan"),
    }
}

/// Who holds most under each condition, and why each search ended.
pub(super) fn sentences(results: &Results) -> Vec<String> {
    let mut sentences = Vec::new();
    for group in groups(&results.cells).into_values() {
        let mut cells: Vec<(&Cell, &Held)> =
            group.iter().filter_map(|cell| Some((*cell, cell.held.as_ref()?))).collect();
        cells.sort_by(|a, b| b.1.clients.median.total_cmp(&a.1.clients.median));
        sentences.extend(most(results, &cells));
        sentences.extend(cells.iter().map(|(cell, held)| {
            let (name, at) = (cell.key.contender(), cell.key.circumstances());
            format!("{at}: {name} holds {} clients{}; {}.", clients(held), if_brief(held), held.why)
        }));
    }
    sentences
}

/// Who holds most, and by how much; where any other may hold as many or more, no factor is told.
fn most(results: &Results, cells: &[(&Cell, &Held)]) -> Option<String> {
    let best = fastest(cells.iter().map(|(cell, _)| *cell))?;
    let others = || cells.iter().filter(|(cell, _)| cell.key != best.key);
    let (next, next_held) = others().next()?;
    let held = best.held.as_ref()?;
    let (name, at, next_name) = (best.key.contender(), best.key.circumstances(), next.key.contender());
    let rivals = others().filter(|(cell, other)| held.brief || other.at_least || cell.tied_best);
    let rivals: Vec<String> = rivals.map(|(cell, _)| cell.key.contender()).collect();
    if !rivals.is_empty() {
        return Some(format!(
            "{at}: {name} holds as many clients as was seen, {}; {} cannot be told from it{}.",
            held_by(held),
            list(&rivals.iter().map(String::as_str).collect::<Vec<_>>()),
            for_want_of_rounds(cells.iter().map(|(cell, _)| *cell).filter(|cell| cell.tied_best))
        ));
    }
    let ratio = over(results, &best.key, &next.key, Run::clients)?;
    let (median, (low, high)) = (ratio.median, ratio.interval()?);
    let bound = if held.at_least || next_held.brief { "at least " } else { "" };
    Some(format!(
        "{at}: {name} holds the most clients, {bound}{median:.2} times as many as {next_name} [{low:.2} to {high:.2}]."
    ))
}

#[cfg(test)]
mod tests {
    use crate::fake;

    /// The findings of searches that found so many clients of a, b and c, of which some are lower bounds.
    fn said(found: [f64; 3], bounds: [bool; 3]) -> Vec<String> {
        let [a, b, c] = found;
        let mut results = fake::searched(&[("a", a), ("b", b), ("c", c)], 3);
        fake::bound(&mut results, &bounds);
        super::super::summarise(&mut results, &fake::searching(&["a", "b", "c"], ""));
        super::sentences(&results)
    }

    #[test]
    fn no_factor_is_told_where_any_other_may_hold_more() {
        let first = |bounds| said([1_000.0, 900.0, 500.0], bounds).remove(0);
        assert!(first([false; 3]).contains("a holds the most clients, 1.11 times as many as b"));
        assert!(first([true, false, false]).contains("a holds the most clients, at least 1.11 times"));
        for (bounds, others) in [
            ([false, true, false], "b cannot be told from it."),
            ([false, false, true], "c cannot be told from it."),
            ([false, true, true], "b and c cannot be told from it."),
        ] {
            let first = first(bounds);
            assert!(
                first.contains("a holds as many clients as was seen") && first.ends_with(others),
                "{first}"
            );
        }
    }

    #[test]
    fn what_was_not_held_for_long_is_said_to_be_so_and_is_not_the_most() {
        let said = |brief: &str| {
            let mut results = fake::searched(&[("a", 1_000.0), ("b", 900.0)], 3);
            fake::brief(&mut results, brief);
            super::super::summarise(&mut results, &fake::searching(&["a", "b"], ""));
            super::sentences(&results)
        };
        let of_a = said("a");
        assert!(of_a[0].ends_with("not for long; b cannot be told from it."), "{}", of_a[0]);
        assert!(of_a[1].contains("a holds 1,000 [1,000, 1,000] clients, but not for long; not 1,001"));
        assert!(!of_a[2].contains("not for long"), "{}", of_a[2]);
        let of_b = said("b");
        assert!(of_b[0].contains("a holds the most clients, at least 1.11 times"), "{}", of_b[0]);
    }
}
