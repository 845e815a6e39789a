//! Handing a request to a worker, and what comes of it.

use std::net::SocketAddr;

use engine::{Class, Transport};

use super::errand::Cargo;
use super::shed::unavailable;
use super::{Close, Context};
use crate::admission::Permit;
use crate::auto::RouteId;
use crate::handler::{Handler, Response};
use crate::metrics::Counters;

/// What a request takes along to the workers.
pub(super) struct Ticket {
    pub(super) class: Class,
    pub(super) route: Option<RouteId>,
    pub(super) permit: Option<Permit>,
}

/// Has a worker answer the request at the front of the input, whose head is `length` bytes long.
pub(super) async fn delegate<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    length: usize,
    response: Box<Response>,
    peer: SocketAddr,
    ticket: Ticket,
) -> Result<Box<Response>, Close> {
    let cargo = Cargo::new(wire.take_input(), Vec::new(), response, peer);
    let cargo = delegate_cargo(context, cargo, ticket).await?;
    wire.restore_input(cargo.input);
    wire.consume(length);
    Ok(cargo.response)
}

/// Has a worker answer the request at the front of a cargo's input, and returns all that travelled.
pub(super) async fn delegate_cargo<H: Handler>(
    context: &Context<H>,
    mut cargo: Cargo,
    ticket: Ticket,
) -> Result<Cargo, Close> {
    let Some(workers) = &context.workers else { return Err(Close::Done) };
    let Ticket { class, route, permit } = ticket;
    // It goes with the request, so that a worker that goes on though the client has left still counts.
    cargo.permit = permit;
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
    cargo.permit = None;
    if refused {
        unavailable(&mut cargo.response, &context.counters.queue_refused);
    }
    if cargo.turned_away {
        unavailable(&mut cargo.response, &context.counters.queue_late);
    }
    Ok(cargo)
}
