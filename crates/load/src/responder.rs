//! A server that does next to nothing, in a process of its own: what a load reaches against it is the load's own ceiling.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::service::Connections;
use engine::{
    Driver, Error as Broken, Io, Model, More, Running, Service, Settings, Stop as Switch, Stream, Tcp,
    Transport,
};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// How long a connection of the responder may be silent.
const SILENCE: Duration = Duration::from_secs(60);

/// What the responder says to everything.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// What a responder is to be like.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wanted {
    /// Connections that it can hold.
    pub(crate) connections: usize,
    /// Its threads.
    pub(crate) reactors: usize,
    /// Cores that they are kept to; none for any.
    pub(crate) cpus: Vec<usize>,
}

impl Wanted {
    /// Starts it, on a free port.
    ///
    /// # Errors
    /// The kernel refuses what it needs.
    pub(crate) fn start(&self) -> Result<Running, Error> {
        // The kernel spreads connections over the listening sockets as chance has it, so that each may have them all.
        let topology = Model::ReusePort.row(self.reactors, self.connections + 1);
        let settings = Settings {
            drain: Duration::ZERO,
            cpus: self.cpus.clone(),
            memory: None,
            ..Settings::new(topology, ([127, 0, 0, 1], 0).into())
        };
        Ok(engine::start(&settings, Arc::new(Responder))?)
    }
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
