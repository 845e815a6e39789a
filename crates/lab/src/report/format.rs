//! Numbers and text on their way into a report.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::results::{BudgetOutcome, Cell, ClaimOutcome, Estimate, Held};

/// A number with as many decimals as its size bears, and its thousands set apart.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    let plain = format!("{value:.decimals$}");
    let (whole, fraction) =
        plain.split_once('.').map_or((plain.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let digits = whole.trim_start_matches('-');
    let mut text = String::from(if whole.starts_with('-') { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if let Some(fraction) = fraction {
        let _ = write!(text, ".{fraction}");
    }
    text
}

/// So many of something: `1 connection`, `2 connections`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Rows in aligned columns, those of numbers to the right.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]], is_number: impl Fn(usize) -> bool) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cell = |column: usize| match is_number(column) {
            true => format!("{:>1$}", row[column], widths[column]),
            false => format!("{:<1$}", row[column], widths[column]),
        };
        let cells: [String; N] = std::array::from_fn(cell);
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// How many clients are held: `at least 9,968 [9,968, 9,968]` where it may be more, and whether that was for long.
pub(crate) fn held_by(held: &Held) -> String {
    format!("{}{}", clients(held), if_brief(held))
}

/// The same without whether it was for long.
pub(crate) fn clients(held: &Held) -> String {
    format!("{}{}", if held.at_least { "at least " } else { "" }, estimate(Some(held.clients)))
}

/// What is added to what is held where that was not for long.
pub(crate) fn if_brief(held: &Held) -> &'static str {
    if held.brief { ", but not for long" } else { "" }
}

/// The connections of a cell: as many as were asked for, or the clients that a search found.
pub(super) fn connections(cell: &Cell) -> String {
    cell.held.as_ref().map_or_else(|| cell.key.connections.to_string(), held_by)
}

/// `median [low, high]`, `median [n/a]` where one round has no interval, or n/a.
pub(crate) fn estimate(estimate: Option<Estimate>) -> String {
    let Some(estimate) = estimate else { return "n/a".into() };
    format!("{} [{}]", number(estimate.median), interval(&estimate, ", "))
}

/// What is said of every cell.
pub(super) const HEADING: [&str; 10] = [
    "target",
    "path",
    "connections",
    "requests/s",
    "MiB/s",
    "p50 us",
    "p99 us",
    "server CPU us/request",
    "peak MiB",
    "errors",
];

/// An estimate of bytes in MiB.
pub(super) fn mebibytes(bytes: Option<Estimate>) -> Option<Estimate> {
    bytes.map(|bytes| bytes.times(1.0 / 1_048_576.0))
}

/// The ends of the interval of an estimate and what is between them, or n/a where one round has none.
pub(crate) fn interval(estimate: &Estimate, between: &str) -> String {
    let ends = estimate.interval();
    ends.map_or("n/a".into(), |(low, high)| format!("{}{between}{}", number(low), number(high)))
}

/// From so many rounds on an interval is what "95 %" says, within a hair: over fewer it is their range.
const ROUNDS_OF_95: u32 = 5;

/// What the intervals of medians are called, by the rounds that they are over: a range of n values has the true median in
/// 1 - 2 / 2^n of all cases (David and Nagaraja: Order Statistics, 2003, section 7.1).
pub(super) fn intervals(cells: &[Cell]) -> String {
    let rounds: BTreeSet<u32> = cells.iter().map(|cell| cell.rounds).collect();
    let few = rounds.iter().filter(|rounds| (2..ROUNDS_OF_95).contains(*rounds));
    let few: Vec<String> = few
        .map(|rounds| {
            format!("{:.0} % of cases over {rounds} rounds", 100.0 * (1.0 - 2.0 / 2f64.powi(*rounds as i32)))
        })
        .collect();
    let many = rounds.iter().any(|rounds| *rounds >= ROUNDS_OF_95);
    let kind = match (many, few.is_empty()) {
        (_, true) => "their 95 % intervals".into(),
        (false, false) => format!("their range, which has the true median in {}", few.join(", ")),
        (true, false) => format!(
            "their 95 % intervals; over fewer than {ROUNDS_OF_95} rounds it is their range, which has the true median in {}",
            few.join(", ")
        ),
    };
    let once =
        if rounds.contains(&1) { "; one round has none (n/a), and no mark but that of the best" } else { "" };
    format!("Medians over the rounds with {kind}{once}.")
}

/// How a budget came out, with the word for one that is missed: `met by one round alone`.
pub(super) fn came_out(budget: &BudgetOutcome, missed: &str) -> String {
    let word = if budget.met { "met" } else { missed };
    format!("{word}{}", if budget.is_of_one_round() { " by one round alone" } else { "" })
}

/// Why a claim is undecided, to be added to it.
pub(super) fn because(claim: &ClaimOutcome) -> String {
    claim.why.as_ref().map_or_else(String::new, |why| format!("; {why}"))
}

/// Text that stands for itself in HTML, also within quotes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// JSON that can stand in a script element: nothing in it can end the element.
pub(super) fn json_for_script(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn numbers_are_short_and_grouped() {
        for (value, expected) in [
            (0.0, "0.00"),
            (6.234, "6.23"),
            (62.34, "62.3"),
            (999.6, "1,000"),
            (1234.5, "1,234"),
            (1234567.0, "1,234,567"),
            (-1234.0, "-1,234"),
        ] {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn an_interval_of_few_rounds_is_called_what_it_is() {
        let said = |rounds: &[u32]| {
            let cell = |rounds: &u32| Cell { rounds: *rounds, ..fake::cell(fake::key("a", 1), 1.0) };
            intervals(&rounds.iter().map(cell).collect::<Vec<_>>())
        };
        assert_eq!(said(&[5, 15]), "Medians over the rounds with their 95 % intervals.");
        let three = "Medians over the rounds with their range, which has the true median in 75 % of cases over 3 rounds.";
        assert_eq!(said(&[3, 3]), three);
        let mixed = said(&[1, 2, 4, 5]);
        assert!(
            mixed.contains("in 50 % of cases over 2 rounds, 88 % of cases over 4 rounds; one round"),
            "{mixed}"
        );
        assert!(
            mixed.starts_with("Medians over the rounds with their 95 % intervals; over fewer than 5"),
            "{mixed}"
        );
    }

    #[test]
    fn only_one_is_no_plural() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "core")), ["0 cores", "1 core", "2 cores"]);
    }

    #[test]
    fn words_begin_and_numbers_end_at_the_same_place() {
        let rows = [["name", "rate"], ["é", "1"], ["longer", "20,000"]].map(|row| row.map(String::from));
        assert_eq!(columns(&rows, |column| column == 1), "name      rate\né            1\nlonger  20,000\n");
    }

    #[test]
    fn nothing_escapes_its_place() {
        assert_eq!(escape("<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
        assert!(!json_for_script(&"</script><!--").contains('<'));
    }
}
