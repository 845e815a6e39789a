//! A thread that panics ends the server, rather than leaving a part of it deaf.

mod common;

use std::future::{Future, ready};
use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use common::{PATIENCE, connect};
use engine::{Connections, Driver, Io, Model, Service, Settings, Stop, Stream, Topology};

/// Cannot serve anybody.
struct Broken;

impl Service for Broken {
    type Local<D: Driver> = Broken;

    fn on_reactor<D: Driver>(self: &Arc<Self>, _: usize, _: &Io<D>) -> Broken {
        Broken
    }

    fn refusal(&self) -> &[u8] {
        b"full\n"
    }
}

impl<D: Driver> Connections<D> for Broken {
    fn serve(&self, _: Stream<D>, peer: SocketAddr, _: Stop) -> impl Future<Output = ()> + 'static {
        assert!(peer.port() == 0, "nobody can be served");
        ready(())
    }
}

#[test]
fn the_server_ends_and_says_why() {
    let topology = Topology { reactors: 2, ..Model::MultiReactor.row(2, 100) };
    let settings = Settings::new(topology, ([127, 0, 0, 1], 0).into());
    let running = engine::start(&settings, Arc::new(Broken)).unwrap();
    let mut client = connect(&running);
    let (stop, start) = (running.stop(), Instant::now());
    while !stop.is_set() {
        assert!(start.elapsed() < PATIENCE, "it goes on without one of its reactors");
        std::thread::yield_now();
    }
    // Nobody waits for good.
    assert!(matches!(client.read(&mut [0; 8]), Ok(0) | Err(_)));
    assert!(running.join().unwrap_err().to_string().contains("panicked"));
}
