//! Serving an application of one's own: a handler, a topology, an address.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::driver::uring;
use engine::host::{self, Cores, Memory};
use engine::{Model, Running, Settings, Topology};
use server::log::{AccessLog, Destination, Format};
use server::{Handler, Http, Limits};

use crate::signals::Watch;

/// An application that is about to be served.
///
/// Without further words it is served by [`Model::Auto`] on 127.0.0.1:8080.
pub struct Server<H> {
    handler: H,
    topology: Topology,
    limits: Limits,
    address: SocketAddr,
    drain: Duration,
    log: Option<(Destination, Format)>,
    request_ids: bool,
}

/// The topology of a model on this host, with reactors that follow the processors.
fn of_model(model: Model) -> Topology {
    let cores = Cores::detect();
    let row = model.row(cores.usable(), 0);
    let row = if model.has_one_reactor() { row } else { row.following(cores.affinity) };
    let (descriptors, memory) = (host::descriptor_limit(), Memory::detect());
    let (connections, _) = host::connections(descriptors, memory, row.reactors, row.most_reactors);
    row.sharing(connections)
}

/// A topology as this kernel can have it; what it cannot have is said.
fn available(topology: Topology, uring: fn() -> io::Result<()>) -> Topology {
    let (topology, refused) = topology.on_what_is_there(uring);
    if let Some(error) = refused {
        tracing::warn!(%error, "io_uring is not to be had here: epoll does the work");
    }
    topology
}

impl<H: Handler> Server<H> {
    /// Serves a handler: a closure over a request and a response, or a type of one's own.
    pub fn new(handler: H) -> Self {
        Server {
            handler,
            topology: of_model(Model::Auto),
            limits: Limits::default(),
            address: ([127, 0, 0, 1], 8080).into(),
            drain: Duration::from_secs(10),
            log: None,
            request_ids: false,
        }
    }

    /// Serves it by a model's threads.
    pub fn model(self, model: Model) -> Self {
        self.topology(of_model(model))
    }

    /// Serves it by exactly these threads.
    pub fn topology(self, topology: Topology) -> Self {
        Server { topology, ..self }
    }

    /// The topology as it stands, to change an axis of it.
    pub fn present_topology(&self) -> Topology {
        self.topology
    }

    /// Listens there; port 0 takes a free one.
    pub fn listen(self, address: impl Into<SocketAddr>) -> Self {
        Server { address: address.into(), ..self }
    }

    /// The bounds of a connection.
    pub fn limits(self, limits: Limits) -> Self {
        Server { limits, ..self }
    }

    /// How long requests under way may take to finish after a stop.
    pub fn drain(self, drain: Duration) -> Self {
        Server { drain, ..self }
    }

    /// Writes a line about each request.
    pub fn access_log(self, to: Destination, format: Format) -> Self {
        Server { log: Some((to, format)), ..self }
    }

    /// Gives every request an id, unless its client did: see [`Response::request_id`](server::Response::request_id).
    pub fn request_ids(self) -> Self {
        Server { request_ids: true, ..self }
    }

    /// Starts to serve, in threads of its own; on epoll, with a warning, where the topology is on io_uring and the kernel has
    /// none for this process.
    ///
    /// # Errors
    /// The topology contradicts itself, the address cannot be listened on, or a thread cannot be started.
    pub fn start(self) -> io::Result<Serving<H>> {
        self.start_where(uring::probe)
    }

    /// The same, where this is what comes of asking for io_uring.
    fn start_where(self, uring: fn() -> io::Result<()>) -> io::Result<Serving<H>> {
        let Server { handler, topology, limits, address, drain, log, request_ids } = self;
        let topology = available(topology, uring);
        let log = log.map(|(to, format)| AccessLog::start(to, format, topology.owners())).transpose()?;
        let http = Http::on(handler, limits, &topology)?.with_log(log).with_request_ids(request_ids);
        let http = Arc::new(http);
        let settings =
            Settings { drain, send_time: Some(limits.send_time), ..Settings::new(topology, address) };
        let running = engine::start(&settings, http.clone())?;
        Ok(Serving { topology, running, http })
    }

    /// Serves until SIGTERM or SIGINT comes; then lets the requests under way finish.
    ///
    /// # Errors
    /// As for [`start`](Self::start), or a thread could not go on.
    pub fn run(self) -> io::Result<()> {
        // Before the first thread starts, so that no signal is missed.
        let signals = Watch::start()?;
        let serving = self.start()?;
        signals.wait();
        serving.stop()
    }
}

/// An application that is being served.
pub struct Serving<H> {
    topology: Topology,
    running: Running,
    http: Arc<Http<H>>,
}

impl<H: Handler> Serving<H> {
    /// Where clients can connect.
    pub fn address(&self) -> SocketAddr {
        self.running.address()
    }

    /// The threads that serve it; not on io_uring where that could not be had.
    pub fn topology(&self) -> Topology {
        self.topology
    }

    /// What has been counted so far.
    pub fn totals(&self) -> server::Totals {
        self.http.totals()
    }

    /// Takes no more connections, lets the requests under way finish, and ends the threads.
    ///
    /// # Errors
    /// A thread could not go on.
    pub fn stop(self) -> io::Result<()> {
        self.running.stop().set();
        self.running.join()?;
        self.http.finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use engine::{Class, Kind};
    use server::{Body, Place, Request, Response};

    use super::*;

    #[test]
    fn a_closure_is_served_by_every_model() {
        for model in Model::ALL {
            let hello = |request: &Request<'_>, response: &mut Response| {
                response.body(Body::Owned(format!("you asked for {}", request.head.path()).into()));
            };
            let serving = Server::new(hello).model(*model).listen(([127, 0, 0, 1], 0)).start().unwrap();
            let mut client = TcpStream::connect(serving.address()).unwrap();
            client.write_all(b"GET /tea HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert!(answer.ends_with("you asked for /tea"), "{model}: {answer}");
            assert_eq!(serving.totals().requests, 1);
            serving.stop().unwrap();
        }
    }

    #[test]
    fn a_kernel_that_refuses_io_uring_has_epoll() {
        let page = |_: &Request<'_>, response: &mut Response| {
            response.body(Body::Static(b"tea"));
        };
        for model in [Model::Proactor, Model::ProactorPool] {
            let server = Server::new(page).model(model).listen(([127, 0, 0, 1], 0));
            let serving = server.start_where(|| Err(io::ErrorKind::PermissionDenied.into())).unwrap();
            assert_eq!(serving.topology().driver, Kind::Epoll, "{model}");
            let mut client = TcpStream::connect(serving.address()).unwrap();
            client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            assert!(answer(&mut client).ends_with("tea"), "{model}");
            serving.stop().unwrap();
        }
    }

    #[test]
    fn a_handler_that_panics_costs_its_own_request_on_every_model() {
        let _quiet = Quiet::begin();
        for model in Model::ALL {
            let moody = |request: &Request<'_>, response: &mut Response| {
                assert!(request.head.path() != "/panic", "as it was asked to");
                response.body(Body::Static(b"calm"));
            };
            let serving = Server::new(moody).model(*model).listen(([127, 0, 0, 1], 0)).start().unwrap();
            let mut client = TcpStream::connect(serving.address()).unwrap();
            // More often than there are threads in most models: none of them may be lost.
            for _ in 0..70 {
                client.write_all(b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                assert!(answer(&mut client).starts_with("HTTP/1.1 500 "), "{model}");
                client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                assert!(answer(&mut client).ends_with("calm"), "{model}: the connection goes on");
            }
            assert_eq!(serving.totals().handler_panics, 70, "{model}");
            serving.stop().unwrap();
        }
    }

    /// Keeps panics from printing their stacks, for one test at a time.
    struct Quiet(#[expect(dead_code, reason = "it is held")] MutexGuard<'static, ()>);

    impl Quiet {
        fn begin() -> Self {
            static ONE: Mutex<()> = Mutex::new(());
            let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
            std::panic::set_hook(Box::new(|_| {}));
            Quiet(one)
        }
    }

    impl Drop for Quiet {
        fn drop(&mut self) {
            // A thread that panics cannot change it.
            if !std::thread::panicking() {
                drop(std::panic::take_hook());
            }
        }
    }

    /// Panics at what it is asked about some paths before it could answer.
    struct Nervous;

    fn panic_at(request: &Request<'_>, path: &str) {
        assert!(request.head.path() != path, "as it was asked to");
    }

    impl Handler for Nervous {
        fn handle(&self, _: &Request<'_>, response: &mut Response) {
            response.body(Body::Static(b"calm"));
        }

        fn place(&self, request: &Request<'_>) -> Place {
            panic_at(request, "/place");
            Place::Worker
        }

        fn wants_body(&self, request: &Request<'_>) -> bool {
            panic_at(request, "/body");
            request.head.path() == "/with-body"
        }

        fn class(&self, request: &Request<'_>) -> Class {
            panic_at(request, "/class");
            Class::Normal
        }
    }

    #[test]
    fn a_handler_that_panics_before_it_is_to_answer_costs_its_own_request_on_every_model() {
        let _quiet = Quiet::begin();
        for model in Model::ALL {
            let server = Server::new(Nervous).model(*model).listen(([127, 0, 0, 1], 0));
            let has_workers = server.present_topology().pools() > 0;
            let serving = server.start().unwrap();
            let mut client = TcpStream::connect(serving.address()).unwrap();
            let mut ask = |request: &str, panics: bool| {
                client.write_all(request.as_bytes()).unwrap();
                let status = if panics { "500" } else { "200" };
                let answer = answer(&mut client);
                assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{model}: {request}: {answer}");
            };
            for _ in 0..3 {
                ask("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody", true);
                ask("GET /place HTTP/1.1\r\nHost: a\r\n\r\n", has_workers);
                let chunks = "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
                ask(&format!("POST /place HTTP/1.1\r\nHost: a\r\n{chunks}"), has_workers);
                ask("GET /class HTTP/1.1\r\nHost: a\r\n\r\n", has_workers);
                ask("POST /with-body HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody", false);
            }
            assert_eq!(serving.totals().handler_panics, if has_workers { 12 } else { 3 }, "{model}");
            serving.stop().unwrap();
        }
    }

    /// One answer with a Content-Length.
    fn answer(client: &mut TcpStream) -> String {
        let (mut text, mut byte) = (Vec::new(), [0]);
        while !text.ends_with(b"\r\n\r\n") {
            client.read_exact(&mut byte).unwrap();
            text.push(byte[0]);
        }
        let head = String::from_utf8(text).unwrap();
        let length = head.split("Content-Length: ").nth(1).unwrap().split("\r\n").next().unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        client.read_exact(&mut body).unwrap();
        head + &String::from_utf8(body).unwrap()
    }
}
