//! Handing a request to a worker, and what comes of it.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use engine::{Buf, Class, Deadline, Transport};

use super::errand::{Cargo, Errand};
use super::shed::unavailable;
use super::unsent::Wire;
use super::{Close, Context, flush};
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

/// Sends what was answered before a request, which must not wait for its worker. If that fails the request gets no answer
/// any more.
pub(super) async fn flush_before<T: Transport, H: Handler>(
    wire: &mut Wire<T, H>,
    context: &Context<H>,
    response: Box<Response>,
    until: Deadline,
) -> Result<Box<Response>, Close> {
    match flush(wire, context, until).await {
        Ok(()) => Ok(response),
        Err(close) => {
            context.forgo(response);
            Err(close)
        }
    }
}

/// Has a worker answer the request at the front of the input, whose head is `length` bytes long. Where the whole request's
/// time is over first, what is returned is a response to fill in, and the input is lost.
// What travels must not stay with the future too: an `async fn` would keep all that it is given to its end.
pub(super) fn delegate<T: Transport, H: Handler>(
    wire: &mut T,
    context: &Context<H>,
    length: usize,
    response: Box<Response>,
    until: Deadline,
    peer: SocketAddr,
    ticket: Ticket,
) -> impl Future<Output = Result<Box<Response>, Close>> {
    let cargo = Cargo::new(wire.take_input(), Vec::new(), response, peer);
    let sent = Sent::off(context, cargo, until, ticket);
    async move {
        let (response, input) = sent.comes_home(wire, context, until).await?;
        if let Some(input) = input {
            wire.restore_input(input);
            wire.consume(length);
        }
        Ok(response)
    }
}

/// The same for the request at the front of a cargo's input.
pub(super) async fn delegate_cargo<T: Transport, H: Handler>(
    wire: &T,
    context: &Context<H>,
    cargo: Cargo,
    until: Deadline,
    ticket: Ticket,
) -> Result<Box<Response>, Close> {
    let sent = Sent::off(context, cargo, until, ticket);
    sent.comes_home(wire, context, until).await.map(|(response, _)| response)
}

/// A request that was handed to the workers, or that they had no room for.
struct Sent {
    errand: Arc<Errand>,
    route: Option<RouteId>,
    taken: bool,
    /// What answers it if it is not back in time, where it has a time.
    stand_in: Option<Box<Response>>,
}

impl Sent {
    /// Sends a cargo off.
    fn off<H: Handler>(context: &Context<H>, mut cargo: Cargo, until: Deadline, ticket: Ticket) -> Self {
        let Ticket { class, route, permit } = ticket;
        let stand_in = (until != Deadline::NEVER).then(|| context.stand_in(&cargo.response));
        // It goes with the request, so that a worker that goes on though the client has left still counts.
        cargo.permit = permit;
        cargo.timed = context.timed(route);
        let errand = context.take_errand();
        errand.load(cargo);
        let taken = context.hand_over(&errand, class);
        Sent { errand, route, taken, stand_in }
    }

    /// Waits for the answer, and returns it with the input that travelled; or the stand-in, if the answer does not come in
    /// time: the worker then finds that nobody waits for it.
    async fn comes_home<T: Transport, H: Handler>(
        self,
        wire: &T,
        context: &Context<H>,
        until: Deadline,
    ) -> Result<(Box<Response>, Option<Buf>), Close> {
        let Sent { errand, route, taken, stand_in } = self;
        let cargo = if taken { returned(&errand, wire, until).await } else { errand.unload() };
        let Some(cargo) = cargo else {
            return stand_in.map(|response| (response, None)).ok_or(Close::Done);
        };
        stand_in.into_iter().for_each(|response| context.give_response(response));
        let cargo = come_home(context, errand, cargo, route, taken);
        Ok((cargo.response, Some(cargo.input)))
    }
}

/// Waits for a cargo; `None` if the deadline comes first.
async fn returned<T: Transport>(errand: &Errand, wire: &T, until: Deadline) -> Option<Cargo> {
    if until == Deadline::NEVER {
        return errand.returned().await;
    }
    let (mut returned, mut over) = (pin!(errand.returned()), pin!(wire.sleep(until)));
    poll_fn(|context| match returned.as_mut().poll(context) {
        Poll::Pending => over.as_mut().poll(context).map(|()| None),
        cargo => cargo,
    })
    .await
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
