//! The page of an experiment: its findings, its charts, its tables and where it ran.

use super::chart::Chart;
use super::charts::charts;
use super::format::{escape, json_for_script};
use super::page::{Page, list};
use super::tables;
use crate::results::Results;

/// What is between the heading and the command of it.
const BODY: &str = include_str!("../../assets/report.html");

/// The whole report as one HTML file.
pub fn html(results: &Results) -> String {
    with_charts(results, &charts(results, false))
}

/// The same with a surface beside each heat map.
pub fn html_with_surfaces(results: &Results) -> String {
    with_charts(results, &charts(results, true))
}

fn with_charts(results: &Results, charts: &[Chart]) -> String {
    let (name, started) = (escape(&results.name), escape(&results.started));
    let page = Page {
        eyebrow: &format!("Plimsoll lab &middot; {name} &middot; <time>{started}</time>"),
        title: &results.title,
        verdict: &results.verdict,
        charts,
        results: &json_for_script(&light(results)),
        plan: &results.plan,
        command: &results.command,
    };
    page.html(
        BODY,
        &[
            ("findings", &list(&results.findings)),
            ("budgets", &tables::budgets(results)),
            ("claims", &tables::claims(results)),
            ("cells", &tables::cells(results)),
            ("errors", &tables::errors(results)),
            ("environment", &tables::environment(results)),
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
