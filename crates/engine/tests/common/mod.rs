//! An echo service, for tests of the engine alone.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use engine::{
    Connections, Driver, Error, Io, Model, More, Running, Service, Settings, Spread, Stop, Stream, Tcp,
    Topology, Transport,
};

/// Sends back what it receives.
pub(crate) struct Echo;

impl Service for Echo {
    type Local<D: Driver> = Echo;

    fn on_reactor<D: Driver>(self: &Arc<Self>, _: usize, _: &Io<D>) -> Echo {
        Echo
    }

    fn refusal(&self) -> &[u8] {
        b"full\n"
    }
}

impl<D: Driver> Connections<D> for Echo {
    fn serve(&self, stream: Stream<D>, _: SocketAddr, stop: Stop) -> impl Future<Output = ()> + 'static {
        converse(stream, stop)
    }
}

async fn converse<D: Driver>(stream: Stream<D>, stop: Stop) {
    let _ = echo(&mut Tcp::new(stream), &stop).await;
}

async fn echo<D: Driver>(wire: &mut Tcp<D>, stop: &Stop) -> Result<(), Error> {
    let second = Duration::from_secs(20);
    while wire.fill(wire.deadline(second), || stop.is_set()).await? > 0 {
        let input = wire.input().to_vec();
        wire.consume(input.len());
        assert_eq!(wire.output().append(&input), input.len());
        wire.flush(More::No, wire.deadline(second)).await?;
    }
    Ok(())
}

/// Starts an echo server on a free port.
pub(crate) fn start(reactors: usize, spread: Spread, connections: usize) -> Running {
    let topology = Topology { reactors, spread, ..Model::Reactor.row(1, connections) };
    let address = ([127, 0, 0, 1], 0).into();
    let settings =
        Settings { topology, address, backlog: 512, drain: Duration::from_secs(5), cpus: Vec::new() };
    engine::start(&settings, Arc::new(Echo)).unwrap()
}

/// Connects, with a time-out on everything so that a failing test ends.
pub(crate) fn connect(running: &Running) -> TcpStream {
    let stream = TcpStream::connect(running.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Sends a line and expects it back.
pub(crate) fn expect_echo(stream: &mut TcpStream, line: &[u8]) {
    stream.write_all(line).unwrap();
    let mut back = vec![0; line.len()];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, line);
}
