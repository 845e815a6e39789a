//! For tests: runs that were never made, with figures from a formula.

use std::collections::BTreeMap;

use load::capacity::{Capacity, End, Probe, What};
use load::sample::ServerUse;
use load::{Client, Distribution, Outcome, Stop, Verdict};

use crate::key::{CellKey, SEARCHED};
use crate::plan::{Plan, nowhere};
use crate::results::{Cell, Estimate, Results, Run, SCHEMA};

/// A cell of a target at a number of connections.
pub(crate) fn key(target: &str, connections: u32) -> CellKey {
    CellKey { target: target.into(), connections, path: "/".into(), ..CellKey::default() }
}

/// What a second of load would find at a rate, where a request costs the server some time in microseconds. It
/// keeps Little's law.
pub(crate) fn measured(key: &CellKey, rate: f64, cpu_us: f64) -> (Outcome, ServerUse) {
    let mean = f64::from(key.connections) / rate * 1e6;
    let time = Some(mean.round() as u64);
    let requests = rate.round() as u64;
    let plan = load::Plan {
        connections: key.connections,
        stop: Stop::Seconds(1.0),
        ..load::Plan::new(format!("http://{}{}", nowhere(), key.path))
    };
    let outcome = Outcome {
        threads: 1,
        duration_s: 1.0,
        requests,
        requests_per_second: rate,
        bytes_received: requests * 1024,
        bytes_per_second: rate * 1024.0,
        response_time_us: Distribution {
            count: requests,
            mean,
            p50: time,
            p99: time,
            ..Distribution::default()
        },
        statuses: BTreeMap::from([(200, requests)]),
        client: Client { cpu_s: 0.5, cpu_us_per_request: 0.5e6 / rate, busiest_thread_share: 0.5 },
        ..Outcome::empty(&plan)
    };
    let cpu_s = rate * cpu_us / 1e6;
    let server = ServerUse {
        cpu_s,
        cpu_us_per_request: cpu_us,
        window_s: 1.0,
        peak_rss_bytes: 8 << 20,
        ..ServerUse::default()
    };
    (outcome, server)
}

/// A cell at a rate, give or take 1 %, over three rounds; that of a summary, which takes its time over thousands of runs.
pub(crate) fn cell(key: CellKey, rate: f64) -> Cell {
    let about = |median: f64| Estimate { median, low: Some(median * 0.99), high: Some(median * 1.01) };
    Cell {
        key,
        rounds: 3,
        held: None,
        requests_per_second: about(rate),
        bytes_per_second: Some(about(rate * 1024.0)),
        p50_us: Some(about(1e5 / rate)),
        p99_us: Some(about(2e5 / rate)),
        server_cpu_us_per_request: Some(about(10.0)),
        peak_rss_bytes: Some(about(8_388_608.0)),
        errors: 0,
        beside: None,
        tied_best: false,
        ratio_to_best: None,
    }
}

/// A run of a cell in which this was measured, in its first round.
pub(crate) fn run(cell: CellKey, (outcome, server): (Outcome, ServerUse)) -> Run {
    Run { cell, outcome: Some(outcome), server: Some(server), ..Run::default() }
}

/// A plan of targets at 10 connections, with whatever else is said of it.
pub(crate) fn plan(targets: &[&str], rest: &str) -> Plan {
    planned(targets, &format!("connections = [10]\n{rest}"))
}

/// The same with a search for the most clients in place of the connections.
pub(crate) fn searching(targets: &[&str], rest: &str) -> Plan {
    planned(targets, &format!("[search]\n{rest}"))
}

fn planned(targets: &[&str], rest: &str) -> Plan {
    let target = |name: &&str| format!("[[target]]\nname = \"{name}\"\nmodel = \"reactor\"\n");
    let targets: String = targets.iter().map(target).collect();
    let text = "title = \"t\"\npaths = [\"/\"]\nduration_s = 1\n";
    Plan::parse(&format!("{text}{rest}\n{targets}"), "x.toml").unwrap()
}

/// The results of searches that found so many clients of each target in every round.
pub(crate) fn searched(found: &[(&str, f64)], rounds: u32) -> Results {
    let targets: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    let mut results = results(&targets, rounds, |_, _| (1_000.0, 10.0));
    for run in &mut results.runs {
        run.cell.connections = SEARCHED;
        let held = found.iter().find(|(name, _)| *name == run.cell.target).unwrap().1;
        run.search = Some(Capacity {
            what: What::Clients,
            at_least: held,
            below: Some(held + 1.0),
            confirmed: true,
            end: End::Server,
            reason: "errors<0%".into(),
            probe_s: 1.0,
            most: 1e6,
            probes: Vec::new(),
        });
    }
    results
}

/// A probe that kept its target or not, and was made before the server had drained or not.
pub(crate) fn probe(kept: bool, undrained: bool) -> Probe {
    Probe {
        level: 1.0,
        kept,
        undecided: false,
        reasons: Vec::new(),
        requests_per_second: 1.0,
        p50_us: None,
        p99_us: None,
        max_us: 1,
        connections: 1,
        seed: 1,
        doubts: Vec::new(),
        client_bound: false,
        undrained,
    }
}

/// Makes what was found of each target a lower bound, or not.
pub(crate) fn bound(results: &mut Results, bounds: &[bool]) {
    for run in &mut results.runs {
        let end = if bounds[run.position as usize] { End::Highest } else { End::Server };
        run.search.as_mut().unwrap().end = end;
    }
}

/// Makes what was found of a target in its first round something that was not held for long.
pub(crate) fn brief(results: &mut Results, target: &str) {
    let run = results.runs.iter_mut().find(|run| run.cell.target == target).unwrap();
    run.search.as_mut().unwrap().confirmed = false;
}

/// The results of targets at 10 connections, where `surface` gives rate and cost by target and round.
pub(crate) fn results(targets: &[&str], rounds: u32, surface: impl Fn(&str, u32) -> (f64, f64)) -> Results {
    let mut runs = Vec::new();
    for round in 0..rounds {
        for (position, target) in (0..).zip(targets) {
            let cell = key(target, 10);
            let (rate, cpu_us) = surface(target, round);
            let found = measured(&cell, rate, cpu_us);
            runs.push(Run { round, position, ..run(cell, found) });
        }
    }
    Results {
        schema: SCHEMA.into(),
        name: "fake".into(),
        title: "A fake".into(),
        question: String::new(),
        command: "plimsoll lab run fake".into(),
        started: "2026-01-01T00:00:00Z".into(),
        plan: String::new(),
        seed: 1,
        rounds,
        environment: Vec::new(),
        planned_runs: runs.len() as u32,
        runs,
        cells: Vec::new(),
        unmeasured: Vec::new(),
        findings: Vec::new(),
        budgets: Vec::new(),
        claims: Vec::new(),
        verdict: Verdict::Valid,
    }
}
