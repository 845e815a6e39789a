//! Results as text: aligned columns for a terminal, and Markdown.

use super::format::{
    HEADING, because, came_out, columns, connections, estimate, intervals, mebibytes, number,
};
use crate::noise;
use crate::results::{Cell, Results};
use crate::summary::measured;

/// The cells in aligned columns, the budgets, and the verdict.
pub fn text_table(results: &Results) -> String {
    let mut rows = vec![HEADING.map(String::from)];
    rows.extend(results.cells.iter().map(row));
    let mut text = columns(&rows, |column| column >= 2);
    for budget in &results.budgets {
        let word = came_out(budget, "MISSED");
        text += &format!("\nbudget {word}: {}: ratio {}", budget.text, estimate(budget.ratio));
    }
    text += if results.budgets.is_empty() { "" } else { "\n" };
    for claim in &results.claims {
        text += &format!(
            "\n{}: {} ({}; here {}{})",
            claim.judgement.word(),
            claim.text,
            claim.source,
            estimate(claim.ratio),
            because(claim)
        );
    }
    text += if results.claims.is_empty() { "" } else { "\n" };
    if let Some(said) = measured::sentence(results) {
        text += &format!("\n{said}\n");
    }
    text += &format!("\n{}\n", results.verdict.word());
    for reason in results.verdict.reasons() {
        text += &format!("  {reason}\n");
    }
    text
}

fn row(cell: &Cell) -> [String; HEADING.len()] {
    let median =
        |figure: Option<crate::Estimate>| figure.map_or("n/a".into(), |figure| number(figure.median));
    [
        format!("{}{}", cell.key.contender(), if cell.is_marked() { " *" } else { "" }),
        cell.key.circumstances(),
        connections(cell),
        estimate(Some(cell.requests_per_second)),
        median(mebibytes(cell.bytes_per_second)),
        median(cell.p50_us),
        median(cell.p99_us),
        estimate(cell.server_cpu_us_per_request),
        median(mebibytes(cell.peak_rss_bytes)),
        cell.errors.to_string(),
    ]
}

/// A summary for a README or a pull request.
pub fn markdown(results: &Results) -> String {
    let mut text = format!("# {}\n\n`{}`, {}\n\n", results.title, results.command, results.started);
    text += &format!("**{}**\n\n", results.verdict.word());
    for reason in results.verdict.reasons() {
        text += &format!("- {reason}\n");
    }
    text += "\n";
    for finding in &results.findings {
        text += &format!("- {finding}\n");
    }
    let columns = HEADING.join(" | ");
    text += &format!("\n| {columns} |\n|---|---|{}\n", "---:|".repeat(HEADING.len() - 2));
    for cell in &results.cells {
        text += &format!("| {} |\n", row(cell).map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    for budget in &results.budgets {
        let word = came_out(budget, "**missed**");
        text += &format!("\n- budget {word}: {}: ratio {}", budget.text, estimate(budget.ratio));
    }
    for claim in &results.claims {
        let judgement = claim.judgement.word();
        text += &format!(
            "\n- **{judgement}**: {} ({}): {}, {}{}",
            claim.text,
            claim.source,
            estimate(claim.ratio),
            claim.compared,
            because(claim)
        );
        if !claim.note.is_empty() {
            text += &format!(". Its method: {}", claim.note);
        }
    }
    if let Some(noise) = noise::sentence(results) {
        text += &format!("\n\n{noise}");
    }
    let intervals = intervals(&results.cells);
    text += &format!("\n\n\\* best of its number of connections, or not to be told from it. {intervals}\n");
    text
}
