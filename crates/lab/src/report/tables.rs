//! The tables of the page: what every chart shows in figures, and all else that is not a chart.

use std::fmt::Write;

use load::verdict::bad_answers;

use super::chart::Chart;
use super::format::{HEADING, because, came_out, connections, escape, estimate, mebibytes};
use crate::results::{Cell, Judgement, Results};

/// A table: what it is of, for who does not see what is above it, its heading, and its rows, whose cells are escaped already;
/// of these as many as there is room for. Who has a keyboard only can scroll it.
fn table(class: &str, caption: &str, heading: &[&str], rows: &[Vec<String>], most: usize) -> String {
    let caption = escape(caption);
    let mut html = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table class=\"{class}\">\
         <caption>{caption}</caption><thead><tr>"
    );
    for name in heading {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(name));
    }
    html.push_str("</tr></thead><tbody>");
    for row in rows.iter().take(most) {
        html.push_str("<tr>");
        for cell in row {
            let _ = write!(html, "<td>{cell}</td>");
        }
        html.push_str("</tr>");
    }
    if rows.len() > most {
        let more = rows.len() - most;
        let _ = write!(html, "<tr><td colspan=\"{}\">and {more} more rows</td></tr>", heading.len());
    }
    html.push_str("</tbody></table></div>");
    html
}

/// All cells with all figures; where there is no room for all, the best of each load and the first of the others.
pub(super) fn cells(results: &Results, most: usize) -> String {
    let heading: Vec<&str> = HEADING.into_iter().chain(["rounds"]).collect();
    let mut shown: Vec<(usize, &Cell)> = results.cells.iter().enumerate().collect();
    if shown.len() > most {
        shown.sort_by_key(|(at, cell)| (!cell.tied_best, *at));
        shown[..most].sort_by_key(|(at, _)| *at);
    }
    let rows = shown.iter().map(|(_, cell)| {
        let best = if cell.is_marked() {
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
    table("figures", "Every cell", &heading, &rows.collect::<Vec<_>>(), most)
}

/// The figures behind a chart.
pub(super) fn behind(chart: &Chart, most: usize) -> String {
    let heading: Vec<&str> = chart.heading.iter().map(String::as_str).collect();
    let rows = chart.rows.iter().map(|row| row.iter().map(|cell| escape(cell)).collect());
    let rows: Vec<_> = rows.collect();
    table("figures", &format!("The figures of: {}", chart.title), &heading, &rows, most)
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
    let table =
        table("figures", "Budgets", &["budget", "ratio", "outcome"], &rows.collect::<Vec<_>>(), usize::MAX);
    format!("<h2>Budgets</h2>{table}")
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
            format!("{} <small>{}</small>{}", escape(&claim.text), escape(&claim.source), note(&claim.note)),
            format!("<span class=\"{class}\">{}</span>", claim.judgement.word()),
            estimate(claim.ratio),
            escape(&(claim.compared.clone() + &because(claim))),
        ]
    });
    let heading = ["claim", "outcome", "here", "compared"];
    let table = table("plain", "What was claimed", &heading, &rows.collect::<Vec<_>>(), usize::MAX);
    format!("<h2>What was claimed</h2>{table}")
}

/// What the method behind a claim could show, if anything is said of it.
fn note(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<br><small>{}</small>", escape(text)) }
}

/// Requests that got no answer, or one with an error status that was not expected, by kind; only kinds and cells that have any.
pub(super) fn errors(results: &Results, most: usize) -> String {
    let rows = error_rows(results);
    if rows.is_empty() {
        return "<p>No request failed.</p>".into();
    }
    table("figures", "Requests that failed", &["cell", "round", "kind", "count"], &rows, most)
}

/// How many rows of errors there are.
pub(super) fn error_count(results: &Results) -> usize {
    error_rows(results).len()
}

fn error_rows(results: &Results) -> Vec<Vec<String>> {
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
        let beside = run.beside.iter().map(|outcome| ("beside: ", outcome));
        for (whose, outcome) in run.outcome.iter().map(|outcome| ("", outcome)).chain(beside) {
            let errors =
                outcome.errors.named().into_iter().map(|(kind, count)| (kind.replace('_', " "), count));
            let answers = bad_answers(outcome).map(|(status, count)| (format!("status {status}"), count));
            for (kind, count) in errors.chain(answers).filter(|(_, count)| *count > 0) {
                rows.push(vec![
                    escape(&run.cell.to_string()),
                    (run.round + 1).to_string(),
                    format!("{whose}{kind}"),
                    count.to_string(),
                ]);
            }
        }
    }
    rows
}

/// Where the experiment ran.
pub(super) fn environment(results: &Results) -> String {
    let rows = results.environment.iter().map(|(name, value)| vec![escape(name), escape(value)]);
    table("plain", "The host", &["what", "value"], &rows.collect::<Vec<_>>(), usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::summary::summarise;

    #[test]
    fn what_the_method_behind_a_claim_could_show_stands_with_it() {
        let claim =
            "[[claim]]\ntext = \"x\"\nnote = \"one run < two\"\nleft = { target = \"a\" }\nat_least = 1\n";
        let mut results = fake::results(&["a"], 3, |_, _| (1_000.0, 10.0));
        summarise(&mut results, &fake::plan(&["a"], claim));
        assert!(claims(&results).contains("<br><small>one run &lt; two</small>"), "{}", claims(&results));
        assert!(crate::report::markdown(&results).contains(" Its method: one run < two"));
    }

    #[test]
    fn answers_with_an_error_status_are_requests_that_failed() {
        let mut results = fake::results(&["a"], 3, |_, _| (1_000.0, 10.0));
        assert_eq!(errors(&results, usize::MAX), "<p>No request failed.</p>");
        let outcome = results.runs[1].outcome.as_mut().unwrap();
        outcome.statuses.extend([(503, 30), (404, 7)]);
        outcome.plan.expect.statuses.push(404);
        let said = errors(&results, usize::MAX);
        assert!(said.contains("<td>2</td><td>status 503</td><td>30</td>") && !said.contains("404"), "{said}");
        assert_eq!(error_count(&results), 1);
    }
}
