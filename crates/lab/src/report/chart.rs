//! What a chart is made of: its figure, its lines, and the intervals about them.

use serde_json::{Value, json};

use super::floor::{FLOOR, dashed};
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

/// Sizes of answers that are no further apart than this are alike: heads of some 200 bytes make no other picture.
const ALIKE: f64 = 1.25;

/// The rate.
pub(super) const RATE: Figure = Figure {
    id: "rate",
    title: "Requests per second",
    unit: "requests/s",
    more: true,
    get: |cell| Some(cell.requests_per_second),
};

/// The clients that searches found.
pub(super) const HELD: Figure = Figure {
    id: "held",
    title: "Clients held",
    unit: "clients",
    more: true,
    get: |cell| Some(cell.held.as_ref()?.clients),
};

/// The figures that charts are of.
pub(super) const FIGURES: [Figure; 7] = [
    HELD,
    RATE,
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
    /// Whether a chart of it says more of some cells, which all have it, than that of the rate: bytes do where answers differ
    /// in size.
    pub(super) fn is_worth_a_chart(&self, cells: &[&Cell]) -> bool {
        let sizes = || cells.iter().map(|cell| self.median(cell) / RATE.median(cell));
        let (least, most) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
        !cells.is_empty() && (self.id != "bytes" || most > ALIKE * least)
    }

    /// Whether it is a speed, of which a floor is the limit.
    pub(super) fn has_floor(&self) -> bool {
        matches!(self.id, "rate" | "cpu")
    }

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

impl Figure {
    /// By what cells are compared: the clients that searches found, or the rate.
    pub(super) fn of(cells: &[&Cell]) -> &'static Figure {
        if cells.iter().any(|cell| cell.held.is_some()) { &HELD } else { &RATE }
    }

    /// What is added to who is best of some cells: how many others nobody can tell from it, since their intervals reach its own
    /// or there is none.
    pub(super) fn rivals<'a>(&self, best: &Cell, cells: impl Iterator<Item = &'a Cell>) -> String {
        let interval = |cell: &Cell| (self.get)(cell).and_then(|estimate| estimate.interval());
        let reaches = |other: &&Cell| {
            let (Some((low, high)), Some((own_low, own_high))) = (interval(other), interval(best)) else {
                return true;
            };
            if self.more { high >= own_low } else { low <= own_high }
        };
        let others = cells.filter(|cell| cell.key != best.key && (self.get)(cell).is_some());
        match others.filter(reaches).count() {
            0 => String::new(),
            1 => " (one other cannot be told from it)".into(),
            rivals => format!(" ({rivals} others cannot be told from it)"),
        }
    }
}

/// Of many things those that stand for all: the first, the last, and some between.
pub(super) fn spread<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let last = all.len().saturating_sub(1);
    if last < most {
        return all;
    }
    let chosen: Vec<usize> = (0..most).map(|at| at * last / (most - 1).max(1)).collect();
    let chosen = |(at, thing): (usize, T)| chosen.contains(&at).then_some(thing);
    all.into_iter().enumerate().filter_map(chosen).collect()
}

/// Says in the first of some charts that they are of so many of all.
pub(super) fn note_drawn(charts: &mut [Chart], drawn: usize, all: usize, what: &str) {
    if let Some(first) = charts.first_mut().filter(|_| drawn < all) {
        first.finding += &format!(" {drawn} of {all} {what} are drawn.");
    }
}

/// A line of a chart: its name, and its value at a point.
pub(super) type Line<'a, P> = (&'a str, fn(&P) -> f64);

/// A line through points.
pub(super) fn line(name: &str, style: usize, points: &[Value]) -> Value {
    json!({ "name": name, "type": "line", "data": points, "style": style })
}

/// A line for a target through the medians of estimates, each at its place, and a whisker for the interval of each; the floor
/// is a dashed line. The page's script draws whiskers: in the colour of their line, and off with it in the legend.
pub(super) fn line_with_whiskers(name: &str, style: usize, points: Vec<(usize, Estimate)>) -> Vec<Value> {
    let (medians, intervals) = medians(points);
    if name == FLOOR {
        return vec![dashed(&medians)];
    }
    let whiskers =
        json!({ "name": name, "type": "custom", "whiskers": true, "data": intervals, "style": style });
    vec![line(name, style, &medians), whiskers]
}

/// The same with a band between the ends of the intervals in place of whiskers.
pub(super) fn line_with_band(name: &str, style: usize, points: Vec<(usize, Estimate)>) -> Vec<Value> {
    let (medians, intervals) = medians(points);
    let band = json!({ "name": name, "type": "custom", "band": true, "data": intervals, "style": style });
    vec![line(name, style, &medians), band]
}

/// The medians, each at its place, and the ends of the intervals of those that have one.
fn medians(mut points: Vec<(usize, Estimate)>) -> (Vec<Value>, Vec<Value>) {
    points.sort_by_key(|(at, _)| *at);
    let ends = |(at, estimate): &(usize, Estimate)| {
        let (low, high) = estimate.interval()?;
        Some(json!([at, low, high]))
    };
    let intervals = points.iter().filter_map(ends).collect();
    (points.iter().map(|(at, estimate)| json!([at, estimate.median])).collect(), intervals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn of_many_things_the_first_the_last_and_some_between_stand_for_all() {
        assert_eq!(spread((0..5).collect(), 6), [0, 1, 2, 3, 4]);
        assert_eq!(spread((0..6).collect(), 6), [0, 1, 2, 3, 4, 5]);
        assert_eq!(spread((0..50).collect(), 6), [0, 9, 19, 29, 39, 49]);
        assert_eq!(spread(vec![7, 8, 9], 1), [7]);
    }

    #[test]
    fn who_is_best_is_not_said_without_those_that_may_be() {
        let rate = |target: &str, rate: f64| fake::cell(fake::key(target, 10), rate);
        // One per cent either way.
        let cells = [rate("a", 1_000.0), rate("b", 985.0), rate("c", 900.0)];
        let said = |cells: &[Cell]| RATE.rivals(&cells[0], cells.iter());
        assert_eq!(said(&cells), " (one other cannot be told from it)");
        assert_eq!(said(&cells[..1]), "");
        let mut once = cells;
        once[2].requests_per_second = Estimate { low: None, high: None, ..once[2].requests_per_second };
        assert_eq!(said(&once), " (2 others cannot be told from it)");
    }
}
