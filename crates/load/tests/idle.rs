//! Connections that a server ends while they lie idle, or says something on: no request is lost for it, and no answer made up.

mod common;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use load::{Arrivals, Outcome, Plan, Stop, run};

use common::{request, server};

/// How long the server waits for a request, and how long the clients think: a busy host is not that late.
const WAITS: Duration = Duration::from_millis(50);
const THINK_S: f64 = 0.6;

/// A server that does something where no request has come for a while.
fn then(tired: fn(&mut TcpStream)) -> SocketAddr {
    server(move |mut stream| {
        stream.set_read_timeout(Some(WAITS)).unwrap();
        while request(&mut stream) {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
        tired(&mut stream);
    })
}

/// Three requests on each of two connections, with time to think between; on either driver.
fn load(address: SocketAddr) -> [Outcome; 2] {
    // Slow readers are not on io_uring; these are none in truth.
    [0.0, 1e9].map(|receive_rate| {
        let plan = Plan {
            connections: 2,
            threads: 2,
            stop: Stop::Requests(6),
            arrivals: Arrivals::Closed { think_s: THINK_S },
            receive_rate,
            ..Plan::new(format!("http://{address}/"))
        };
        run(&plan, &mut |_| ()).unwrap()
    })
}

#[test]
fn a_connection_that_was_ended_while_idle_is_made_anew_and_is_no_error() {
    for outcome in load(then(|_| ())) {
        assert_eq!((outcome.requests, outcome.errors.total(), outcome.reconnects), (6, 0, 4), "{outcome:?}");
        assert_eq!(outcome.connect_us.count, 6);
    }
}

#[test]
fn a_408_on_an_idle_connection_is_an_end_and_no_answer() {
    let address = then(|stream| {
        let _ = stream
            .write_all(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
    for outcome in load(address) {
        assert_eq!((outcome.requests, outcome.errors.total(), outcome.reconnects), (6, 0, 4), "{outcome:?}");
        assert_eq!((outcome.statuses.len(), outcome.statuses[&200]), (1, 6));
    }
}

#[test]
fn bytes_that_nobody_asked_for_are_no_answer() {
    let address = then(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno");
        // Until the client has closed.
        stream.set_read_timeout(None).unwrap();
        request(stream);
    });
    for outcome in load(address) {
        // Each second one on a connection finds them there.
        let (answers, malformed) = (outcome.requests, outcome.errors.malformed);
        assert_eq!((answers + malformed, outcome.errors.total()), (6, malformed), "{outcome:?}");
        assert!((2..=4).contains(&malformed), "{outcome:?}");
    }
}
