//! What a server used over time: the chart that a report and the page of one load have in common.

use load::report::bytes;
use load::sample::{Moment, ServerUse};
use serde_json::json;

use super::chart::{Chart, Line, line};
use super::format::number;

/// Its processor time and memory, moment by moment.
pub(super) fn server(server: &ServerUse) -> Chart {
    let finding = format!(
        "{} us of the server's processor time per request; at most {} resident.",
        number(server.cpu_us_per_request),
        bytes(server.peak_rss_bytes as f64)
    );
    let lines: [Line<'_, Moment>; 2] = [
        ("cores", |moment| moment.cores),
        ("resident, in 100 MiB", |moment| moment.rss_bytes as f64 / 104_857_600.0),
    ];
    let series = lines.iter().enumerate().map(|(style, (name, get))| {
        let points: Vec<_> = server.moments.iter().map(|moment| json!([moment.at_s, get(moment)])).collect();
        line(name, style, &points)
    });
    Chart {
        id: "server".into(),
        title: "The server's processor time and memory".into(),
        heading: ["second", "cores", "resident", "descriptors", "workers", "switches per second"]
            .map(String::from)
            .into(),
        rows: server
            .moments
            .iter()
            .map(|moment| {
                vec![
                    format!("{:.1}", moment.at_s),
                    number(moment.cores),
                    bytes(moment.rss_bytes as f64),
                    moment.descriptors.to_string(),
                    moment.workers.to_string(),
                    number(moment.voluntary_per_second + moment.involuntary_per_second),
                ]
            })
            .collect(),
        options: json!({
            "x": { "name": "second" },
            "y": { "name": "", "zero": true },
            "description": finding,
            "series": series.collect::<Vec<_>>(),
        }),
        finding,
    }
}
