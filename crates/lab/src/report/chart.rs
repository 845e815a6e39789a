//! What a chart is made of: its figure, its lines, and the intervals about them.

use serde_json::{Value, json};

use super::format::mebibytes;
use crate::results::{Cell, Estimate};

/// One chart.
pub(super) struct Chart {
    pub(super) id: String,
    pub(super) title: String,
    /// What it says, in one sentence.
    pub(super) finding: String,
    /// The table behind it: its heading and its rows, as text.
    pub(super) heading: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    pub(super) options: Value,
}

/// A figure of a cell.
pub(super) struct Figure {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    /// Whether more is better.
    pub(super) more: bool,
    pub(super) get: fn(&Cell) -> Option<Estimate>,
}

pub(super) const FIGURES: [Figure; 7] = [
    Figure {
        id: "held",
        title: "Clients held",
        unit: "clients",
        more: true,
        get: |cell| Some(cell.held.as_ref()?.clients),
    },
    Figure {
        id: "rate",
        title: "Requests per second",
        unit: "requests/s",
        more: true,
        get: |cell| Some(cell.requests_per_second),
    },
    Figure {
        id: "cpu",
        title: "Processor time of the server per request",
        unit: "us",
        more: false,
        get: |cell| cell.server_cpu_us_per_request,
    },
    Figure {
        id: "p99",
        title: "Response time, 99th percentile",
        unit: "us",
        more: false,
        get: |cell| cell.p99_us,
    },
    Figure { id: "p50", title: "Response time, median", unit: "us", more: false, get: |cell| cell.p50_us },
    Figure {
        id: "bytes",
        title: "Bytes of answers per second",
        unit: "MiB/s",
        more: true,
        get: |cell| mebibytes(cell.bytes_per_second),
    },
    Figure {
        id: "memory",
        title: "Most resident memory of the server",
        unit: "MiB",
        more: false,
        get: |cell| mebibytes(cell.peak_rss_bytes),
    },
];

impl Figure {
    /// The median of a cell, or 0 where it has none.
    pub(super) fn median(&self, cell: &Cell) -> f64 {
        (self.get)(cell).map_or(0.0, |estimate| estimate.median)
    }

    /// The best of some cells.
    pub(super) fn best<'a>(&self, cells: impl Iterator<Item = &'a Cell>) -> Option<&'a Cell> {
        let order = |a: &&Cell, b: &&Cell| self.median(a).total_cmp(&self.median(b));
        if self.more { cells.max_by(order) } else { cells.min_by(order) }
    }
}

/// A line of a chart: its name, and its value at a point.
pub(super) type Line<'a, P> = (&'a str, fn(&P) -> f64);

/// A line through points.
pub(super) fn line(name: &str, style: usize, points: &[Value]) -> Value {
    json!({ "name": name, "type": "line", "data": points, "style": style })
}

/// A line through the medians of estimates, each at its place, and a whisker for the interval of each. The page's script
/// draws whiskers: in the colour of their line, and off with it in the legend.
pub(super) fn line_with_whiskers(name: &str, style: usize, mut points: Vec<(usize, Estimate)>) -> [Value; 2] {
    points.sort_by_key(|(at, _)| *at);
    let medians: Vec<_> = points.iter().map(|(at, estimate)| json!([at, estimate.median])).collect();
    let whisker = |(at, estimate): &(usize, Estimate)| {
        let (low, high) = estimate.interval()?;
        Some(json!([at, low, high]))
    };
    let whiskers: Vec<_> = points.iter().filter_map(whisker).collect();
    let whiskers =
        json!({ "name": name, "type": "custom", "whiskers": true, "data": whiskers, "style": style });
    [line(name, style, &medians), whiskers]
}
