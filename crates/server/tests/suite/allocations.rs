//! Requests on a kept-alive connection allocate nothing once the server is warm, and a connection is small.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use engine::driver::epoll::Epoll;
use engine::{Connections, Driver, Executor, Io, Model, Service, Stop, Stream};
use server::app::Site;
use server::{Body, Http, Limits, Request, Response};

/// Serves one connection on this thread with the real driver, while a client on another thread sends this many requests with
/// these fields: how often this thread allocated.
fn allocations_of(requests: usize, dir: &std::path::Path, request: &str, with_ids: bool) -> u64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let request = request.to_owned();
    let client = thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut answer = Vec::new();
        for _ in 0..requests {
            stream.write_all(request.as_bytes()).unwrap();
            let mut buffer = [0; 4096];
            answer.clear();
            while !answer.ends_with(b"the end") {
                let n = stream.read(&mut buffer).unwrap();
                assert!(n > 0, "the server closed");
                answer.extend_from_slice(&buffer[..n]);
            }
        }
    });
    let (stream, peer) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    let http = Http::new(Site::open(dir).unwrap(), Limits::default(), 1).with_request_ids(with_ids);
    let http = Arc::new(http);
    let counted = allocation_counter::measure(|| {
        let io = Io::new(Epoll::open(engine::Limits { sockets: 4 }).unwrap());
        let local = http.on_reactor::<Epoll>(0, &io);
        let executor = Executor::new(1, io.driver().unpark());
        let stream = Stream::new(&io, stream.into()).unwrap();
        assert!(executor.spawn(local.serve(stream, peer, Stop::default())).is_ok());
        executor.run(&io, &engine::meter::Meter::default(), || {}, executor.at_most(0)).unwrap();
    });
    client.join().unwrap();
    assert_eq!(http.totals().requests, requests as u64);
    counted.count_total
}

#[test]
fn a_warm_request_allocates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for (name, filling) in [("page.html", "x"), ("page.html.br", "y"), ("a b.html", "z")] {
        std::fs::write(dir.path().join(name), filling.repeat(1017) + "the end").unwrap();
    }
    for (target, fields, with_ids) in [
        ("/page.html", "", false),
        ("/page.html", "Accept-Encoding: gzip, deflate, br, zstd\r\n", false),
        ("/page.html", "", true),
        ("/page.html", "X-Request-Id: one-of-its-own\r\n", true),
        ("/a%20b.html", "", false),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nUser-Agent: test\r\n{fields}\r\n");
        let ask = |requests| allocations_of(requests, dir.path(), &request, with_ids);
        // Both runs warm up alike, so that only the requests in between make a difference. The cached file is looked at again
        // twice a second, so a run on a slow machine may do that some times more.
        let start = std::time::Instant::now();
        let (few, many) = (ask(100), ask(5_100));
        let looks = 2 * (start.elapsed().as_secs() + 1);
        assert!(
            many <= few + 16 * looks + 32,
            "{request}5,000 requests allocated {} times",
            many.saturating_sub(few)
        );
        assert!(few < 500, "{request}{few} allocations to start and serve 100 requests");
    }
}

/// Connections whose requests are with the workers at the same time.
const CLIENTS: usize = 100;

/// Serves so many connections on this thread, whose requests go to workers, a number of times from all connections at once: how
/// often this thread allocated.
fn allocations_of_hand_offs(rounds: usize) -> u64 {
    // No worker begins before the requests of all clients are there.
    let (begun, may_begin) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let let_in = may_begin.clone();
    let handler = move |_: &Request<'_>, response: &mut Response| {
        let nth = begun.fetch_add(1, Ordering::Relaxed);
        crate::common::until("all clients have asked", || nth < let_in.load(Ordering::Relaxed));
        response.body(Body::Static(b"done"));
    };
    let topology = Model::ReactorPool.row(2, CLIENTS);
    let http = Arc::new(Http::on(handler, Limits::default(), &topology).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect =
        || (TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener.accept().unwrap());
    let (mut clients, accepted): (Vec<_>, Vec<_>) = (0..CLIENTS).map(|_| connect()).unzip();
    let pool = http.pools()[0].clone();
    let asking = thread::spawn(move || {
        for round in 1..=rounds {
            for client in &mut clients {
                client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: test\r\n\r\n").unwrap();
            }
            let all = round * CLIENTS;
            crate::common::until("all are handed over", || {
                pool.counters().submitted.load(Ordering::Relaxed) == all as u64
            });
            may_begin.store(all, Ordering::Relaxed);
            for client in &mut clients {
                let mut answer = Vec::new();
                while !answer.ends_with(b"done") {
                    let mut byte = [0];
                    client.read_exact(&mut byte).unwrap();
                    answer.push(byte[0]);
                }
            }
        }
    });
    let counted = allocation_counter::measure(|| {
        let io = Io::new(Epoll::open(engine::Limits { sockets: CLIENTS + 4 }).unwrap());
        let local = http.on_reactor::<Epoll>(0, &io);
        let executor = Executor::new(CLIENTS, io.driver().unpark());
        for (stream, peer) in accepted {
            stream.set_nonblocking(true).unwrap();
            let stream = Stream::new(&io, stream.into()).unwrap();
            assert!(executor.spawn(local.serve(stream, peer, Stop::default())).is_ok());
        }
        let wake = || Connections::<Epoll>::end_of_turn(&local);
        executor.run(&io, &engine::meter::Meter::default(), wake, executor.at_most(0)).unwrap();
    });
    asking.join().unwrap();
    assert_eq!(http.totals().requests, (rounds * CLIENTS) as u64);
    counted.count_total
}

#[test]
fn a_warm_hand_off_to_a_worker_allocates_nothing() {
    let (few, many) = (allocations_of_hand_offs(3), allocations_of_hand_offs(13));
    assert!(many <= few + 64, "1,000 hand-offs allocated {} times", many - few);
}

#[test]
fn a_connection_fits_in_a_kibibyte() {
    let io = Io::new(Epoll::open(engine::Limits { sockets: 4 }).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let http = Arc::new(Http::new(crate::common::handler, Limits::default(), 1));
    let local = http.on_reactor::<Epoll>(0, &io);
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let connection = local.serve(Stream::new(&io, stream.into()).unwrap(), peer, Stop::default());
    let bytes = size_of_val(&connection);
    println!("a connection's task takes {bytes} bytes");
    assert!(bytes <= 1024, "{bytes} bytes");
}
