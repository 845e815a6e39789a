//! At the bounds: slow clients, crowds of idle ones, too many connections, no descriptors left.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketType};

use crate::common::{Client, MODELS, PATIENCE, Server, at_once, output_of, plimsoll, site, until};

#[test]
fn a_head_that_comes_too_slowly_is_answered_with_408() {
    at_once(&MODELS, |root, flags| {
        let server = Server::start(root, &[flags, &["--header-timeout", "300ms"]].concat());
        // The time runs from when the server sees the connection, which is not before this.
        let start = Instant::now();
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHos");
        let answer = client.answer();
        assert_eq!(answer.status, 408);
        assert!(start.elapsed() >= Duration::from_millis(300), "{:?}", start.elapsed());
        assert_eq!(client.rest(), b"");
        // The client is still there: the server waits a while for it to leave, and then stops in order all the same.
        server.stop();
    });
}

#[test]
fn an_idle_connection_is_closed_in_time() {
    at_once(&MODELS, |root, flags| {
        let server = Server::start(root, &[flags, &["--idle-timeout", "300ms"]].concat());
        let mut client = server.connect();
        assert_eq!(client.get("/1k.html").status, 200);
        assert_eq!(client.rest(), b"");
        server.stop();
    });
}

#[test]
fn who_is_idle_makes_room_for_who_is_not() {
    at_once(&[&["reactor"], &["reuseport"], &["multi-reactor-pool"], &["proactor"]], |root, model| {
        let flags = ["--model", model[0], "--reactors", "1", "--connections", "4", "--admin", "127.0.0.1:0"];
        let server = Server::start(root, &flags);
        let mut idle: Vec<Client> = (0..4).map(|_| server.connect()).collect();
        idle.iter_mut().for_each(|client| assert_eq!(client.get("/1k.html").status, 200));
        // Whoever comes is turned away at first, and let in as soon as somebody has been idle for long enough.
        until(format_args!("{model:?} lets one in"), || server.connect().get("/1k.html").status == 200);
        let made = server.sample("\"idle_made_room\"");
        assert!(!made.ends_with(" 0"), "{model:?}: {made}");
        server.stop();
    });
}

/// How many connections a crowd has, and the right to be the only one: two at a time would need more descriptors than many
/// a limit allows.
fn crowd() -> (MutexGuard<'static, ()>, u64) {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    engine::host::raise_descriptor_limit();
    let limit = engine::host::descriptor_limit().unwrap_or(u64::MAX);
    let crowd = 10_000.min(limit.saturating_sub(500));
    if crowd < 10_000 {
        eprintln!("only {crowd} connections: the limit of descriptors is {limit} (ulimit -Hn)");
    }
    (alone, crowd)
}

#[test]
fn ten_thousand_idle_connections_do_not_disturb_another() {
    let site = site();
    let (_alone, crowd) = crowd();
    // The models with workers have the same reactors, and a thread for each of them is what the others are for.
    for flags in [&["--model", "reactor"][..], &["--model", "multi-reactor"], &["--model", "proactor"]] {
        let server = Server::start(
            site.path(),
            &[flags, &["--connections", "11000", "--header-timeout", "10min"]].concat(),
        );
        assert_eq!(server.connect().get("/1k.html").status, 200);
        let resident = server.resident();
        let idle: Vec<Client> = (0..crowd)
            .map(|_| {
                let mut client = server.connect();
                assert_eq!(client.get("/1k.html").status, 200);
                client
            })
            .collect();
        // Beyond the table of connections, which is reserved at the start.
        let each = server.resident().saturating_sub(resident) / crowd;
        assert!(each <= 1024, "{each} bytes for each idle connection with {flags:?}");
        let mut client = server.connect();
        let times = times(&mut client, 200);
        // A hundred times what a request takes on an idle machine; a server that looks at every connection
        // for each request would take longer.
        assert!(times[100] < Duration::from_millis(10), "median {:?}", times[100]);
        let before = server.cpu();
        std::thread::sleep(Duration::from_millis(500));
        assert!(server.cpu() - before < Duration::from_millis(100), "idle connections cost processor time");
        drop(idle);
        server.stop();
    }
}

/// How long so many requests took, one after the other; the shortest first.
fn times(client: &mut Client, requests: usize) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..requests)
        .map(|_| {
            let start = Instant::now();
            assert_eq!(client.get("/1k.html").status, 200);
            start.elapsed()
        })
        .collect();
    times.sort();
    times
}

#[test]
fn thousands_of_slow_heads_do_not_hold_up_others() {
    let site = site();
    let (_alone, crowd) = crowd();
    for flags in [&["--model", "reactor"][..], &["--model", "multi-reactor"], &["--model", "proactor"]] {
        let server = Server::start(
            site.path(),
            &[flags, &["--connections", "11000", "--header-timeout", "10min"]].concat(),
        );
        assert_eq!(server.connect().get("/1k.html").status, 200);
        let resident = server.resident();
        let stalled: Vec<Client> = (0..crowd)
            .map(|_| {
                let mut client = server.connect();
                client.send("GET /1k.html HTTP/1.1\r\nHost: a\r\nX-Slow: ");
                client
            })
            .collect();
        let mut client = server.connect();
        // A busy machine may hold it up once; a server that the crowd holds up is held up every time.
        let p99 = (0..5).map(|_| times(&mut client, 500)[495]).min().unwrap();
        assert!(p99 < Duration::from_millis(100), "p99 {p99:?} with {flags:?}");
        // A page of a buffer, and little beside.
        let each = server.resident().saturating_sub(resident) / crowd;
        assert!(each <= 4 * 1024 + 512, "{each} bytes for each stalled connection with {flags:?}");
        drop(stalled);
        server.stop();
    }
}

#[test]
fn connections_past_the_limit_get_503_and_the_next_one_is_served_when_there_is_room() {
    let site = site();
    for flags in [
        &["--model", "reactor"][..],
        &["--model", "multi-reactor", "--reactors", "1"],
        &["--model", "proactor", "--reactors", "1"],
        &["--model", "thread-pool"],
        &["--model", "thread-per-connection"],
        &["--model", "thread-per-connection", "--workers", "2"],
    ] {
        let server = Server::start(site.path(), &[flags, &["--connections", "2"]].concat());
        let mut inside = [server.connect(), server.connect()];
        inside.iter_mut().for_each(|client| assert_eq!(client.get("/1k.html").status, 200));
        let answer = server.connect().answer();
        assert_eq!((answer.status, answer.field("Retry-After")), (503, Some("1")));
        assert_eq!(inside[0].get("/1k.html").status, 200);
        drop(inside);
        until(format_args!("there is room again with {flags:?}"), || {
            let mut client = server.connect();
            client.send("GET /1k.html HTTP/1.1\r\nHost: a\r\n\r\n").head_of_answer().status == 200
        });
        server.stop();
    }
}

/// A server that may have more connections than descriptors, so that these run out first.
fn short_of_descriptors(root: &Path, flags: &[&str]) -> Server {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_plimsoll"), "serve"]);
    command.arg(root).args(["--listen", "127.0.0.1:0", "--connections", "1000"]).args(flags);
    Server::spawn(command)
}

#[test]
fn without_descriptors_accepting_pauses_and_recovers() {
    let site = site();
    for flags in MODELS {
        let server = short_of_descriptors(site.path(), flags);
        // All are in the middle of a request, so that nobody makes room.
        let begun = || {
            let mut client = server.connect();
            client.send("GET /1k.html HTTP/1.1\r\nHost: a\r\n");
            client
        };
        let mut first = server.connect();
        // It is in before the crowd, whichever reactor is late: or it would wait until one of them has left.
        assert_eq!(first.get("/1k.html").status, 200);
        first.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n");
        let mut crowd: Vec<Client> = (0..100).map(|_| begun()).collect();
        // Let it run into the limit, and see that it neither spins nor stops serving those who are in. It
        // cannot open files now, which is no reason to say that they do not exist.
        std::thread::sleep(Duration::from_millis(300));
        let before = server.cpu();
        std::thread::sleep(Duration::from_millis(500));
        let used = server.cpu() - before;
        assert!(used < Duration::from_millis(150), "{used:?} of processor time in half a second of pause");
        // What the server reads of itself takes a descriptor for a moment: where accepting found none just then, one is left
        // until it looks again.
        if first.send("\r\n").answer().status != 503 {
            until(format_args!("there is no descriptor with {flags:?}"), || {
                first.get("/large.bin").status == 503
            });
        }
        // Those who got in leave, with some others; all who are left are served. Until the server has seen that they have
        // left, a file cannot be opened.
        crowd.drain(..80);
        for client in &mut crowd {
            if client.send("\r\n").answer().status != 200 {
                until(format_args!("a client is served with {flags:?}"), || {
                    client.get("/1k.html").status == 200
                });
            }
        }
        drop(crowd);
        assert_eq!(server.connect().get("/large.bin").status, 200);
        server.stop();
    }
}

#[test]
fn without_descriptors_who_is_idle_makes_room() {
    at_once(&MODELS, |root, flags| {
        let server = short_of_descriptors(root, &[flags, &["--workloads"]].concat());
        let idle: Vec<Client> = (0..70).map(|_| server.connect()).collect();
        // It waits behind those for whom there was no descriptor, and none of them leaves.
        assert_eq!(server.connect().get("/fast").status, 200, "{flags:?}");
        drop(idle);
        server.stop();
    });
}

#[test]
fn a_client_that_does_not_read_is_cut_off_and_holds_up_nobody() {
    at_once(&MODELS, |root, flags| {
        let server = Server::start(root, &[flags, &["--send-timeout", "500ms"]].concat());
        let mut deaf = server.connect();
        deaf.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n".repeat(4));
        let start = Instant::now();
        // Long enough for a server that is one of many on a busy machine.
        while start.elapsed() < Duration::from_secs(3) {
            assert_eq!(server.connect().get("/1k.html").status, 200);
            std::thread::sleep(Duration::from_millis(50));
        }
        // Reset, so that the kernel does not keep for it what it does not take.
        let mut rest = Vec::new();
        let end = deaf.0.read_to_end(&mut rest);
        assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset, "{flags:?}");
        assert!(rest.len() < 80 << 20, "{} bytes with {flags:?}", rest.len());
        server.stop();
    });
}

/// A connection to a server by a client that has room for next to nothing.
fn narrow(server: &Server) -> TcpStream {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::sockopt::set_socket_recv_buffer_size(&socket, 4096).unwrap();
    net::connect(&socket, &server.address).unwrap();
    socket.into()
}

/// Whether the kernel has a server's side of a connection.
fn has_server_side(server: &Server, client: &TcpStream) -> bool {
    let (from, to) = (server.address.port(), client.local_addr().unwrap().port());
    let pair = format!(":{from:04X} 0100007F:{to:04X} ");
    std::fs::read_to_string("/proc/net/tcp").unwrap().contains(&pair)
}

#[test]
fn what_a_client_does_not_read_does_not_stay_with_the_kernel() {
    at_once(&MODELS, |root, flags| {
        let bounds = ["--send-timeout", "500ms", "--idle-timeout", "10min", "--admin", "127.0.0.1:0"];
        let server = Server::start(root, &[flags, &bounds].concat());
        let deaf = ["keep-alive", "close"].map(|connection| {
            let mut stream = narrow(&server);
            // More than the client has room for, and less than the kernel takes for it: for the server all of it is sent.
            let request = "GET /text.txt HTTP/1.1\r\nHost: a\r\n";
            let all = format!("{request}\r\n{request}\r\n{request}Connection: {connection}\r\n\r\n");
            stream.write_all(all.as_bytes()).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.read_exact(&mut [0; 12]).unwrap();
            stream
        });
        for stream in &deaf {
            until(format_args!("the kernel has let go, with {flags:?}"), || {
                !has_server_side(&server, stream)
            });
        }
        until(format_args!("it is counted, with {flags:?}"), || {
            let page = Client::connect(server.admin()).get("/metrics").text();
            let samples = page.lines().filter(|line| line.contains("\"send_timeouts\""));
            // At least the one that stayed open; the other may have been seen to end before it was closed.
            samples.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>() >= 1
        });
        server.stop();
    });
}

#[test]
fn an_address_with_all_its_connections_is_refused_until_one_ends() {
    let site = site();
    for flags in MODELS {
        let server = Server::start(site.path(), &[flags, &["--connections-per-address", "2"]].concat());
        let (mut first, mut second) = (server.connect(), server.connect());
        assert_eq!((first.get("/1k.html").status, second.get("/1k.html").status), (200, 200), "{flags:?}");
        let refused = server.connect().get("/1k.html");
        assert_eq!((refused.status, refused.field("Retry-After")), (503, Some("1")), "{flags:?}");
        drop(first);
        until(format_args!("there is room again with {flags:?}"), || {
            server.connect().get("/1k.html").status == 200
        });
        assert_eq!(second.get("/1k.html").status, 200, "{flags:?}");
        server.stop();
    }
}

#[test]
fn the_program_says_its_version() {
    let said = output_of(plimsoll().arg("--version"));
    assert_eq!(said, format!("plimsoll {}\n", env!("CARGO_PKG_VERSION")));
}
