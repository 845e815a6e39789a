//! An echo service, for tests of the engine alone.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{
    Connections, Driver, Error, Io, Model, More, Running, Service, Settings, Spread, Stop, Stream, Tcp,
    Topology, Transport,
};

/// How long anything may take.
#[allow(dead_code, reason = "each test file uses its own part")]
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// What each message takes of the reactor's time.
const WORK: Duration = Duration::from_micros(200);

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
    fn serve(&self, stream: Stream<D>, peer: SocketAddr, stop: Stop) -> impl Future<Output = ()> + 'static {
        converse(stream, peer, stop)
    }
}

async fn converse<D: Driver>(stream: Stream<D>, peer: SocketAddr, stop: Stop) {
    let _ = echo(&mut Tcp::new(stream), peer, &stop).await;
}

async fn echo<D: Driver>(wire: &mut Tcp<D>, peer: SocketAddr, stop: &Stop) -> Result<(), Error> {
    let mut answers = wire.answered_before();
    while wire.fill(wire.deadline(PATIENCE), || stop.is_set()).await? > 0 {
        let (input, start) = (wire.input().to_vec(), Instant::now());
        wire.consume(input.len());
        while start.elapsed() < WORK {
            std::hint::spin_loop();
        }
        assert_eq!(wire.output().append(&input), input.len());
        wire.flush(More::No, wire.deadline(PATIENCE)).await?;
        answers += 1;
        if wire.note_answers(answers) && wire.relocate(peer).await {
            break;
        }
    }
    Ok(())
}

/// Starts an echo server on a free port.
#[allow(dead_code, reason = "each test file uses its own part")]
pub(crate) fn start(reactors: usize, spread: Spread, connections: usize) -> Running {
    start_topology(Topology { reactors, spread, ..Model::Reactor.row(1, connections) })
}

/// Starts an echo server with these threads on a free port.
pub(crate) fn start_topology(topology: Topology) -> Running {
    start_where(topology, engine::host::usable)
}

/// The same, where so many processors may be used.
pub(crate) fn start_where(topology: Topology, usable: fn() -> usize) -> Running {
    start_with(topology, usable, None)
}

/// The same, where so much memory is in use.
pub(crate) fn start_with(
    topology: Topology,
    usable: fn() -> usize,
    memory: Option<fn() -> Option<f64>>,
) -> Running {
    let settings = Settings { usable, memory, ..Settings::new(topology, ([127, 0, 0, 1], 0).into()) };
    engine::start(&settings, Arc::new(Echo)).unwrap()
}

/// Connects, with a time-out on everything so that a failing test ends.
pub(crate) fn connect(running: &Running) -> TcpStream {
    let stream = TcpStream::connect(running.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Sends a line and expects it back.
#[allow(dead_code, reason = "each test file uses its own part")]
pub(crate) fn expect_echo(stream: &mut TcpStream, line: &[u8]) {
    stream.write_all(line).unwrap();
    let mut back = vec![0; line.len()];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, line);
}
