//! A capacity search as a page: response times over the level that was tried, up to the knee and past it.

use load::capacity::{Capacity, Probe, What};
use load::report::duration;
use load::verdict::Verdict;
use serde_json::json;

use super::charts::Chart;
use super::format::{escape, json_for_script, number};
use super::page::page;

const TEMPLATE: &str = include_str!("../../assets/single.html");

/// A capacity search as one HTML file, with what it says in text and the command that repeats it.
pub fn knee(url: &str, said: &str, found: &Capacity, command: &str) -> String {
    let mut verdict = Verdict::default();
    if !found.confirmed {
        verdict.suspect("tried again at the end for three times as long, the level missed the target".into());
    }
    if found.probes.iter().any(|probe| probe.client_bound && !probe.kept) {
        verdict.suspect("the load generator was at its own limit where the target was missed".into());
    }
    let title = format!("How much {url} carries");
    let own = [("summary", &*escape(said)), ("command", &escape(command)), ("plan", "")];
    page(TEMPLATE, &title, &verdict, &[chart(found)], &json_for_script(found), &own)
}

fn chart(found: &Capacity) -> Chart {
    let unit = match found.what {
        What::Rate => "requests per second",
        What::Clients => "clients",
    };
    let finding = match found.below {
        Some(below) => {
            format!("Carries {} {unit}, and less than {}.", number(found.at_least), number(below))
        }
        None => format!("Carries at least {} {unit}.", number(found.at_least)),
    };
    // Where too few answers came for a 99th percentile, the longest time stands for it.
    let late = |probe: &Probe| probe.p99_us.unwrap_or(probe.max_us).max(1);
    let points = |kept: bool, get: &dyn Fn(&Probe) -> u64| -> Vec<_> {
        let probes = found.probes.iter().filter(|probe| probe.kept == kept && probe.max_us > 0);
        probes.map(|probe| json!([probe.level, get(probe)])).collect()
    };
    let early = |probe: &Probe| probe.p50_us.unwrap_or_else(|| late(probe)).max(1);
    Chart {
        id: "knee".into(),
        title: "Response time over the load".into(),
        heading: [unit, "answers per second", "p50", "p99", "longest", "target"].map(String::from).into(),
        rows: found
            .probes
            .iter()
            .map(|probe| {
                let time = |us: Option<u64>| us.map_or("n/a".into(), |us| duration(us as f64));
                let word =
                    if probe.kept { "kept".into() } else { format!("missed: {}", probe.reasons.join("; ")) };
                vec![
                    number(probe.level),
                    number(probe.requests_per_second),
                    time(probe.p50_us),
                    time(probe.p99_us),
                    duration(probe.max_us as f64),
                    word,
                ]
            })
            .collect(),
        options: json!({
            "x": { "name": unit },
            "y": { "name": "us", "log": true },
            "description": finding,
            "series": [
                { "name": "median", "type": "scatter", "data": points(true, &early), "style": 0 },
                { "name": "99th percentile, kept", "type": "scatter", "data": points(true, &late), "style": 2 },
                { "name": "99th percentile, missed", "type": "scatter", "data": points(false, &late), "style": 1 },
            ],
        }),
        finding,
    }
}
