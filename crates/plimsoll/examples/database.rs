//! Calls something that blocks, as a database does, on workers: `cargo run --release --example database`.
//!
//! Pages that need no call are answered by the reactor, and stay quick however many calls are waiting:
//! `plimsoll bench http://127.0.0.1:8080/rows -c 100` beside `plimsoll bench http://127.0.0.1:8080/`.

use std::thread::sleep;
use std::time::Duration;

use plimsoll::{Body, Handler, Model, Place, Request, Response, Server, Topology};

/// A database client, as most are: a call returns when the answer is there.
struct Database;

impl Database {
    fn query(&self, _sql: &str) -> Vec<u64> {
        sleep(Duration::from_millis(5));
        (1..=10).collect()
    }
}

struct Application {
    database: Database,
}

impl Handler for Application {
    fn handle(&self, request: &Request<'_>, response: &mut Response) {
        match request.head.path() {
            "/rows" => {
                let rows = self.database.query("select id from rows");
                response.body(Body::Owned(format!("{rows:?}\n").into()))
            }
            _ => response.body(Body::Static(b"see /rows\n")),
        };
    }

    fn place(&self, request: &Request<'_>) -> Place {
        if request.head.path() == "/rows" { Place::Worker } else { Place::Reactor }
    }
}

fn main() -> std::io::Result<()> {
    let server = Server::new(Application { database: Database }).model(Model::ReusePortPool);
    // As many calls at a time as the database has connections for.
    let topology = Topology { workers: 20, ..server.present_topology() };
    server.topology(topology).run()
}
