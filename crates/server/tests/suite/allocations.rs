//! Requests on a kept-alive connection allocate nothing once the server is warm, and a connection is small.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use engine::driver::epoll::Epoll;
use engine::{Connections, Driver, Executor, Io, Service, Stop, Stream};
use server::app::Site;
use server::{Http, Limits};

/// Serves one connection on this thread with the real driver, while a client on another thread sends this many
/// requests: how often this thread allocated.
fn allocations_of(requests: usize, file: &std::path::Path) -> u64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut answer = Vec::new();
        for _ in 0..requests {
            stream.write_all(b"GET /page.html HTTP/1.1\r\nHost: a\r\nUser-Agent: test\r\n\r\n").unwrap();
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
    let http = Arc::new(Http::new(Site::open(file).unwrap(), Limits::default(), 1));
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
    std::fs::write(dir.path().join("page.html"), "x".repeat(1017) + "the end").unwrap();
    // Both runs warm up alike, so that only the requests in between make a difference. The cached file is
    // looked at again once a second, so a run on a slow machine may do that some times more.
    let start = std::time::Instant::now();
    let (few, many) = (allocations_of(100, dir.path()), allocations_of(5_100, dir.path()));
    let looks = start.elapsed().as_secs() + 1;
    assert!(many - few <= 8 * looks + 32, "5,000 requests allocated {} times", many - few);
    assert!(few < 500, "{few} allocations to start and serve 100 requests");
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
