//! The chart of searches: how many clients each contender holds.

use serde_json::json;

use super::chart::{Chart, HELD, line_with_whiskers};
use super::format::held_by;
use crate::results::{Cell, Held, Results, fastest};

/// A chart of all contenders, where there were searches.
pub(super) fn held(results: &Results) -> Option<Chart> {
    let cells: Vec<(&Cell, &Held)> =
        results.cells.iter().filter_map(|cell| Some((cell, cell.held.as_ref()?))).collect();
    let best = fastest(cells.iter().map(|(cell, _)| *cell))?;
    let may_hold_more = cells.iter().filter(|(cell, held)| held.at_least && cell.key != best.key).count();
    let others = match may_hold_more {
        0 => HELD.rivals(best, cells.iter().map(|(cell, _)| *cell)),
        1 => "; one other may hold as many".into(),
        more => format!("; {more} others may hold as many"),
    };
    let finding = format!("Most: {} by {}{others}.", held_by(best.held.as_ref()?), best.key.contender());
    let names: Vec<String> = cells
        .iter()
        .map(|(cell, _)| format!("{}, {}", cell.key.contender(), cell.key.circumstances()))
        .collect();
    let points = cells.iter().zip(&names).enumerate();
    let series: Vec<_> = points
        .flat_map(|(at, ((_, held), name))| line_with_whiskers(name, at, vec![(at, held.clients)]))
        .collect();
    let row = |(cell, held): &(&Cell, &Held)| {
        vec![cell.key.contender(), cell.key.circumstances(), held_by(held), held.why.clone()]
    };
    Some(Chart {
        id: "held".into(),
        title: "The most simultaneous clients that each holds".into(),
        heading: ["contender", "path", "clients", "why the search ended"].map(String::from).into(),
        rows: cells.iter().map(row).collect(),
        options: json!({
            "x": { "name": "contender", "values": names },
            "y": { "name": "clients" },
            "description": finding,
            "series": series,
        }),
        finding,
    })
}
