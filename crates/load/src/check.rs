//! Whether a load generator measured the server or itself: its own ceiling, and whether a second one gets more.

use std::path::Path;

use engine::Stop as Switch;

use crate::error::Error;
use crate::fleet;
use crate::outcome::{Check, Outcome};
use crate::plan::{Arrivals, Expect, MOST_PROCESSES, Plan, Stop, most_connections};
use crate::responder::Wanted;
use crate::verdict::failed;

/// How long each of the loads of a check lasts, in seconds.
const EACH_S: f64 = 1.5;

/// Turns of each of the two loads whose rates are compared.
const TURNS: usize = 2;

/// Checks a load that was measured: some seconds of the same against a responder that does next to nothing, and, in a
/// closed loop, from two processes. All of them are `program` with `arguments` as in [`fleet::run`].
///
/// # Errors
/// A load cannot be run.
pub fn check(program: &Path, arguments: &[&str], outcome: &Outcome, cancel: &Switch) -> Result<Check, Error> {
    let short = Plan { stop: Stop::Seconds(EACH_S), warmup_s: 0.2, ..outcome.plan.clone() };
    let ceiling = ceiling(program, arguments, &short, cancel)?;
    // An emulated link is between one process and the server.
    let comparable = matches!(short.arrivals, Arrivals::Closed { .. }) && short.link.is_none();
    let second_client =
        match comparable && short.connections > short.processes && short.processes <= MOST_PROCESSES / 2 {
            true => Some(second_client(program, arguments, &short, cancel)?),
            false => None,
        };
    Ok(Check {
        ceiling_per_second: ceiling.requests_per_second,
        ceiling_errors: failed(&ceiling),
        second_client,
    })
}

/// What the load generator reaches against a server that costs next to nothing, in a process of its own with as many threads.
fn ceiling(program: &Path, arguments: &[&str], plan: &Plan, cancel: &Switch) -> Result<Outcome, Error> {
    let cpus = other_cores(&plan.cpus);
    let cores = if cpus.is_empty() { engine::host::usable() } else { cpus.len() };
    // A process of the load may have as many, and so may the responder, of which there is only one.
    let most = most_connections(plan.threads, 1).unwrap_or(u64::MAX);
    let connections = plan.connections.min(u32::try_from(most).unwrap_or(u32::MAX));
    let wanted = Wanted {
        connections: connections as usize,
        reactors: (plan.threads() as usize).min(cores).max(1),
        cpus,
    };
    let responder = fleet::Responding::start(program, arguments, wanted)?;
    let plan = Plan {
        url: format!("http://{}/", responder.address()),
        connections,
        arrivals: Arrivals::default(),
        targets: Vec::new(),
        body: String::new(),
        method: "GET".into(),
        expect: Expect::default(),
        send_rate: 0.0,
        receive_rate: 0.0,
        link: None,
        ..plan.clone()
    };
    fleet::run(program, arguments, &plan, cancel, &mut |_| ())
}

/// Cores for the responder where the load is pinned: those that it leaves free.
fn other_cores(taken: &[usize]) -> Vec<usize> {
    if taken.is_empty() {
        return Vec::new();
    }
    engine::host::processors().into_iter().filter(|core| !taken.contains(core)).collect()
}

/// How many times as much twice the processes and threads get, with as many connections between them.
fn second_client(program: &Path, arguments: &[&str], plan: &Plan, cancel: &Switch) -> Result<f64, Error> {
    let once = plan.clone();
    let twice = Plan { processes: plan.processes * 2, threads: plan.threads() * 2, ..plan.clone() };
    let rate = |plan| -> Result<f64, Error> {
        Ok(fleet::run(program, arguments, plan, cancel, &mut |_| ())?.requests_per_second)
    };
    let (mut one, mut two) = (0.0, 0.0);
    for _ in 0..TURNS {
        one += rate(&once)?;
        two += rate(&twice)?;
    }
    Ok(if one > 0.0 { two / one } else { 1.0 })
}
