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

#[cfg(test)]
mod tests {
    use super::super::chart::FIGURES;
    use super::super::charts::charts;
    use super::*;
    use crate::fake;
    use crate::summary::summarise;

    /// The floor answers some 4,000 per second, and another server 1,000.
    fn measured() -> Results {
        let surface = |target: &str, round: u32| {
            let rate = if target == FLOOR { 4_000.0 } else { 1_000.0 };
            (rate + f64::from(round), 10.0)
        };
        let mut results = fake::results(&[FLOOR, "a"], 3, surface);
        summarise(&mut results, &fake::plan(&[FLOOR, "a"], ""));
        results
    }

    #[test]
    fn the_floor_lies_beneath_every_condition_that_it_does_not_know() {
        let mut results = measured();
        let worked = CellKey { condition: [("work".into(), "1ms".into())].into(), ..fake::key("a", 10) };
        assert_eq!(beneath(&results, &worked).unwrap().key.target, FLOOR);
        assert!(beneath(&results, &CellKey { connections: 11, ..worked.clone() }).is_none());
        assert!(beneath(&results, &fake::key(FLOOR, 10)).is_none(), "not beneath itself");
        results.cells[0].key.condition.insert("work".into(), "2ms".into());
        assert!(beneath(&results, &worked).is_none(), "it knows the condition, at another level");
    }

    #[test]
    fn it_is_a_dashed_line_in_every_plot_of_speed() {
        let charts = charts(&measured(), false);
        for figure in FIGURES.iter().filter(|figure| figure.has_floor()) {
            let chart = charts.iter().find(|chart| chart.id.starts_with(figure.id)).unwrap();
            let series = chart.options["series"].as_array().unwrap();
            assert!(series.iter().any(|one| one["name"] == FLOOR && one["floor"] == true), "{}", figure.id);
        }
        let forest = charts.iter().find(|chart| chart.id == "forest-0").unwrap();
        assert_eq!(forest.options["floor"], 1.0);
    }
}
