//! Connections that move between reactors: the busy ones spread, and no request notices.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Client, PATIENCE, Server, site};

/// Every way in which several reactors come by their connections.
const MODELS: [&[&str]; 6] = [
    &["--model", "multi-reactor"],
    &["--model", "multi-reactor", "--balance", "least-connections"],
    &["--model", "reuseport"],
    &["--model", "reuseport", "--spread", "shared"],
    &["--model", "proactor"],
    &["--model", "proactor", "--spread", "acceptor"],
];

/// Connections that work.
const BUSY: usize = 4;

/// Two requests at once, whose answers are told apart by their lengths. The first holds the reactor up.
const PAIR: &str =
    "GET /work?spin=1ms&bytes=77 HTTP/1.1\r\nHost: test\r\n\r\nGET /1k.html HTTP/1.1\r\nHost: test\r\n\r\n";

fn start(flags: &[&str], more: &[&str]) -> (Server, tempfile::TempDir) {
    let site = site();
    let common = ["--reactors", "2", "--workloads", "--admin", "127.0.0.1:0"];
    (Server::start(site.path(), &[flags, &common, more].concat()), site)
}

/// A value of each reactor.
fn each(server: &Server, value: impl Fn(&Value) -> u64) -> Vec<u64> {
    server.metrics()["threads"].as_array().unwrap().iter().map(value).collect()
}

fn sum(server: &Server, name: &str) -> u64 {
    each(server, |thread| thread[name].as_u64().unwrap()).iter().sum()
}

/// The requests that each reactor has answered.
fn requests(server: &Server) -> Vec<u64> {
    each(server, |thread| thread["http"]["requests"].as_u64().unwrap())
}

/// Connections that all belong to one reactor, however the others were spread.
fn on_one_reactor(server: &Server) -> Vec<Client> {
    let mut owned: [Vec<Client>; 2] = Default::default();
    while owned.iter().all(|clients| clients.len() < BUSY) {
        let before = requests(server);
        let mut client = server.connect();
        assert_eq!(client.get("/1k.html").status, 200);
        let owner = requests(server).iter().zip(&before).position(|(after, before)| after > before).unwrap();
        owned[owner].push(client);
    }
    let [first, second] = owned;
    if first.len() >= BUSY { first } else { second }
}

/// Keeps the connections busy until `enough`; the requests that were answered, each once and in its turn.
fn use_all(clients: &mut [Client], enough: impl Fn() -> bool) -> u64 {
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for client in clients {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    client.send(PAIR);
                    for length in [77, 1024] {
                        let answer = client.answer();
                        assert_eq!((answer.status, answer.body.len()), (200, length));
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let start = Instant::now();
        while !enough() && start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Ordering::Relaxed);
    });
    answered.into_inner()
}

#[test]
fn busy_connections_spread_over_the_reactors() {
    for flags in MODELS {
        let (server, _site) = start(flags, &[]);
        let mut clients = on_one_reactor(&server);
        let before: u64 = requests(&server).iter().sum();
        let mut answered = use_all(&mut clients, || sum(&server, "connections_moved_in") > 0);
        let moved = sum(&server, "connections_moved_out");
        assert!(moved > 0, "{flags:?}");
        // From now on both have something to do.
        let then = requests(&server);
        for client in &mut clients {
            client.send(PAIR);
            assert_eq!((client.answer().body.len(), client.answer().body.len()), (77, 1024));
            answered += 2;
        }
        let now = requests(&server);
        assert!(now.iter().zip(&then).all(|(now, then)| now > then), "{flags:?}: {then:?}, then {now:?}");
        assert_eq!(now.iter().sum::<u64>() - before, answered, "{flags:?}: each request is answered once");
        assert_eq!(sum(&server, "connections_refused"), 0);
        let said = server.stop();
        assert!(said.contains(" requests answered"), "{said}");
    }
}

#[test]
fn what_a_connection_may_do_goes_with_it() {
    let limits = ["--requests-per-connection", "100000", "--connections-per-address", "8"];
    let (server, _site) = start(MODELS[0], &limits);
    let mut clients = on_one_reactor(&server);
    use_all(&mut clients, || sum(&server, "connections_moved_in") > 0);
    // Those that have moved are counted once: the address has room for so many more and no others.
    let open = sum(&server, "connections_open") as usize;
    let mut more: Vec<Client> = (open..8).map(|_| server.connect()).collect();
    more.iter_mut().for_each(|client| assert_eq!(client.get("/1k.html").status, 200));
    assert!(String::from_utf8(server.connect().rest()).unwrap().starts_with("HTTP/1.1 503"));
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/1k.html").status, 200));
    server.stop();
}

#[test]
fn switched_off_every_connection_stays() {
    let (server, _site) = start(MODELS[0], &["--rebalance", "off"]);
    let mut clients = on_one_reactor(&server);
    let start = Instant::now();
    use_all(&mut clients, || start.elapsed() > Duration::from_secs(2));
    assert_eq!(sum(&server, "connections_moved_out"), 0);
    server.stop();
}
