//! The operator's listener: health, readiness, and metrics that tell what happened.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread;

use rustix::process::Signal;

use crate::browser::chromium;
use crate::common::{Client, MODELS, PATIENCE, Server, bench, has, output_of, site, until};

/// A server with an operator's listener, and that one's address.
fn start(flags: &[&str]) -> (Server, SocketAddr, tempfile::TempDir) {
    let site = site();
    let server = Server::start(site.path(), &[flags, &["--admin", "127.0.0.1:0", "--workloads"]].concat());
    let admin = server.admin();
    (server, admin, site)
}

/// Every sample of the page for Prometheus, as name with labels, and value.
fn samples(admin: SocketAddr) -> BTreeMap<String, f64> {
    let answer = Client::connect(admin).get("/metrics");
    assert_eq!(answer.field("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = answer.text();
    let mut typed = std::collections::BTreeSet::new();
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert!(typed.insert(rest.split(' ').next().unwrap().to_owned()), "typed twice: {line}");
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let family = name.split('{').next().unwrap();
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| family.strip_suffix(end));
            assert!(
                typed.contains(family) || base.is_some_and(|base| typed.contains(base)),
                "not typed: {line}"
            );
            assert!(samples.insert(name.to_owned(), value.parse().unwrap()).is_none(), "twice: {line}");
        }
    }
    samples
}

fn sum(samples: &BTreeMap<String, f64>, family: &str, label: &str) -> f64 {
    let own = |name: &str| name.split('{').next() == Some(family) && name.contains(label);
    samples.iter().filter(|(name, _)| own(name)).map(|(_, value)| value).sum()
}

#[test]
fn metrics_tell_what_happened_on_every_model() {
    for flags in MODELS {
        let (server, admin, _site) = start(flags);
        let mut client = server.connect();
        for _ in 0..20 {
            assert_eq!(client.get("/1k.html").status, 200);
        }
        assert_eq!(client.get("/no/such").status, 404);
        assert_eq!(client.get("/work?sleep=2ms").status, 200);
        let seen = samples(admin);
        assert_eq!(sum(&seen, "plimsoll_requests_total", ""), 22.0, "{flags:?}");
        assert_eq!(sum(&seen, "plimsoll_http_total", "responses_4xx"), 1.0);
        assert_eq!(sum(&seen, "plimsoll_connections_accepted_total", ""), 1.0);
        assert_eq!(sum(&seen, "plimsoll_connections_open", ""), 1.0);
        assert!(sum(&seen, "plimsoll_http_total", "bytes_sent") > 20.0 * 1024.0);
        assert!(sum(&seen, "plimsoll_http_total", "bytes_received") > 22.0 * 20.0);
        assert!(sum(&seen, "plimsoll_loop_busy_seconds_total", "") > 0.0);
        assert!(sum(&seen, "plimsoll_loop_wake_ups_total", "") > 0.0);
        // The time that the work really took, and not the time that was asked for.
        assert_eq!(seen["plimsoll_work_seconds_count"], 1.0);
        assert!((0.002..1.0).contains(&seen["plimsoll_work_seconds_sum"]));
        // A worker counts its work when it is over, a moment after the answer has gone out, and a thread the whole connection.
        drop(client);
        let work = match flags[1] {
            "thread-pool" => 1.0,
            model if model == "auto" || model.ends_with("-pool") => 22.0,
            _ => 0.0,
        };
        assert_eq!(
            seen.keys().any(|name| name.starts_with("plimsoll_queue_length")),
            work > 0.0,
            "{flags:?}"
        );
        for family in ["plimsoll_queue_wait_seconds_count", "plimsoll_service_seconds_count"] {
            let what = format_args!("{family} is {work} with {flags:?}");
            until(what, || sum(&samples(admin), family, "") == work);
        }
        assert!(seen["process_resident_memory_bytes"] > 1e6 && seen["process_threads"] >= 3.0);
        assert!(sum(&seen, "process_context_switches_total", "involuntary") >= 0.0);

        let json = server.metrics();
        assert_eq!(json["schema"], "plimsoll.metrics/1");
        assert_eq!(
            json["threads"]
                .as_array()
                .unwrap()
                .iter()
                .map(|t| t["http"]["requests"].as_u64().unwrap())
                .sum::<u64>(),
            22
        );
        assert!(json["voluntary_switches_per_request"].as_f64().unwrap() > 0.0);
        server.stop();
    }
}

#[test]
fn what_was_turned_away_is_counted_by_its_reason() {
    let flags = ["--model", "reactor-pool", "--workers", "1", "--queue-capacity", "1", "--connections", "8"];
    let (server, admin, _site) = start(&[&flags[..], &["--slow-duration", "500ms"]].concat());
    let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
    clients[0].send("BAD\r\n\r\n").answer();
    for client in &mut clients[1..6] {
        client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let statuses: Vec<u16> = clients[1..6].iter_mut().map(|client| client.answer().status).collect();
    let refused = statuses.iter().filter(|status| **status == 503).count();
    assert!(refused >= 2, "{refused}");
    let seen = samples(admin);
    let rejected = |reason| sum(&seen, "plimsoll_rejected_total", reason);
    assert_eq!(rejected("queue_full"), refused as f64);
    assert_eq!(rejected("bad_head"), 1.0);
    // The server waits a while for whoever has had its last answer to leave.
    drop(clients);
    server.stop();
}

#[test]
fn connections_that_find_no_place_in_the_queue_for_a_thread_are_told_and_counted() {
    let (server, admin, _site) =
        start(&["--model", "thread-pool", "--workers", "1", "--queue-capacity", "1", "--connections", "9"]);
    let mut busy = server.connect();
    busy.send("GET /stream?rate=1000&for=60s HTTP/1.1\r\nHost: a\r\n\r\n").head_of_answer();
    let mut waiting = server.connect();
    let queued = || sum(&samples(admin), "plimsoll_queue_length", "pool=\"threads\"");
    until("one waits", || queued() == 1.0);
    for _ in 0..3 {
        assert_eq!(server.connect().answer().status, 503);
    }
    let seen = samples(admin);
    let rejected = |reason| sum(&seen, "plimsoll_rejected_total", reason);
    assert_eq!((rejected("queue_full"), rejected("connections_full")), (3.0, 0.0));
    assert_eq!(seen["plimsoll_workers{pool=\"threads\"}"], 1.0);
    assert_eq!(seen["plimsoll_workers_idle{pool=\"threads\"}"], 0.0);
    assert_eq!(server.metrics()["pools"][0]["submitted"], 2);
    drop(busy);
    assert_eq!(waiting.get("/1k.html").status, 200);
    drop(waiting);
    until("both are over", || sum(&samples(admin), "plimsoll_queue_wait_seconds_count", "") == 2.0);
    server.stop();
}

#[test]
fn connections_that_are_too_many_for_the_threads_are_counted_with_them() {
    for model in ["thread-pool", "thread-per-connection"] {
        let (server, admin, _site) = start(&["--model", model, "--workers", "2", "--connections", "1"]);
        let mut client = server.connect();
        assert_eq!(client.get("/1k.html").status, 200);
        assert_eq!(server.connect().answer().status, 503, "{model}");
        let seen = samples(admin);
        assert_eq!(seen["plimsoll_connections_refused_total{thread=\"threads\"}"], 1.0, "{model}");
        assert_eq!(sum(&seen, "plimsoll_rejected_total", "connections_full"), 1.0, "{model}");
        assert_eq!(sum(&seen, "plimsoll_rejected_total", "queue_full"), 0.0, "{model}");
        drop(client);
        server.stop();
    }
}

#[test]
fn health_and_readiness_are_told_and_readiness_ends_with_the_stop() {
    let (mut server, admin, _site) = start(&["--model", "reactor", "--slow-duration", "700ms"]);
    let mut client = Client::connect(admin);
    assert_eq!((client.get("/healthz").status, client.get("/readyz").status), (200, 200));
    assert_eq!(client.get("/nothing").status, 404);
    assert!(client.get("/").text().contains("/metrics.json"));
    client.send("POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.answer().status, 405);
    // While a request is being finished the operator still gets answers, the traffic's listener none.
    let mut slow = server.connect();
    slow.send("GET /stream?rate=1000&for=1s HTTP/1.1\r\nHost: a\r\n\r\n").head_of_answer();
    server.signal(Signal::TERM);
    until("it is not ready any more", || client.get("/readyz").status != 200);
    assert_eq!(client.get("/readyz").status, 503);
    assert_eq!(client.get("/healthz").status, 200);
    let mut rest = Vec::new();
    slow.0.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), 1000);
    server.wait();
    assert!(TcpStream::connect(admin).is_err(), "it ends with the server");
}

#[test]
fn the_status_page_follows_a_server_in_a_browser() {
    if !has("chromium", "chromium") {
        return;
    }
    let (server, admin, _site) = start(&["--model", "reactor-pool", "--workers", "2"]);
    let mut load = bench(&server.url("/work?sleep=5ms"), &["-c", "2", "-d", "12s"]);
    let mut load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let profile = tempfile::tempdir().unwrap();
    let mut page = chromium(profile.path());
    page.args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=8000"]);
    let text = output_of(page.arg("--dump-dom").arg(format!("http://{admin}/status")));
    load.kill().unwrap();
    load.wait().unwrap();
    assert!(!text.contains("CONSOLE"), "{text}");
    for part in [
        "worker-0 in use",
        "processors in use",
        "worker-0: how many",
        "Requests per second",
        "wait in the queue",
        "data-looks=",
        "p99 of their work",
        "Handlers on reactors: p50",
        "worker-0: their work: p50",
        "Turned away per second: nobody",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let said = text.split("role=\"status\">").nth(1).unwrap().split('<').next().unwrap();
    assert!(!said.starts_with("Two looks") && !said.contains("does not answer"), "{said}");
    server.stop();
}

/// A browser that is open until the end of its test.
struct Open(Child);

impl Drop for Open {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Answers one connection with the page; of one that asks for metrics it tells when it came, and when it was given up.
fn hang(mut client: Client, page: &str, tell: &Sender<&'static str>) {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if !client.0.read(&mut byte).is_ok_and(|n| n == 1) {
            return;
        }
        asked.push(byte[0]);
    }
    if asked.starts_with(b"GET /metrics.json ") {
        let _ = tell.send("asked");
        let _ = client.0.read(&mut [0]);
        let _ = tell.send("gave up");
    } else {
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n", page.len());
        client.send(head).send(page);
    }
}

#[test]
fn the_status_page_gives_up_on_a_server_that_hangs_and_looks_again() {
    if !has("chromium", "chromium") {
        return;
    }
    let (server, admin, _site) = start(&["--model", "reactor"]);
    let page = Client::connect(admin).get("/status").text();
    server.stop();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (page, tell) = (page.clone(), tell.clone());
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            thread::spawn(move || hang(Client(stream), &page, &tell));
        }
    });
    let profile = tempfile::tempdir().unwrap();
    let mut browser = chromium(profile.path());
    browser.arg("--remote-debugging-port=0").arg(format!("http://{address}/status"));
    let _open = Open(browser.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    // One look at a time.
    let seen: Vec<_> = (0..4).map(|_| told.recv_timeout(2 * PATIENCE).unwrap()).collect();
    assert_eq!(seen, ["asked", "gave up", "asked", "gave up"]);
}
