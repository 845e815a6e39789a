//! Two loads at the same time in one process: each has its own processor time, and none of the other's.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::thread;
use std::time::Duration;

use engine::clock;
use load::{Outcome, Plan, Stop, Switch, run, webbench};

/// A server that answers each request and closes, after a millisecond.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
                if stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                    thread::sleep(Duration::from_millis(1));
                    let _ = stream.write_all(answer);
                }
            });
        }
    });
    address
}

fn plan(address: SocketAddr, connections: u32) -> Plan {
    let stop = Stop::Seconds(0.5);
    Plan { connections, threads: 1, stop, close: true, ..Plan::new(format!("http://{address}/")) }
}

/// One of our own.
fn own(plan: &Plan) -> Outcome {
    run(plan, &mut |_| ()).unwrap()
}

/// One with a thread for each client.
fn blocking(plan: &Plan) -> Outcome {
    webbench::run(Path::new(""), &[], plan, &Switch::default(), &mut |_| ()).unwrap()
}

#[test]
fn the_processor_time_of_a_load_is_that_of_its_own_requests() {
    let address = server();
    for [first, second] in [[own, own], [own, blocking], [blocking, own]] as [[fn(&Plan) -> Outcome; 2]; 3] {
        // No clock of threads that are not the same ones can come to more than that of all threads.
        let begun = clock::of_process();
        let (first, second) = thread::scope(|scope| {
            let beside = scope.spawn(|| second(&plan(address, 4)));
            (first(&plan(address, 4)), beside.join().unwrap())
        });
        let all = (clock::of_process() - begun).as_secs_f64();
        let own = [&first, &second].map(|outcome| outcome.client.cpu_s);
        assert!(own[0] + own[1] <= all, "{own:?} of {all}");
        for outcome in [first, second] {
            assert!(outcome.answered() > 0 && outcome.client.cpu_s > 0.0, "{:?}", outcome.client);
            let each = outcome.client.cpu_s * 1e6 / outcome.answered() as f64;
            assert!((outcome.client.cpu_us_per_request - each).abs() < 1e-6, "{:?}", outcome.client);
        }
    }
}
