//! Business time and workers: work does not hold up what is quick, and a full queue says so.

use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Server, site};

#[test]
fn routes_answer_with_and_without_workers() {
    let site = site();
    for flags in
        [&["--model", "reactor"][..], &["--model", "reactor-pool"], &["--model", "multi-reactor-pool"]]
    {
        let server =
            Server::start(site.path(), &[flags, &["--workloads", "--slow-duration", "20ms"]].concat());
        let mut client = server.connect();
        assert_eq!(client.get("/fast").text(), "fast\n");
        let start = Instant::now();
        assert_eq!(client.get("/slow").text(), "done\n");
        assert!(start.elapsed() >= Duration::from_millis(20));
        assert_eq!(client.get("/work?sleep=1ms&spin=1ms&bytes=70000").body.len(), 70_000);
        assert_eq!(client.get("/bytes?n=123456").body.len(), 123_456);
        for path in ["/work?sleep=soon", "/work?bytes=99999999999", "/bytes"] {
            let answer = client.get(path);
            assert!(answer.status == 400 && answer.text().starts_with("expected /"), "{path}: {answer:?}");
        }
        assert_eq!(client.get("/1k.html").status, 200);
        server.stop();
    }
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
                let mut client = crate::common::Client::connect(address);
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
