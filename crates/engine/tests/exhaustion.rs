//! Running out of descriptors: accepting pauses without spinning, and goes on when one is free.
//! Alone in its file, since the limit holds for the whole process.

mod common;

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use common::{connect, end, expect_echo, start, sum, until};
use engine::Spread;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn accepting_pauses_and_recovers() {
    // Also a reactor that has no connection whose end it could wait for must pause and not spin.
    for (spread, has_one) in [(Spread::ReusePort, true), (Spread::ReusePort, false), (Spread::Acceptor, true)]
    {
        let running = start(1, spread, 1000);
        let mut served = has_one.then(|| connect(&running));
        served.iter_mut().for_each(|stream| expect_echo(stream, b"before"));
        // A connection of a client needs two descriptors here, one at either end. The clients' are opened
        // first; then none is left for the server's.
        let mut waiting: Vec<TcpStream> = Vec::new();
        let old = getrlimit(Resource::Nofile);
        let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        setrlimit(Resource::Nofile, Rlimit { current: Some(open + 1), maximum: old.maximum }).unwrap();
        for _ in 0..8 {
            match TcpStream::connect(running.address()) {
                Ok(stream) => waiting.push(stream),
                Err(_) => break,
            }
        }
        let paused = || sum(running.counters(), |one| &one.paused);
        until("it runs out of descriptors", || paused() > 0);
        // Those who are in go on being served meanwhile, and the pauses are pauses: at most one per 100 ms
        // (and per connection that ends), where a server that spins makes thousands.
        let before = paused();
        std::thread::sleep(Duration::from_millis(300));
        served.iter_mut().for_each(|stream| expect_echo(stream, b"meanwhile"));
        assert!(paused() - before <= 20, "{} pauses in 300 ms", paused() - before);

        setrlimit(Resource::Nofile, Rlimit { current: old.current, maximum: old.maximum }).unwrap();
        for stream in &mut waiting {
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            stream.flush().unwrap();
            expect_echo(stream, b"after");
        }
        assert!(!waiting.is_empty());
        end(running);
    }
}
