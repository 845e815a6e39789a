//! An echo service, and what tests of the engine alone do with a server of it.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::fmt::Debug;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::meter::Counters;
use engine::{
    Connections, Driver, Error, Io, Model, More, Running, Service, Settings, Spread, Stop, Stream, Tcp,
    Topology, Transport,
};

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The message that whoever serves it panics at.
pub(crate) const PANIC: &[u8] = b"panic\n";

/// What those are told for whom there is no room.
const REFUSAL: &str = "full\n";

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
        REFUSAL.as_bytes()
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
        assert!(input != PANIC, "as it was asked to");
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
pub(crate) fn expect_echo(stream: &mut TcpStream, line: &[u8]) {
    stream.write_all(line).unwrap();
    let mut back = vec![0; line.len()];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, line);
}

/// Connects, and expects to be told that there is no room.
#[track_caller]
pub(crate) fn expect_refusal(running: &Running, server: impl Debug) {
    let mut told = String::new();
    connect(running).read_to_string(&mut told).unwrap();
    assert_eq!(told, REFUSAL, "{server:?}");
}

/// Waits until this holds.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl FnMut() -> bool) {
    until_within(PATIENCE, what, holds);
}

/// Waits so long at most until this holds.
#[track_caller]
pub(crate) fn until_within(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// What the threads have counted of one thing.
pub(crate) fn sum(counters: &[Arc<Counters>], get: fn(&Counters) -> &AtomicU64) -> u64 {
    counters.iter().map(|one| get(one).load(Ordering::Relaxed)).sum()
}

/// Stops the server and waits until it has ended; what its threads have counted.
#[track_caller]
pub(crate) fn end(running: Running) -> Vec<Arc<Counters>> {
    let counters = running.counters().to_vec();
    running.stop().set();
    running.join().unwrap();
    counters
}
