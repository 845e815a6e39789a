//! Business time and workers: work does not hold up what is quick, and a full queue says so.

use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Client, MODELS, Server, at_once, site};

#[test]
fn routes_answer_with_and_without_workers() {
    at_once(&MODELS, |root, flags| {
        let server = Server::start(root, &[flags, &["--workloads", "--slow-duration", "20ms"]].concat());
        let mut client = server.connect();
        assert_eq!(client.get("/fast").text(), "fast\n");
        let start = Instant::now();
        assert_eq!(client.get("/slow").text(), "done\n");
        assert!(start.elapsed() >= Duration::from_millis(20));
        assert_eq!(client.get("/work?sleep=1ms&spin=1ms&bytes=70000").body.len(), 70_000);
        assert_eq!(client.get("/bytes?n=123456").body.len(), 123_456);
        let start = Instant::now();
        assert_eq!(client.get("/stream?rate=100000&for=300ms").body.len(), 30_000);
        assert!(start.elapsed() >= Duration::from_millis(250), "{:?}", start.elapsed());
        for path in ["/work?sleep=soon", "/work?bytes=99999999999", "/bytes", "/stream?rate=0&for=1s"] {
            let answer = client.get(path);
            assert!(answer.status == 400 && answer.text().starts_with("expected /"), "{path}: {answer:?}");
        }
        assert_eq!(client.get("/1k.html").status, 200);
        server.stop();
    });
    let site = site();
    let server = Server::start(site.path(), &[]);
    assert_eq!(server.connect().get("/slow").status, 404, "the routes must be asked for");
    server.stop();
}

#[test]
fn business_time_is_added_to_every_request_of_the_site() {
    let site = site();
    for mode in ["sleep", "spin"] {
        for model in ["reactor", "reactor-pool"] {
            let server =
                Server::start(site.path(), &["--work", "5ms", "--work-mode", mode, "--model", model]);
            let mut client = server.connect();
            let start = Instant::now();
            (0..4).for_each(|_| assert_eq!(client.get("/1k.html").status, 200));
            assert!(start.elapsed() >= Duration::from_millis(20));
            server.stop();
        }
    }
}

#[test]
fn slow_work_on_workers_does_not_hold_up_the_reactor() {
    let site = site();
    let flags = ["--model", "reactor-pool", "--workers", "2", "--workloads", "--slow-duration", "3s"];
    let server = Server::start(site.path(), &flags);
    let mut slow: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for client in &mut slow {
        client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let start = Instant::now();
    let mut quick = server.connect();
    (0..50).for_each(|_| assert_eq!(quick.get("/fast").status, 200));
    // Without workers the first of these would have waited for both of the slow ones.
    assert!(start.elapsed() < Duration::from_millis(2900), "{:?}", start.elapsed());
    slow.iter_mut().for_each(|client| assert_eq!(client.answer().text(), "done\n"));
    server.stop();
}

#[test]
fn a_full_queue_is_answered_with_503_at_once_and_loses_nothing() {
    let site = site();
    let flags = [
        "--model",
        "reactor-pool",
        "--workers",
        "1",
        "--queue-capacity",
        "2",
        "--workloads",
        "--slow-duration",
        "1s",
    ];
    let server = Server::start(site.path(), &flags);
    let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let statuses: Vec<u16> = clients.iter_mut().map(|client| client.answer().status).collect();
    let served = statuses.iter().filter(|status| **status == 200).count();
    let refused = statuses.iter().filter(|status| **status == 503).count();
    assert_eq!(served + refused, 8, "{statuses:?}");
    // One is with the worker and two wait; a slow machine may let another one in.
    assert!((2..=4).contains(&served), "{statuses:?}");
    assert_eq!(clients[0].get("/fast").status, 200, "the connections go on");
    server.stop();
}

#[test]
fn clients_that_leave_while_their_request_is_handled_do_no_harm() {
    let site = site();
    let flags = ["--model", "reactor-pool", "--workers", "4", "--workloads", "--slow-duration", "50ms"];
    let server = Server::start(site.path(), &flags);
    for _ in 0..40 {
        server.connect().send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    assert_eq!(server.connect().get("/slow").text(), "done\n");
    let said = server.stop();
    assert!(said.contains("stopped:"), "{said}");
}

#[test]
fn sleeping_work_is_done_by_as_many_as_there_are_workers() {
    let site = site();
    let flags = ["--model", "reactor-pool", "--workers", "20", "--workloads", "--slow-duration", "50ms"];
    let server = Server::start(site.path(), &flags);
    let address = server.address;
    let start = Instant::now();
    let clients: Vec<_> = (0..20)
        .map(|_| {
            thread::spawn(move || {
                let mut client = Client::connect(address);
                (0..4).for_each(|_| assert_eq!(client.get("/slow").text(), "done\n"));
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    // 80 x 50 ms of work: 4 s for one, 0.2 s for twenty.
    let took = start.elapsed();
    assert!((Duration::from_millis(200)..Duration::from_secs(2)).contains(&took), "{took:?}");
    server.stop();
}

/// Sends a request with a body and returns the answer.
fn post(client: &mut Client, fields: &str, body: &[u8]) -> crate::common::Answer {
    client.send(format!("POST /echo HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    // An answer may come before all of the body is sent, and the connection may be closed by then.
    let _ = std::io::Write::write_all(&mut client.0, body);
    client.answer()
}

#[test]
fn what_is_posted_comes_back() {
    let site = site();
    let large: Vec<u8> = (0..300_000u32).map(|n| (n * 7 % 251) as u8).collect();
    for flags in MODELS {
        let server =
            Server::start(site.path(), &[flags, &["--workloads", "--body-bytes", "400KiB"]].concat());
        let mut client = server.connect();
        for body in [&b""[..], b"x", &large] {
            let answer = post(&mut client, &format!("Content-Length: {}\r\n", body.len()), body);
            assert!(answer.status == 200 && answer.body == body, "{flags:?} {}", answer.head);
        }
        let chunked = b"5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\nTrailer: t\r\n\r\n";
        assert_eq!(post(&mut client, "Transfer-Encoding: chunked\r\n", chunked).text(), "hello, world");
        // A client that asks first is told to go on, and then answered.
        client.send("POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
        assert_eq!(client.head_of_answer().status, 100);
        client.send("ok");
        assert_eq!(client.answer().text(), "ok");
        assert_eq!(client.get("/echo").status, 405);
        assert_eq!(client.get("/1k.html").status, 200, "the connection goes on");

        let too_large = post(&mut client, "Content-Length: 999999\r\n", &[]);
        assert_eq!((too_large.status, too_large.field("Connection")), (413, Some("close")), "{flags:?}");
        let endless = [b"61A80\r\n".as_slice(), &[b'x'; 400_000], b"\r\n61A80\r\n", &[b'x'; 20_000]].concat();
        let too_large = post(&mut server.connect(), "Transfer-Encoding: chunked\r\n", &endless);
        assert_eq!(too_large.status, 413, "{flags:?}");
        let malformed = post(&mut server.connect(), "Transfer-Encoding: chunked\r\n", b"zz\r\n");
        assert_eq!(malformed.status, 400, "{flags:?}");
        // The server waits a while for whoever has had its last answer to leave.
        drop(client);
        server.stop();
    }
}

#[test]
fn a_body_that_comes_too_slowly_is_answered_with_408() {
    let site = site();
    for flags in [&["--model", "reactor"][..], &["--model", "thread-pool"], &["--model", "proactor"]] {
        let server =
            Server::start(site.path(), &[flags, &["--workloads", "--body-timeout", "200ms"]].concat());
        let start = Instant::now();
        let answer = post(&mut server.connect(), "Content-Length: 10\r\n", b"half");
        assert_eq!((answer.status, answer.field("Connection")), (408, Some("close")), "{flags:?}");
        assert!(start.elapsed() >= Duration::from_millis(200));
        server.stop();
    }
}

#[test]
fn urgent_requests_overtake_those_that_wait() {
    let site = site();
    let log = site.path().join("access.log");
    for queue in ["mutex", "lock-free"] {
        let flags = ["--model", "reactor-pool", "--workers", "1", "--queue", queue, "--order", "priority"];
        let work = ["--workloads", "--slow-duration", "300ms", "--class", "/work=high"];
        let written = ["--access-log", log.to_str().unwrap()];
        let server = Server::start(site.path(), &[&flags[..], &work, &written].concat());
        let mut slow: Vec<_> = (0..6).map(|_| server.connect()).collect();
        for client in &mut slow {
            client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        thread::sleep(Duration::from_millis(50));
        assert_eq!(server.connect().get("/work").text(), "done\n");
        slow.iter_mut().for_each(|client| assert_eq!(client.answer().text(), "done\n"));
        server.stop();
        // In turn it would be the last of all; now it is served behind the one that was under way.
        let lines = std::fs::read_to_string(&log).unwrap();
        let answered: Vec<&str> = lines.lines().filter_map(|line| line.split('"').nth(1)).collect();
        let urgent = answered.iter().position(|request| request.contains("/work")).unwrap();
        assert!(answered.len() == 7 && urgent < 6, "{queue}: {answered:?}");
        std::fs::remove_file(&log).unwrap();
    }
}

#[test]
fn new_connections_are_kept_from_a_reactor_that_is_busy() {
    let site = site();
    // How many of these wait behind a connection whose requests hold one of four reactors up all the time.
    let slow_ones = |balance| {
        let flags = ["--model", "multi-reactor", "--reactors", "4", "--workloads", "--balance", balance];
        let server = Server::start(site.path(), &flags);
        let (address, over) = (server.address, std::sync::atomic::AtomicBool::new(false));
        let slow = thread::scope(|scope| {
            scope.spawn(|| {
                let mut heavy = Client::connect(address);
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    assert_eq!(heavy.get("/work?sleep=100ms").status, 200);
                }
            });
            thread::sleep(Duration::from_millis(150));
            let is_slow = |_: &i32| {
                let start = Instant::now();
                assert_eq!(Client::connect(address).get("/fast").status, 200);
                start.elapsed() > Duration::from_millis(30)
            };
            let slow = (0..40).filter(is_slow).count();
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            slow
        });
        server.stop();
        slow
    };
    let (in_turn, by_load) = (slow_ones("round-robin"), slow_ones("least-busy"));
    assert!(in_turn >= 5, "a quarter of the connections goes to the busy reactor: {in_turn} of 40");
    assert!(by_load * 2 < in_turn, "{by_load} of 40, and in turn {in_turn}");
}
