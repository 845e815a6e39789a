//! A surface over two factors, as source A's readers expect it. It hides what is behind its hills, so a heat map stands beside
//! it, and it is drawn on request only.

use serde_json::{Value, json};

use super::chart::{Chart, Figure};
use super::format::number;
use super::isometric::{Grid, Piece, Place, project};
use super::settings::{Factor, Standing, heading, place, rows, title};
use crate::key::{CellKey, levels};
use crate::results::Cell;

/// Most levels of a factor that are written along its axis.
const WRITTEN: usize = 10;

/// How far from the floor names and levels of axes are written, in its lengths.
const LEVELS: f64 = 0.04;
const NAMES: f64 = 0.2;

/// The surface of the rates over two factors; `None` where no four neighbours were measured.
pub(super) fn surface(
    number_of: usize,
    key: &CellKey,
    cells: &[&Cell],
    standing: &Standing<'_>,
    (x, y): (&Factor<'_>, &Factor<'_>),
) -> Option<Chart> {
    let figure = Figure::of(cells);
    let rate = |cell: &Cell| figure.median(cell);
    let heights = cells.iter().filter_map(|cell| Some((place(&cell.key, x, y)?, rate(cell)))).collect();
    let grid = Grid::new((x.1.len(), y.1.len()), heights);
    let pieces = grid.pieces();
    if pieces.is_empty() {
        return None;
    }
    let best = standing.best;
    let (right, up) = short(grid.place(place(&best.key, x, y)?, rate(best)));
    let finding = standing.finding();
    Some(Chart {
        id: format!("surface-{number_of}"),
        title: format!("Surface of {} over {} and {}: {}", figure.title.to_lowercase(), x.0, y.0, title(key)),
        heading: heading(cells),
        rows: rows(cells, standing),
        options: json!({
            "kind": "surface",
            "unit": figure.unit,
            "description": finding,
            "pieces": pieces.iter().map(|piece| drawn(piece, x, y)).collect::<Vec<_>>(),
            "lines": edges(),
            "texts": texts(&grid, x, y),
            "best": { "at": [right, up], "text": format!("{}: {}", levels(&best.key.setting), number(rate(best))) },
        }),
        finding,
    })
}

/// A place with as many decimals as can be seen.
fn short([right, up]: Place) -> (f64, f64) {
    let short = |value: f64| (value * 1e4).round() / 1e4;
    (short(right), short(up))
}

/// A piece as the page draws it: what it is, its height, and its corners.
fn drawn(piece: &Piece, x: &Factor<'_>, y: &Factor<'_>) -> Value {
    let (i, j) = piece.at;
    let name = format!("{} {} to {}, {} {} to {}", x.0, x.1[i], x.1[i + 1], y.0, y.1[j], y.1[j + 1]);
    let mut value = vec![piece.mean.round()];
    for corner in piece.corners {
        let (right, up) = short(corner);
        value.extend([right, up]);
    }
    json!({ "name": name, "value": value })
}

/// The floor, and the axis of the heights at its left.
fn edges() -> Vec<Value> {
    let corners = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)];
    let floor = (0..4).map(|index| {
        let ((x1, y1), (x2, y2)) = (corners[index], corners[(index + 1) % 4]);
        (project(x1, y1, 0.0), project(x2, y2, 0.0))
    });
    let height = (project(0.0, 1.0, 0.0), project(0.0, 1.0, 1.0));
    floor.chain([height]).map(|(from, to)| json!([from[0], from[1], to[0], to[1]])).collect()
}

/// What is written along the axes: names and levels, each where it stands and on which side of that.
fn texts(grid: &Grid, x: &Factor<'_>, y: &Factor<'_>) -> Vec<Value> {
    let text = |at: Place, side: &str, text: &str, is_name: bool| {
        let (right, up) = short(at);
        json!({ "value": [right, up], "text": text, "side": side, "name": is_name })
    };
    let written = |count: usize| (0..count).step_by(count.div_ceil(WRITTEN).max(1));
    let mut texts = Vec::new();
    for index in written(x.1.len()) {
        texts.push(text(project(grid.ground((index, 0)).0, 1.0 + LEVELS, 0.0), "right", x.1[index], false));
    }
    for index in written(y.1.len()) {
        texts.push(text(project(1.0 + LEVELS, grid.ground((0, index)).1, 0.0), "left", y.1[index], false));
    }
    // The floor is 0, where levels stand already.
    for share in [0.5, 1.0] {
        let [right, up] = project(0.0, 1.0, share);
        texts.push(text([right - LEVELS / 2.0, up], "right", &number(grid.most() * share), false));
    }
    texts.push(text(project(0.5, 1.0 + NAMES, 0.0), "right", x.0, true));
    texts.push(text(project(1.0 + NAMES, 0.5, 0.0), "left", y.0, true));
    let [right, up] = project(0.0, 1.0, 1.0);
    texts.push(text([right, up + LEVELS], "left", "requests/s", true));
    texts
}
