//! A capacity search as a page: response times over the level that was tried, up to the knee and past it.

use load::capacity::{Capacity, Probe};
use load::report::duration;
use load::verdict::Verdict;
use serde_json::json;

use super::chart::Chart;
use super::format::{escape, json_for_script, number};
use super::page::Page;
use super::single::BODY;

/// A capacity search as one HTML file, with what it says in text and the command that repeats it.
pub fn knee(url: &str, said: &str, found: &Capacity, command: &str) -> String {
    let mut verdict = Verdict::default();
    if !found.confirmed {
        verdict.suspect(
            "tried again at the end for three times as long, the level mostly missed the target, or it cannot be told"
                .into(),
        );
    }
    if found.probes.iter().any(|probe| probe.client_bound && probe.missed()) {
        verdict.suspect("the load generator was at its own limit where the target was missed".into());
    }
    if found.spoilt() > 0 {
        verdict.suspect(format!(
            "{} of the probes that missed the target began before the server had drained: it may carry more",
            found.spoilt()
        ));
    }
    found.doubts().iter().for_each(|doubt| verdict.suspect(doubt.clone()));
    let title = format!("How much {url} carries");
    let page = Page {
        eyebrow: "Plimsoll capacity",
        title: &title,
        verdict: &verdict,
        charts: &[chart(found)],
        rows: usize::MAX,
        results: &json_for_script(found),
        plan: "",
        command,
    };
    page.html(BODY, &[("summary", &escape(said))])
}

fn chart(found: &Capacity) -> Chart {
    let unit = found.what.unit();
    let finding = match found.below {
        Some(below) => {
            format!("Carries {} {unit}, and less than {}.", number(found.at_least), number(below))
        }
        None => format!("Carries at least {} {unit}.", number(found.at_least)),
    };
    // The axis is logarithmic: it has no 0.
    let points = |kept: bool, get: fn(&Probe) -> u64| -> Vec<_> {
        let told = found.probes.iter().filter(|probe| !probe.undecided && probe.max_us > 0);
        let probes = told.filter(|probe| probe.kept == kept);
        probes.map(|probe| json!([probe.level, get(probe).max(1)])).collect()
    };
    Chart {
        id: "knee".into(),
        title: "Response time over the load".into(),
        heading: [unit, "answers per second", "p50", "p99", "longest", "target"].map(String::from).into(),
        rows: found
            .probes
            .iter()
            .map(|probe| {
                let time = |us: Option<u64>| us.map_or("n/a".into(), |us| duration(us as f64));
                let why = probe.reasons.join("; ");
                let word = match probe {
                    Probe { undecided: true, .. } => format!("not known: {why}"),
                    Probe { kept: true, .. } => "kept".into(),
                    Probe { .. } => format!("missed: {why}"),
                };
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
                { "name": "median", "type": "scatter", "data": points(true, Probe::early_us), "style": 0 },
                { "name": "99th percentile, kept", "type": "scatter", "data": points(true, Probe::late_us), "style": 2 },
                { "name": "99th percentile, missed", "type": "scatter", "data": points(false, Probe::late_us), "style": 1 },
            ],
        }),
        finding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{probe, searched};

    #[test]
    fn the_page_has_the_verdict_of_its_text() {
        let results = searched(&[("a", 10.0)], 1);
        let mut found = results.runs[0].search.clone().unwrap();
        let is_suspect = |found: &Capacity| {
            knee("http://x/", "said", found, "plimsoll capacity").contains("before the server had drained")
        };
        found.probes = vec![probe(true, false), probe(false, false)];
        assert!(!is_suspect(&found));
        found.probes.push(probe(false, true));
        assert!(is_suspect(&found));
        // What could not be told has missed nothing.
        found.probes[2].undecided = true;
        assert!(!is_suspect(&found));
    }
}
