//! Whether a load generator measured the server or itself: its own ceiling, and whether a second one gets more.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::service::Connections;
use engine::{
    Driver, Error as Broken, Io, Model, More, Service, Settings, Stop as Switch, Stream, Tcp, Transport,
};

use crate::error::Error;
use crate::fleet;
use crate::outcome::{Check, Outcome};
use crate::plan::{Arrivals, Expect, Plan, Stop};
use crate::run::run_until;

/// How long each of the loads of a check lasts, in seconds.
const EACH_S: f64 = 1.5;

/// Turns of each of the two loads whose rates are compared.
const TURNS: usize = 2;

/// How long a connection of the responder may be silent.
const SILENCE: Duration = Duration::from_secs(60);

/// What the responder says to everything.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Checks a load that was measured: some seconds of the same against a responder that does next to nothing, and, in a
/// closed loop, from two processes with `program` and `arguments` as in [`fleet::run`].
///
/// # Errors
/// A load cannot be run.
pub fn check(program: &Path, arguments: &[&str], outcome: &Outcome, cancel: &Switch) -> Result<Check, Error> {
    let short = Plan { stop: Stop::Seconds(EACH_S), warmup_s: 0.2, ..outcome.plan.clone() };
    let ceiling_per_second = ceiling(&short, cancel)?;
    // An emulated link is between one process and the server.
    let comparable = matches!(short.arrivals, Arrivals::Closed { .. }) && short.link.is_none();
    let second_client = match comparable && short.connections > 1 {
        true => Some(second_client(program, arguments, &short, cancel)?),
        false => None,
    };
    Ok(Check { ceiling_per_second, second_client })
}

/// The rate that the load generator reaches against a server that costs next to nothing.
fn ceiling(plan: &Plan, cancel: &Switch) -> Result<f64, Error> {
    let topology = Model::Reactor.row(1, plan.connections as usize + 1);
    let settings = Settings {
        drain: Duration::ZERO,
        cpus: other_cores(&plan.cpus),
        memory: None,
        ..Settings::new(topology, ([127, 0, 0, 1], 0).into())
    };
    let responder = engine::start(&settings, Arc::new(Responder))?;
    let plan = Plan {
        url: format!("http://{}/", responder.address()),
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
    let outcome = run_until(&plan, cancel, &mut |_| ());
    responder.stop().set();
    responder.join()?;
    Ok(outcome?.requests_per_second)
}

/// Cores for the responder where the load is pinned: those that it leaves free.
fn other_cores(taken: &[usize]) -> Vec<usize> {
    if taken.is_empty() {
        return Vec::new();
    }
    engine::host::processors().into_iter().filter(|core| !taken.contains(core)).collect()
}

/// How many times as much two processes get as one, with as many connections between them.
fn second_client(program: &Path, arguments: &[&str], plan: &Plan, cancel: &Switch) -> Result<f64, Error> {
    let once = Plan { processes: 1, ..plan.clone() };
    let twice = Plan { processes: 2, threads: plan.threads() * 2, ..plan.clone() };
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

/// A server that looks at nothing but where a request ends.
struct Responder;

impl Service for Responder {
    type Local<D: Driver> = Responder;

    fn on_reactor<D: Driver>(self: &Arc<Self>, _: usize, _: &Io<D>) -> Responder {
        Responder
    }

    fn refusal(&self) -> &[u8] {
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
    }
}

impl<D: Driver> Connections<D> for Responder {
    fn serve(&self, stream: Stream<D>, _: SocketAddr, stop: Switch) -> impl Future<Output = ()> + 'static {
        converse(stream, stop)
    }
}

async fn converse<D: Driver>(stream: Stream<D>, stop: Switch) {
    // However a connection ends, there is nobody to tell.
    let _ = respond(&mut Tcp::new(stream), &stop).await;
}

async fn respond<D: Driver>(wire: &mut Tcp<D>, stop: &Switch) -> Result<(), Broken> {
    while wire.fill(wire.deadline(SILENCE), || stop.is_set()).await? > 0 {
        let input = wire.input();
        let requests = input.windows(4).filter(|bytes| bytes == b"\r\n\r\n").count();
        let last = input.windows(4).rposition(|bytes| bytes == b"\r\n\r\n");
        let closes = input.windows(17).any(|bytes| bytes.eq_ignore_ascii_case(b"connection: close"));
        let Some(last) = last else { continue };
        wire.consume(last + 4);
        for _ in 0..requests {
            if wire.output().room() < ANSWER.len() {
                wire.flush(More::Follows, wire.deadline(SILENCE)).await?;
            }
            wire.output().append(ANSWER);
        }
        wire.flush(More::No, wire.deadline(SILENCE)).await?;
        if closes {
            break;
        }
    }
    Ok(())
}
