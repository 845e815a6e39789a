//! A second load beside that of an experiment: other requests to the same server at the same time.

use std::net::SocketAddr;

use load::Stop;
use serde::Deserialize;

use super::explain::Problem;
use super::{Plan, filled, nowhere};
use crate::key::CellKey;

/// Keeps the arrivals of both loads apart: without it they would come at the same moments.
const SEED: u64 = 1 << 32;

/// Another load on the same server at the same time, over keep-alive connections of its own. Its answers are kept with each
/// run, and are in none of the cell's figures but the processor time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// What is asked for. Factors are filled in.
    pub path: String,
    /// Connections.
    pub connections: u32,
    /// Open loop at this rate, as `plimsoll bench --rate` reads it; `closed` for none. Factors are filled in.
    pub rate: String,
}

impl Beside {
    /// Every text in which factors are filled in.
    pub(super) fn texts(&self) -> [&String; 2] {
        [&self.path, &self.rate]
    }
}

impl Plan {
    /// The load beside that of a cell in a round, if there is one. It is measured for as long, and an answer counts as there.
    ///
    /// # Errors
    /// What of it cannot be read.
    pub(crate) fn load_beside(
        &self,
        key: &CellKey,
        round: u32,
        address: SocketAddr,
    ) -> Result<Option<load::Plan>, String> {
        let Some(Beside { path, connections, rate }) = &self.beside else { return Ok(None) };
        let seed = self.seed.wrapping_add(round.into()) ^ SEED;
        let arrivals = super::load::arrivals(&filled(rate, &key.condition), seed, 0.0)
            .map_err(|error| format!("beside.rate: {error}"))?;
        Ok(Some(load::Plan {
            arrivals,
            sources: self.load.sources,
            expect: self.expect(),
            connections: *connections,
            threads: 1,
            stop: Stop::Seconds(self.duration_s),
            warmup_s: self.warmup_s,
            timeout_s: self.timeout_s(),
            cpus: self.load_cpus.clone(),
            ..load::Plan::new(format!("http://{address}{}", filled(path, &key.condition)))
        }))
    }
}

/// What a load beside must keep beyond its types.
pub(super) fn check(plan: &Plan) -> Result<(), Problem> {
    let Some(Beside { path, connections, .. }) = &plan.beside else { return Ok(()) };
    if !path.starts_with('/') {
        return Err(Problem::at("beside.path", format!("path {path:?}: must begin with /")));
    }
    if *connections == 0 {
        return Err(Problem::at("beside.connections", "connections must be at least 1"));
    }
    plan.cells().iter().try_for_each(|cell| {
        let load = plan.load_beside(cell, 0, nowhere()).map_err(|text| Problem::at("beside.rate", text))?;
        load.map_or(Ok(()), super::load::sound).map_err(|text| Problem::at("beside", text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::{Arrivals, Rate};

    fn parse(beside: &str) -> Result<Plan, String> {
        let text = format!(
            "title = \"t\"\nconnections = [1]\npaths = [\"/\"]\nduration_s = 2\n[load]\nexpect_status = [200]\n\
             [factor]\nrate = [100, 200]\n[beside]\n{beside}\n[[target]]\nname = \"a\"\nmodel = \"reactor\"\n"
        );
        Plan::parse(&text, "x.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn its_factors_are_conditions_and_its_arrivals_are_its_own() {
        let plan = parse("path = \"/fast\"\nconnections = 5\nrate = \"{rate}\"").unwrap();
        let cells = plan.cells();
        assert_eq!((cells.len(), cells[1].condition["rate"].as_str()), (2, "200"));
        let beside = plan.load_beside(&cells[1], 3, ([127, 0, 0, 1], 80).into()).unwrap().unwrap();
        assert_eq!((beside.url.as_str(), beside.connections), ("http://127.0.0.1:80/fast", 5));
        assert_eq!((beside.stop, &beside.expect.statuses[..]), (Stop::Seconds(2.0), &[200][..]));
        let Arrivals::Open { rate, seed, .. } = beside.arrivals else { panic!("{:?}", beside.arrivals) };
        assert_eq!((rate, seed), (Rate::Steady { rate: 200.0 }, 3 | SEED));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_line() {
        let rest = "\nconnections = 5\nrate = \"{rate}\"";
        for (beside, message) in [
            (format!("path = \"x\"{rest}"), "line 10: path \"x\": must begin with /"),
            (
                "path = \"/\"\nconnections = 0\nrate = \"{rate}\"".into(),
                "line 11: connections must be at least 1",
            ),
            (format!("path = \"/{{rat}}\"{rest}"), "line 3: {rat} in a path or the load is no factor"),
            ("path = \"/a b\"\nconnections = 1\nrate = \"{rate}\"".into(), "line 9: "),
            (
                "path = \"/{rate}\"\nconnections = 1\nrate = \"fast\"".into(),
                "line 12: beside.rate: \"fast\" is no number",
            ),
        ] {
            let said = parse(&beside).unwrap_err();
            assert!(said.starts_with(&format!("x.toml: {message}")), "{said}");
        }
    }
}
