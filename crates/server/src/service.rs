//! HTTP as a service of the engine: what every reactor's connections share.

use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use engine::{Connections, Driver, Io, Service, Stop, Stream, Tcp};

use crate::conn::{Context, serve};
use crate::handler::Handler;
use crate::limits::Limits;
use crate::metrics::{Counters, Totals};

/// What a client is told when every connection slot is taken.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// HTTP/1.1 over a handler.
pub struct Http<H> {
    handler: Arc<H>,
    limits: Limits,
    counters: Vec<Arc<Counters>>,
}

impl<H: Handler> Http<H> {
    /// Serves `handler` on as many as `reactors` reactors.
    pub fn new(handler: H, limits: Limits, reactors: usize) -> Self {
        let counters = (0..reactors).map(|_| Arc::default()).collect();
        Http { handler: Arc::new(handler), limits, counters }
    }

    /// What has been counted so far, over all reactors.
    pub fn totals(&self) -> Totals {
        Totals::of(&self.counters)
    }
}

impl<H: Handler> Service for Http<H> {
    type Local<D: Driver> = OnReactor<H>;

    fn on_reactor<D: Driver>(self: &Arc<Self>, reactor: usize, _: &Io<D>) -> OnReactor<H> {
        OnReactor(Rc::new(Context::new(self.handler.clone(), self.limits, self.counters[reactor].clone())))
    }

    fn refusal(&self) -> &[u8] {
        REFUSAL
    }
}

/// HTTP on one reactor.
pub struct OnReactor<H>(Rc<Context<H>>);

impl<D: Driver, H: Handler> Connections<D> for OnReactor<H> {
    fn serve(&self, stream: Stream<D>, peer: SocketAddr, stop: Stop) -> impl Future<Output = ()> + 'static {
        serve(Tcp::new(stream), self.0.clone(), peer, stop)
    }
}
