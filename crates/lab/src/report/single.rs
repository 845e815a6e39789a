//! One load as a page: its times by percentile, its seconds, what the server used.

use load::report::{duration, text};
use load::{Distribution, Outcome, Second};
use serde_json::{Value, json};

use super::chart::{Chart, Line, line};
use super::format::{escape, json_for_script, number};
use super::page::Page;
use super::server::server;

/// What is between the heading and the command of a page about one load.
pub(super) const BODY: &str = include_str!("../../assets/single.html");

/// A load as one HTML file, with the command that repeats it.
pub fn single(outcome: &Outcome, command: &str) -> String {
    let plan = serde_json::to_string_pretty(&outcome.plan).unwrap_or_default();
    let title = format!("{} {}", outcome.plan.method, outcome.plan.url);
    let charts: Vec<Chart> = [
        percentiles(outcome),
        Some(rate(outcome)),
        Some(times(outcome)),
        outcome.server.as_ref().map(server),
    ]
    .into_iter()
    .flatten()
    .collect();
    let page = Page {
        eyebrow: "Plimsoll bench",
        title: &title,
        verdict: &outcome.verdict,
        charts: &charts,
        rows: usize::MAX,
        results: &json_for_script(outcome),
        plan: &plan,
        command,
    };
    page.html(BODY, &[("summary", &escape(&text(outcome)))])
}

/// Response time by percentile, and beside it the service time where that is another thing.
fn percentiles(outcome: &Outcome) -> Option<Chart> {
    let all = outcome.response_time_us.percentiles();
    let known: Vec<&str> = all.iter().filter(|(_, us)| us.is_some()).map(|(name, _)| *name).collect();
    let (last, longest) = all.iter().rev().find_map(|(name, us)| Some((*name, (*us)?)))?;
    let finding = format!(
        "Half of the requests took at most {}, and {last} is {}.",
        duration(outcome.response_time_us.p50? as f64),
        duration(longest as f64)
    );
    let mut lines = vec![("response time", &outcome.response_time_us)];
    if let Some(offered) = &outcome.offered {
        lines.push(("service time", &offered.service_time_us));
        lines.push(("send lag", &offered.send_lag_us));
    }
    let points = |times: &Distribution| -> Vec<Value> {
        let values = times.percentiles();
        (0..known.len()).filter_map(|at| Some(json!([at, values[at].1?]))).collect()
    };
    let series = lines.iter().enumerate().map(|(style, (name, times))| line(name, style, &points(times)));
    let cells = |at: usize| lines.iter().map(move |(_, times)| times.percentiles()[at].1);
    Some(Chart {
        id: "percentiles".into(),
        title: "Response time by percentile".into(),
        heading: std::iter::once("percentile")
            .chain(lines.iter().map(|(name, _)| *name))
            .map(String::from)
            .collect(),
        rows: (0..known.len())
            .map(|at| {
                let values = cells(at).map(|us| us.map_or("n/a".into(), |us| duration(us as f64)));
                std::iter::once(known[at].to_string()).chain(values).collect()
            })
            .collect(),
        options: json!({
            "x": { "name": "percentile", "values": known },
            "y": { "name": "us", "log": true },
            "description": finding,
            "series": series.collect::<Vec<_>>(),
        }),
        finding,
    })
}

/// A chart over the seconds of a load.
fn over_time(
    id: &str,
    title: &str,
    finding: String,
    unit: &str,
    outcome: &Outcome,
    lines: &[Line<'_, Second>],
) -> Chart {
    let seconds = &outcome.timeline;
    let series = lines.iter().enumerate().map(|(style, (name, get))| {
        let points: Vec<_> = seconds.iter().map(|second| json!([second.at_s, get(second)])).collect();
        line(name, style, &points)
    });
    Chart {
        id: id.into(),
        title: title.into(),
        heading: std::iter::once("second")
            .chain(lines.iter().map(|(name, _)| *name))
            .map(String::from)
            .collect(),
        rows: seconds
            .iter()
            .map(|second| {
                std::iter::once(second.at_s.to_string())
                    .chain(lines.iter().map(|(_, get)| number(get(second))))
                    .collect()
            })
            .collect(),
        options: json!({
            "x": { "name": "second" },
            "y": { "name": unit, "zero": true },
            "description": finding,
            "series": series.collect::<Vec<_>>(),
        }),
        finding,
    }
}

fn per_second(count: u64, second: &Second) -> f64 {
    count as f64 / second.length_s.max(1) as f64
}

fn rate(outcome: &Outcome) -> Chart {
    // The last second may be cut short.
    let whole: Vec<u64> = outcome
        .timeline
        .iter()
        .take(outcome.duration_s as usize)
        .map(|second| per_second(second.requests, second) as u64)
        .collect();
    let finding = match (whole.iter().min(), whole.iter().max()) {
        (Some(least), Some(most)) => format!(
            "{} requests per second in all; between {} and {} in single seconds.",
            number(outcome.requests_per_second),
            number(*least as f64),
            number(*most as f64)
        ),
        _ => format!("{} requests per second.", number(outcome.requests_per_second)),
    };
    over_time(
        "rate",
        "Answers and errors, second by second",
        finding,
        "requests/s",
        outcome,
        &[
            ("answers", |second| per_second(second.requests, second)),
            ("errors", |second| per_second(second.errors, second)),
        ],
    )
}

fn times(outcome: &Outcome) -> Chart {
    let slowest = outcome.timeline.iter().max_by_key(|second| second.max_us);
    let finding = slowest.map_or("No request got an answer.".into(), |second| {
        format!("The slowest answer took {}, in second {}.", duration(second.max_us as f64), second.at_s)
    });
    over_time(
        "times",
        "Response time, second by second",
        finding,
        "us",
        outcome,
        &[
            ("p50", |second| second.p50_us as f64),
            ("p99", |second| second.p99_us as f64),
            ("max", |second| second.max_us as f64),
        ],
    )
}
