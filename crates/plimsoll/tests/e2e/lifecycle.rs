//! Starting and stopping: signals, requests under way, and nothing left behind.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::{Client, MODELS, Server, site, until};

#[test]
fn both_signals_stop_it_in_order_and_idle_connections_do_not_hold_it_up() {
    let site = site();
    for flags in MODELS {
        for signal in [Signal::TERM, Signal::INT] {
            let mut server = Server::start(site.path(), flags);
            let mut clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
            for client in &mut clients {
                assert_eq!(client.get("/1k.html").status, 200);
            }
            let start = Instant::now();
            server.signal(signal);
            let said = server.wait();
            assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
            assert!(said.contains("stopped: 20 requests answered"), "{said}");
            for client in &mut clients {
                assert_eq!(client.rest(), b"");
            }
        }
    }
}

#[test]
fn a_request_under_way_is_finished_before_the_end() {
    let site = site();
    for flags in MODELS {
        let mut server = Server::start(site.path(), flags);
        let mut client = server.connect();
        client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = client.head_of_answer();
        assert_eq!(head.status, 200);
        server.signal(Signal::TERM);
        // More than any socket buffer holds is still to come.
        let mut body = vec![0; 20 << 20];
        client.0.read_exact(&mut body).unwrap();
        assert!(body == crate::common::large());
        server.wait();
    }
}

#[test]
fn a_request_whose_body_is_under_way_is_answered_before_the_end() {
    let site = site();
    for flags in MODELS {
        let mut server = Server::start(site.path(), &[flags, &["--workloads"]].concat());
        let (mut counted, mut chunked) = (server.connect(), server.connect());
        counted.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf ");
        chunked.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf \r\n");
        // Long enough that a thread waits for the rest, and would be taken for one that waits for a request.
        thread::sleep(Duration::from_millis(100));
        server.signal(Signal::TERM);
        thread::sleep(Duration::from_millis(300));
        counted.send("whole");
        chunked.send("5\r\nwhole\r\n0\r\n\r\n");
        for client in [&mut counted, &mut chunked] {
            let answer = client.answer();
            assert_eq!((answer.status, &answer.body[..]), (200, &b"half whole"[..]), "{flags:?}");
        }
        server.wait();
    }
}

#[test]
fn what_still_waits_at_the_end_of_the_drain_limit_is_not_worked_on() {
    let site = site();
    for model in ["reactor-pool", "proactor-pool", "thread-pool"] {
        let work = ["--workers", "1", "--work", "500ms", "--drain", "300ms"];
        let mut server = Server::start(site.path(), &[&["--model", model][..], &work].concat());
        let mut clients: Vec<_> = (0..30).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send("GET /1k.html HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        let start = Instant::now();
        server.signal(Signal::TERM);
        server.wait();
        // All of them would take 15 s.
        assert!(start.elapsed() < Duration::from_secs(8), "{model}: {:?}", start.elapsed());
    }
}

#[test]
fn a_client_that_does_not_read_holds_it_up_no_longer_than_the_drain_limit() {
    let site = site();
    let mut server = Server::start(site.path(), &["--drain", "300ms"]);
    let mut client = server.connect();
    client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n").head_of_answer();
    let start = Instant::now();
    server.signal(Signal::TERM);
    let said = server.wait();
    assert!(
        start.elapsed() >= Duration::from_millis(300) && said.contains("cut off"),
        "{:?} {said}",
        start.elapsed()
    );
}

#[test]
fn a_stop_under_full_load_loses_no_request() {
    let site = site();
    for flags in MODELS {
        let mut server = Server::start(site.path(), flags);
        let (address, signalled) = (server.address, AtomicBool::new(false));
        let answered_once = AtomicUsize::new(0);
        thread::scope(|scope| {
            let clients: Vec<_> = (0..32)
                .map(|_| {
                    scope.spawn(|| {
                        let mut client = Client::connect(address);
                        let mut answered = 0;
                        // A request that was sent before the signal must be answered whole; whether one that is sent
                        // after it is, is the server's affair.
                        loop {
                            client.send("GET /1k.html HTTP/1.1\r\nHost: a\r\n\r\n");
                            let after = signalled.load(Ordering::SeqCst);
                            if after {
                                return;
                            }
                            assert_eq!(client.answer().body.len(), 1024, "after {answered}");
                            answered += 1;
                            if answered == 1 {
                                answered_once.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                    })
                })
                .collect();
            while answered_once.load(Ordering::SeqCst) < clients.len() {
                assert!(clients.iter().all(|client| !client.is_finished()), "{flags:?}: a client failed");
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(100));
            // In this order: whoever does not see it yet has sent its request before the signal.
            signalled.store(true, Ordering::SeqCst);
            server.signal(Signal::TERM);
            for client in clients {
                client.join().unwrap();
            }
        });
        server.wait();
    }
}

#[test]
fn an_answer_that_comes_after_its_connection_was_cut_off_is_dropped_and_counted() {
    let site = site();
    for model in ["reactor-pool", "multi-reactor-pool", "proactor-pool"] {
        let flags = ["--model", model, "--workloads", "--slow-duration", "600ms", "--drain", "100ms"];
        let mut server = Server::start(site.path(), &flags);
        let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        std::thread::sleep(Duration::from_millis(50));
        server.signal(Signal::TERM);
        let said = server.wait();
        assert!(said.contains("answers whose connection was gone when they came: 3"), "{model}: {said}");
        for client in &mut clients {
            assert!(client.rest().is_empty(), "{model}");
        }
    }
}

#[test]
fn connections_that_came_before_the_signal_are_answered() {
    let site = site();
    for flags in MODELS {
        let mut server = Server::start(site.path(), flags);
        // The requests are in the sockets' buffers; some of the connections are not accepted yet.
        let mut clients: Vec<_> = (0..100).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send("GET /1k.html HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        server.signal(Signal::TERM);
        for (at, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.answer().body.len(), 1024, "client {at} with {flags:?}");
        }
        server.wait();
    }
}

#[test]
fn fifty_cycles_of_start_and_stop_work() {
    let site = site();
    for cycle in 0..50 {
        let server = Server::start(site.path(), MODELS[cycle % MODELS.len()]);
        assert_eq!(server.connect().get("/1k.html").status, 200, "cycle {cycle}");
        server.stop();
    }
}

#[test]
fn a_server_that_nobody_listens_to_any_more_still_stops_in_order() {
    let site = site();
    let mut server = Server::start(site.path(), &["--drain", "1s"]);
    assert_eq!(server.connect().get("/1k.html").status, 200);
    server.hang_up();
    server.signal(Signal::TERM);
    until("it has ended", || server.has_ended());
    server.wait();
}
