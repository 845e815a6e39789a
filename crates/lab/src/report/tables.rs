//! The tables of the page: what every chart shows in figures, and all else that is not a chart.

use std::fmt::Write;

use super::chart::Chart;
use super::format::{because, came_out, connections, escape, estimate, mebibytes};
use crate::results::{Judgement, Results};

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
        "MiB/s",
        "p50 us",
        "p99 us",
        "server CPU us/request",
        "peak MiB",
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
            escape(&cell.key.contender()) + best,
            escape(&cell.key.circumstances()),
            connections(cell),
            estimate(Some(cell.requests_per_second)),
            estimate(mebibytes(cell.bytes_per_second)),
            estimate(cell.p50_us),
            estimate(cell.p99_us),
            estimate(cell.server_cpu_us_per_request),
            estimate(mebibytes(cell.peak_rss_bytes)),
            cell.errors.to_string(),
            cell.rounds.to_string(),
        ]
    });
    table("figures", &heading, rows)
}

/// The figures behind a chart.
pub(super) fn behind(chart: &Chart) -> String {
    let heading: Vec<&str> = chart.heading.iter().map(String::as_str).collect();
    table("figures", &heading, chart.rows.iter().map(|row| row.iter().map(|cell| escape(cell)).collect()))
}

/// Budgets and how they came out.
pub(super) fn budgets(results: &Results) -> String {
    if results.budgets.is_empty() {
        return String::new();
    }
    let rows = results.budgets.iter().map(|budget| {
        let class = if budget.met { "VALID" } else { "INVALID" };
        vec![
            escape(&budget.text),
            estimate(budget.ratio),
            format!("<span class=\"{class}\">{}</span>", came_out(budget, "missed")),
        ]
    });
    format!("<h2>Budgets</h2>{}", table("figures", &["budget", "ratio", ""], rows))
}

/// Claims and what came of them.
pub(super) fn claims(results: &Results) -> String {
    if results.claims.is_empty() {
        return String::new();
    }
    let rows = results.claims.iter().map(|claim| {
        let class = match claim.judgement {
            Judgement::Reproduced => "VALID",
            Judgement::Refuted => "INVALID",
            Judgement::Undecided => "SUSPECT",
        };
        vec![
            format!("{} <small>{}</small>", escape(&claim.text), escape(&claim.source)),
            format!("<span class=\"{class}\">{}</span>", claim.judgement.word()),
            estimate(claim.ratio),
            escape(&(claim.compared.clone() + &because(claim))),
        ]
    });
    format!("<h2>What was claimed</h2>{}", table("plain", &["claim", "", "here", "compared"], rows))
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
