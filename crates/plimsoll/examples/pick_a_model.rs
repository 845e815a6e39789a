//! Picks the concurrency architecture when it starts: `cargo run --example pick_a_model -- thread-pool`.

use plimsoll::{Axis, Body, Model, Request, Response, Server};

fn main() -> std::io::Result<()> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "reuseport".into());
    let Some(model) = Model::ALL.iter().copied().find(|model| model.name() == name) else {
        let names: Vec<_> = Model::ALL.iter().map(|model| model.name()).collect();
        eprintln!("no model is called {name}; there are {}", names.join(", "));
        std::process::exit(2);
    };
    println!("http://127.0.0.1:8080/ is served by {model}: {}", model.about());
    let page = move |_: &Request<'_>, response: &mut Response| {
        response.body(Body::Owned(format!("served by {model}\n").into()));
    };
    Server::new(page).model(model).run()
}
