//! The floor: a target of that name does the least that any server can, and is a dashed line in charts of the others.

use serde_json::{Value, json};

use super::chart::Figure;
use crate::key::CellKey;
use crate::results::{Cell, Results};

/// The name of the target.
pub(super) const FLOOR: &str = "floor";

/// The floor under a load. It need not know every condition: how long the work of others takes is none of its.
pub(super) fn beneath<'a>(results: &'a Results, key: &CellKey) -> Option<&'a Cell> {
    let is_beneath = |cell: &&Cell| {
        let own = &cell.key;
        let same = own.connections == key.connections && own.path == key.path && own.close == key.close;
        let mut conditions = own.condition.iter();
        own.target == FLOOR && same && conditions.all(|(name, level)| key.condition.get(name) == Some(level))
    };
    results.cells.iter().find(is_beneath).filter(|_| key.target != FLOOR)
}

/// The floor as a line across so many places of an axis.
pub(super) fn across(cell: &Cell, figure: &Figure, places: usize) -> Option<Value> {
    let height = (figure.get)(cell)?.median;
    Some(dashed(&(0..places).map(|at| json!([at, height])).collect::<Vec<_>>()))
}

/// The floor as a line through points.
pub(super) fn dashed(points: &[Value]) -> Value {
    json!({ "name": FLOOR, "type": "line", "data": points, "style": 0, "floor": true })
}
