//! The tables of the page: what every chart shows in figures, and all else that is not a chart.

use std::fmt::Write;

use super::charts::Chart;
use super::format::{escape, estimate, number};
use crate::results::{Results, Run};

/// A table from a heading and rows of cells that are escaped already.
fn table(class: &str, heading: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut html = format!("<div class=\"scroll\"><table class=\"{class}\"><thead><tr>");
    for name in heading {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(name));
    }
    html.push_str("</tr></thead><tbody>");
    for row in rows {
        html.push_str("<tr>");
        for cell in row {
            let _ = write!(html, "<td>{cell}</td>");
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>");
    html
}

/// All cells with all figures.
pub(super) fn cells(results: &Results) -> String {
    let heading = [
        "target",
        "path",
        "connections",
        "requests/s",
        "p50 us",
        "p99 us",
        "server CPU us/request",
        "errors",
        "rounds",
    ];
    let rows = results.cells.iter().map(|cell| {
        let best = if cell.tied_best {
            " <b class=\"best\" title=\"best, or not to be told from it\">&#9733;</b>"
        } else {
            ""
        };
        vec![
            escape(&cell.key.target) + best,
            escape(&cell.key.path) + if cell.key.close { ", close" } else { "" },
            cell.key.connections.to_string(),
            estimate(Some(cell.requests_per_second)),
            estimate(cell.p50_us),
            estimate(cell.p99_us),
            estimate(cell.server_cpu_us_per_request),
            cell.errors.to_string(),
            cell.rounds.to_string(),
        ]
    });
    table("figures", &heading, rows)
}

/// The figures behind a chart.
pub(super) fn behind(chart: &Chart, results: &Results) -> String {
    if chart.rows.is_empty() {
        return runs(results);
    }
    let rows = chart.rows.iter().map(|(target, connections, figure)| {
        vec![escape(target), connections.to_string(), estimate(*figure)]
    });
    table("figures", &["target", "connections", chart.figure], rows)
}

fn runs(results: &Results) -> String {
    let rows = (1..).zip(&results.runs).map(|(number_of, run): (usize, &Run)| {
        let rate = run.outcome.as_ref().map_or("n/a".into(), |outcome| number(outcome.requests_per_second));
        let mut why: Vec<_> = run.verdict.reasons().to_vec();
        why.extend(run.failure.clone().filter(|failure| !why.contains(failure)));
        vec![
            number_of.to_string(),
            escape(&run.cell.to_string()),
            (run.round + 1).to_string(),
            rate,
            format!("<span class=\"{0}\">{0}</span> {1}", run.verdict.word(), escape(&why.join("; "))),
        ]
    });
    table("figures", &["run", "cell", "round", "requests/s", "verdict"], rows)
}

/// Budgets and how they came out.
pub(super) fn budgets(results: &Results) -> String {
    if results.budgets.is_empty() {
        return String::new();
    }
    let rows = results.budgets.iter().map(|budget| {
        let (class, word) = if budget.met { ("VALID", "met") } else { ("INVALID", "missed") };
        vec![escape(&budget.text), estimate(budget.ratio), format!("<span class=\"{class}\">{word}</span>")]
    });
    format!("<h2>Budgets</h2>{}", table("figures", &["budget", "ratio", ""], rows))
}

/// Requests that got no answer, by kind; only kinds and cells that have any.
pub(super) fn errors(results: &Results) -> String {
    let mut rows = Vec::new();
    for run in &results.runs {
        if let Some(why) = &run.failure {
            rows.push(vec![
                escape(&run.cell.to_string()),
                (run.round + 1).to_string(),
                escape(why),
                "".into(),
            ]);
        }
        let Some(outcome) = &run.outcome else { continue };
        for (kind, count) in outcome.errors.named().into_iter().filter(|(_, count)| *count > 0) {
            rows.push(vec![
                escape(&run.cell.to_string()),
                (run.round + 1).to_string(),
                kind.replace('_', " "),
                count.to_string(),
            ]);
        }
    }
    if rows.is_empty() {
        return "<p>No request failed.</p>".into();
    }
    table("figures", &["cell", "round", "kind", "count"], rows)
}

/// Where the experiment ran.
pub(super) fn environment(results: &Results) -> String {
    let rows = results.environment.iter().map(|(name, value)| vec![escape(name), escape(value)]);
    table("plain", &["what", "value"], rows)
}
