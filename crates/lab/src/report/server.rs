//! What a server used over time: the chart that a report and the page of one load have in common, and whose it is in a report.

use std::collections::BTreeMap;

use load::report::bytes;
use load::sample::{Moment, ServerUse};
use serde_json::json;

use super::chart::{Chart, line};
use super::format::number;
use crate::results::{Cell, Results, Run, fastest};

/// Most targets whose server is shown over time.
const MOST: usize = 4;

/// What the servers of the leading targets used over time: under the load of the fastest cell, each at its fastest, in the run
/// that is nearest to the median of the cell.
pub(super) fn leading(results: &Results) -> Vec<Chart> {
    let Some(best) = fastest(&results.cells) else { return Vec::new() };
    let load = best.key.without_contender();
    let mut leaders = BTreeMap::<&str, Vec<&Cell>>::new();
    for cell in results.cells.iter().filter(|cell| cell.key.without_contender() == load) {
        leaders.entry(&cell.key.target).or_default().push(cell);
    }
    let mut leaders: Vec<&Cell> = leaders.into_values().filter_map(fastest).collect();
    leaders.sort_by(|a, b| b.requests_per_second.median.total_cmp(&a.requests_per_second.median));
    let charts = leaders.into_iter().filter_map(|cell| Some((cell, typical(results, cell)?))).take(MOST);
    charts
        .enumerate()
        .map(|(number_of, (cell, used))| {
            let chart = server(used);
            Chart {
                id: format!("server-{number_of}"),
                title: format!("{}: {}", chart.title, cell.key),
                ..chart
            }
        })
        .collect()
}

/// What the server used in the run that is nearest to the median of its cell, of those that were watched.
fn typical<'a>(results: &'a Results, cell: &'a Cell) -> Option<&'a ServerUse> {
    let off =
        |run: &Run| run.rate().map_or(f64::INFINITY, |rate| (rate - cell.requests_per_second.median).abs());
    let watched = results.sound(&cell.key).filter_map(|run| Some((off(run), run.server.as_ref()?)));
    let watched = watched.filter(|(_, used)| !used.moments.is_empty());
    watched.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, used)| used)
}

/// The power of ten that leaves one digit before the point of the highest of some values, so that lines of different units are
/// seen in one chart; 1 where there are none.
fn unit(values: impl Iterator<Item = f64>) -> f64 {
    let most = values.fold(0.0, f64::max);
    if most > 0.0 { 10f64.powf(most.log10().floor()) } else { 1.0 }
}

/// Its processor time, memory and switches, moment by moment.
pub(super) fn server(server: &ServerUse) -> Chart {
    let finding = format!(
        "{} us of the server's processor time per request; at most {} resident; {} switches per second.",
        number(server.cpu_us_per_request),
        bytes(server.peak_rss_bytes as f64),
        number((server.voluntary_switches + server.involuntary_switches) as f64 / server.window_s.max(1e-9))
    );
    let mebibytes = |moment: &Moment| moment.rss_bytes as f64 / 1_048_576.0;
    let switches = |moment: &Moment| moment.voluntary_per_second + moment.involuntary_per_second;
    let memory_unit = unit(server.moments.iter().map(mebibytes));
    let switches_unit = unit(server.moments.iter().map(switches));
    let of = |get: &dyn Fn(&Moment) -> f64| server.moments.iter().map(get).collect::<Vec<f64>>();
    let lines: [(String, Vec<f64>); 3] = [
        ("cores".into(), of(&|moment| moment.cores)),
        (format!("resident, in {memory_unit} MiB"), of(&|moment| mebibytes(moment) / memory_unit)),
        (format!("switches per second, in {switches_unit}"), of(&|moment| switches(moment) / switches_unit)),
    ];
    let series = lines.iter().enumerate().map(|(style, (name, values))| {
        let short = |value: f64| (value * 1e3).round() / 1e3;
        let points = server.moments.iter().zip(values);
        let points: Vec<_> =
            points.map(|(moment, value)| json!([short(moment.at_s), short(*value)])).collect();
        line(name, style, &points)
    });
    Chart {
        id: "server".into(),
        title: "The server's processor time, memory and context switches".into(),
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
                    number(switches(moment)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::summary::summarise;

    #[test]
    fn each_leading_target_has_its_typical_run_over_time() {
        let surface =
            |target: &str, round: u32| (f64::from(target.as_bytes()[0]) * 10.0 + f64::from(round), 10.0);
        let targets = ["a", "b", "c", "d", "e", "f"];
        let mut results = fake::results(&targets, 3, surface);
        for run in &mut results.runs {
            let moment = |tenth: u32| Moment {
                at_s: f64::from(tenth) / 10.0,
                cores: 0.9,
                rss_bytes: 300 << 20,
                voluntary_per_second: 4_000.0 + f64::from(run.round),
                ..Moment::default()
            };
            // The first target was not watched.
            let seconds = if run.cell.target == "f" { 0..0 } else { 0..5 };
            run.server.as_mut().unwrap().moments = seconds.map(moment).collect();
        }
        summarise(&mut results, &fake::plan(&targets, ""));
        let charts = leading(&results);
        let titles: Vec<&str> = charts.iter().map(|chart| chart.title.rsplit(": ").next().unwrap()).collect();
        assert_eq!(titles[0], "e at 10 connections, /");
        assert_eq!((titles.len(), charts[3].id.as_str()), (MOST, "server-3"));
        // The second of three rounds is the median.
        let series = &charts[0].options["series"];
        assert_eq!(series[2]["name"], "switches per second, in 1000");
        assert_eq!((&series[2]["data"][1], &series[1]["data"][0][1]), (&json!([0.1, 4.001]), &json!(3.0)));
    }
}
