//! The page: one file with its style, its script, its charts and its data, and nothing from elsewhere.

use std::fmt::Write;

use load::Verdict;
use serde_json::Value;

use super::charts::{Chart, charts};
use super::format::{escape, json_for_script};
use super::tables;
use crate::results::Results;

const TEMPLATE: &str = include_str!("../../assets/report.html");
const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");
const LIBRARY: &str = include_str!("../../assets/echarts.min.js");

/// The whole report as one HTML file.
pub fn html(results: &Results) -> String {
    page(
        TEMPLATE,
        &results.title,
        &results.verdict,
        &charts(results),
        &json_for_script(&light(results)),
        &[
            ("name", &escape(&results.name)),
            ("started", &escape(&results.started)),
            ("findings", &list(&results.findings)),
            ("budgets", &tables::budgets(results)),
            ("claims", &tables::claims(results)),
            ("cells", &tables::cells(results)),
            ("errors", &tables::errors(results)),
            ("environment", &tables::environment(results)),
            ("plan", &escape(&results.plan)),
            ("command", &escape(&results.command)),
        ],
    )
}

/// Results without what takes much room and no chart shows: the histograms and the samples of the server.
fn light(results: &Results) -> Results {
    let mut light = results.clone();
    for run in &mut light.runs {
        if let Some(outcome) = &mut run.outcome {
            outcome.response_time_histogram.clear();
            outcome.timeline.iter_mut().for_each(|second| second.histogram.clear());
        }
        if let Some(server) = &mut run.server {
            server.moments.clear();
        }
    }
    light
}

/// A page with what every page has, and some values of its own.
pub(super) fn page(
    template: &str,
    title: &str,
    verdict: &Verdict,
    charts: &[Chart],
    results: &str,
    own: &[(&str, &str)],
) -> String {
    let options: serde_json::Map<String, Value> =
        charts.iter().map(|chart| (chart.id.clone(), chart.options.clone())).collect();
    let common = [
        ("title", &*escape(title)),
        ("style", STYLE),
        ("verdict", &show(verdict)),
        ("charts", &charts.iter().map(section).collect::<String>()),
        ("options", &json_for_script(&options)),
        ("results", results),
        ("library", LIBRARY),
        ("script", SCRIPT),
    ];
    fill(template, &[&common, own].concat())
}

/// Puts values in the places of their names, once: what a value holds is not looked at again.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut parts = template.split("{{");
    let mut page = String::from(parts.next().unwrap_or_default());
    for part in parts {
        let (name, rest) = part.split_once("}}").unwrap_or((part, ""));
        let value = values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        debug_assert!(value.is_some(), "the template names {name}, which nobody fills in");
        page.push_str(value.unwrap_or_default());
        page.push_str(rest);
    }
    page
}

fn show(verdict: &Verdict) -> String {
    let word = verdict.word();
    let meaning = match word {
        "VALID" => "every check of the figures passed",
        "SUSPECT" => "the figures need care",
        _ => "the figures do not mean what they seem to",
    };
    format!(
        "<p class=\"verdict\"><span class=\"{word}\">{word}</span> {meaning}</p>{}",
        list(verdict.reasons())
    )
}

fn list(items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: String = items.iter().map(|item| format!("<li>{}</li>", escape(item))).collect();
    format!("<ul>{items}</ul>")
}

fn section(chart: &Chart) -> String {
    let mut html = String::new();
    let (id, finding) = (escape(&chart.id), escape(&chart.finding));
    let _ = write!(
        html,
        "<section><h2>{}</h2><p>{finding}</p>\
         <div class=\"chart\" id=\"{id}\" role=\"img\" aria-label=\"{finding}\"></div>\
         <details><summary>The figures</summary>{}</details></section>",
        escape(&chart.title),
        tables::behind(chart)
    );
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_looks_like_a_place_is_left_alone() {
        assert_eq!(fill("a {{x}} b {{y}}", &[("x", "{{y}}"), ("y", "1")]), "a {{y}} b 1");
    }
}
