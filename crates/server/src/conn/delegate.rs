//! Handing a request to a worker, and what comes of it.

use std::net::SocketAddr;

use engine::{Class, Transport};
use wire::Status;

use super::errand::Cargo;
use super::{Close, Context};
use crate::auto::RouteId;
use crate::handler::{Handler, Response};
use crate::metrics::Counters;

/// Has a worker answer the request at the front of the input, whose head is `length` bytes long.
pub(super) async fn delegate<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    length: usize,
    response: Box<Response>,
    peer: SocketAddr,
    class: Class,
    route: Option<RouteId>,
) -> Result<Box<Response>, Close> {
    let cargo = Cargo::new(wire.take_input(), Vec::new(), response, peer);
    let cargo = delegate_cargo(context, cargo, class, route).await?;
    wire.restore_input(cargo.input);
    wire.consume(length);
    Ok(cargo.response)
}

/// Has a worker answer the request at the front of a cargo's input, and returns all that travelled.
pub(super) async fn delegate_cargo<H: Handler>(
    context: &Context<H>,
    mut cargo: Cargo,
    class: Class,
    route: Option<RouteId>,
) -> Result<Cargo, Close> {
    let Some(workers) = &context.workers else { return Err(Close::Done) };
    cargo.timed = context.timed(route);
    let errand = context.take_errand();
    errand.load(cargo);
    let refused = !context.hand_over(workers, &errand, class);
    let cargo = if refused { errand.unload() } else { errand.returned().await };
    let Some(mut cargo) = cargo else { return Err(Close::Done) };
    context.give_errand(errand);
    if let (Some(route), Some(took)) = (route, cargo.took) {
        context.came_home(route, took);
    }
    if cargo.panicked {
        Counters::count(&context.counters.handler_panics);
    }
    if refused {
        Counters::count(&context.counters.queue_refused);
        cargo.response.plain(Status::SERVICE_UNAVAILABLE).field("Retry-After", b"1");
    }
    if cargo.turned_away {
        Counters::count(&context.counters.queue_late);
        // Not all at the same moment again.
        let retry = [b"1", b"2", b"3"][Counters::read(&context.counters.queue_late) as usize % 3];
        cargo.response.plain(Status::SERVICE_UNAVAILABLE).field("Retry-After", retry);
    }
    Ok(cargo)
}
