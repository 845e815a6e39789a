//! What a server does with its connections; the engine only brings them.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::driver::Driver;
use crate::stop::Stop;
use crate::stream::{Io, Stream};

/// A protocol and its application, shared by all reactors.
pub trait Service: Send + Sync + 'static {
    /// Its part on one reactor.
    type Local<D: Driver>: Connections<D>;

    /// Makes the part that runs on a reactor, on that reactor's thread.
    fn on_reactor<D: Driver>(self: &Arc<Self>, reactor: usize, io: &Io<D>) -> Self::Local<D>;

    /// What a client is told when every connection slot is taken, or memory stays scarce.
    fn refusal(&self) -> &[u8];
}

/// A service's part on one reactor.
pub trait Connections<D: Driver> {
    /// Serves one connection until it ends. When `stop` is set the task is woken once, and should then
    /// finish the request under way, if any, and end.
    fn serve(&self, stream: Stream<D>, peer: SocketAddr, stop: Stop) -> impl Future<Output = ()> + 'static;

    /// Slots have become scarce: so many connections that are idle should end. Each task is woken once after this.
    fn make_room(&self, _connections: usize) {}

    /// All connections that had something to do have had their turn, and the thread is about to wait: the moment to
    /// pass on what was gathered.
    fn end_of_turn(&self) {}
}
