//! Serves a closure: `cargo run --example hello`, then `curl http://127.0.0.1:8080/tea`.

use plimsoll::{Body, Request, Response, Server};

fn main() -> std::io::Result<()> {
    let hello = |request: &Request<'_>, response: &mut Response| {
        response.body(Body::Owned(format!("you asked for {}\n", request.head.path()).into()));
    };
    Server::new(hello).listen(([127, 0, 0, 1], 8080)).run()
}
