//! What every page has: its style, its script, its charts and its data in one file, and nothing from elsewhere.

use std::fmt::Write;

use load::Verdict;
use serde_json::Value;

use super::chart::Chart;
use super::format::{escape, json_for_script};
use super::tables;

/// What every page has about its body.
const SHELL: &str = include_str!("../../assets/page.html");
const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");
const LIBRARY: &str = include_str!("../../assets/echarts.min.js");

/// What every page has.
pub(super) struct Page<'a> {
    /// What made it, as HTML.
    pub(super) eyebrow: &'a str,
    pub(super) title: &'a str,
    pub(super) verdict: &'a Verdict,
    pub(super) charts: &'a [Chart],
    /// Most rows of the table behind a chart.
    pub(super) rows: usize,
    /// The raw figures, as JSON that may stand in a script.
    pub(super) results: &'a str,
    pub(super) plan: &'a str,
    pub(super) command: &'a str,
}

impl Page<'_> {
    /// The page with a body of its own, whose places `{{charts}}` and those in `own` are filled in.
    pub(super) fn html(&self, body: &str, own: &[(&str, &str)]) -> String {
        let options: serde_json::Map<String, Value> =
            self.charts.iter().map(|chart| (chart.id.clone(), chart.options.clone())).collect();
        let charts: String = self.charts.iter().map(|chart| section(chart, self.rows)).collect();
        fill(
            SHELL,
            &[
                ("eyebrow", self.eyebrow),
                ("title", &escape(self.title)),
                ("style", STYLE),
                ("verdict", &show(self.verdict)),
                ("body", &fill(body, &[&[("charts", &*charts)], own].concat())),
                ("command", &escape(self.command)),
                ("plan", &escape(self.plan)),
                ("options", &json_for_script(&options)),
                ("results", self.results),
                ("library", LIBRARY),
                ("script", SCRIPT),
            ],
        )
    }
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

/// Items as a list; nothing where there are none.
pub(super) fn list(items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: String = items.iter().map(|item| format!("<li>{}</li>", escape(item))).collect();
    format!("<ul>{items}</ul>")
}

fn section(chart: &Chart, rows: usize) -> String {
    let mut html = String::new();
    let (id, finding) = (escape(&chart.id), escape(&chart.finding));
    let _ = write!(
        html,
        "<section><h2>{}</h2><p>{finding}</p>\
         <div class=\"chart\" id=\"{id}\" role=\"img\" aria-label=\"{finding}\"></div>\
         <details><summary>The figures</summary>{}</details></section>",
        escape(&chart.title),
        tables::behind(chart, rows)
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
