//! What became of each cell of one result in another, as text.

use super::{Change, FALSE_DISCOVERIES, Found, Sound, conditions};
use crate::report::{interval, number};
use crate::results::{Estimate, Results};
use crate::stats::least_p;
use crate::summary::Slack;

/// The changes as text, those that are proven first.
pub fn text(first: &Results, second: &Results, changes: &[Change]) -> String {
    let mut text = format!("{}\n  first   {}  {}\n", second.title, first.started, first.command);
    text += &format!("  second  {}  {}\n\n", second.started, second.command);
    text += &conditions::rows(first, second);
    if changes.iter().any(Change::is_of_one_round) {
        text += "  one round has no interval: what is unclear takes more rounds of both\n\n";
    }
    text += &too_few(first, second, changes).unwrap_or_default();
    let (mut proven, mut rest) = (String::new(), String::new());
    for change in changes {
        match (change.worse, change.better) {
            (true, _) => proven.insert_str(0, &change.line("WORSE")),
            (_, true) => proven += &change.line("better"),
            _ => rest += &change.line(if change.is_unclear() { "unclear" } else { "same" }),
        }
    }
    text + &proven + &rest
}

impl Change {
    fn is_of_one_round(&self) -> bool {
        matches!(self.found, Found::Figure { ratio, .. } if ratio.interval().is_none())
    }

    /// Whether it may be better or worse for all that is known.
    fn is_unclear(&self) -> bool {
        match self.found {
            Found::Figure { ratio, slack, brief, .. } => {
                ratio.interval().is_none() || slack.iter().any(|slack| *slack != Slack::default()) || brief
            }
            Found::Runs { before, after, .. } => before.sound * after.runs != after.sound * before.runs,
        }
    }

    fn line(&self, word: &str) -> String {
        let cell = &self.cell;
        match &self.found {
            Found::Figure { name, before, after, ratio, slack: [was, is], brief } => {
                let said = |of: &Estimate| format!("{} [{}]", number(of.median), interval(of, " to "));
                let brief = if *brief { ", not for long" } else { "" };
                let (was, is) = (was.word(), is.word());
                let (ratio, before, after) = (said_of_ratio(ratio), said(before), said(after));
                format!("{word:<7} {cell}: {name} {ratio}, from {was}{before} to {is}{after}{brief}\n")
            }
            Found::Runs { before, after, why } => {
                let lost = if self.is_lost() { "no figure any more: " } else { "" };
                let why = why.as_ref().map_or(String::new(), |why| format!(": {}", why.replace('\n', "; ")));
                let (before, after) = (said_of_runs(*before), said_of_runs(*after));
                format!("{word:<7} {cell}: {lost}{after} gave a figure, {before} before{why}\n")
            }
        }
    }
}

fn said_of_ratio(ratio: &Estimate) -> String {
    format!("{} x [{}]", number(ratio.median), interval(ratio, " to "))
}

fn said_of_runs(Sound { sound, runs }: Sound) -> String {
    format!("{sound} of {runs} runs")
}

/// That no single figure can be proven to differ by so few rounds, where that is so of the cell that has most of them.
fn too_few(first: &Results, second: &Results, changes: &[Change]) -> Option<String> {
    let rounds = |change: &Change| [first, second].map(|results| results.sound(&change.cell).count());
    let is_figure = |change: &&Change| matches!(change.found, Found::Figure { .. });
    let figures = || changes.iter().filter(is_figure);
    let [n, m] = figures().map(rounds).min_by(|a, b| least_p(a[0], a[1]).total_cmp(&least_p(b[0], b[1])))?;
    let count = figures().count();
    (count > 1 && least_p(n, m) > FALSE_DISCOVERIES / count as f64).then(|| {
        format!(
            "  {n} and {m} rounds are too few to prove a single figure of {count} different: ask for more rounds\n\n"
        )
    })
}
