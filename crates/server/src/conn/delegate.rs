//! Handing a request to a worker, and what comes of it.

use std::net::SocketAddr;
use std::sync::Arc;

use engine::{Class, Transport};

use super::errand::{Cargo, Errand};
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
// What travels must not stay with the future too: an `async fn` would keep all that it is given to its end.
pub(super) fn delegate<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    length: usize,
    response: Box<Response>,
    peer: SocketAddr,
    ticket: Ticket,
) -> impl Future<Output = Result<Box<Response>, Close>> {
    let cargo = Cargo::new(wire.take_input(), Vec::new(), response, peer);
    let answered = delegate_cargo(context, cargo, ticket);
    async move {
        let cargo = answered.await?;
        wire.restore_input(cargo.input);
        wire.consume(length);
        Ok(cargo.response)
    }
}

/// Has a worker answer the request at the front of a cargo's input, and returns all that travelled.
pub(super) fn delegate_cargo<H: Handler>(
    context: &Context<H>,
    mut cargo: Cargo,
    ticket: Ticket,
) -> impl Future<Output = Result<Cargo, Close>> {
    let Ticket { class, route, permit } = ticket;
    // It goes with the request, so that a worker that goes on though the client has left still counts.
    cargo.permit = permit;
    cargo.timed = context.timed(route);
    let errand = context.take_errand();
    errand.load(cargo);
    let taken = context.hand_over(&errand, class);
    async move {
        let cargo = if taken { errand.returned().await } else { errand.unload() };
        cargo.map(|cargo| come_home(context, errand, cargo, route, taken)).ok_or(Close::Done)
    }
}

/// Makes of what came back, or was never taken, an answer.
fn come_home<H: Handler>(
    context: &Context<H>,
    errand: Arc<Errand>,
    mut cargo: Cargo,
    route: Option<RouteId>,
    taken: bool,
) -> Cargo {
    context.give_errand(errand);
    if let (Some(route), Some(took)) = (route, cargo.took) {
        context.came_home(route, took);
    }
    if cargo.panicked {
        Counters::count(&context.counters.handler_panics);
    }
    cargo.permit = None;
    if !taken {
        unavailable(&mut cargo.response, &context.counters.queue_refused);
    }
    if cargo.turned_away {
        unavailable(&mut cargo.response, &context.counters.queue_late);
    }
    cargo
}
