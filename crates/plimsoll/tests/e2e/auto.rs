//! The default model: it finds out by itself how many workers are needed, and what they are needed for.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Server, bench, json_of, site, until};

fn start(flags: &[&str]) -> (tempfile::TempDir, Server) {
    let site = site();
    let server = Server::start(site.path(), &[&["--workloads", "--admin", "127.0.0.1:0"], flags].concat());
    (site, server)
}

/// Loads a path, and gives the result, in which nothing failed.
fn load(server: &Server, path: &str, args: &[&str]) -> Value {
    let result = json_of(&mut bench(&server.url(path), args));
    let failed: u64 = result["errors"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(failed, 0, "{}", result["errors"]);
    result
}

/// Where the reactors that have seen enough of a route handle it.
fn places(metrics: &Value, route: &str) -> Vec<String> {
    let routes = metrics["routes"].as_array().unwrap().iter();
    let known = routes.filter(|known| known["name"] == route && known["requests"].as_u64().unwrap() > 100);
    known.map(|known| known["place"].as_str().unwrap().to_owned()).collect()
}

/// Loads a path until every reactor handles its route itself. On a busy host a reactor that loses its processor may take a
/// quick route for a slow one, which comes back once it has proved itself.
fn load_until_on_reactors(server: &Server, path: &str, route: &str) {
    let settled = (0..30).any(|_| {
        load(server, path, &["-c", "8", "-d", "1s"]);
        let places = places(&server.metrics(), route);
        !places.is_empty() && places.iter().all(|place| place == "reactor")
    });
    assert!(settled, "{}", server.metrics()["routes"]);
}

#[test]
fn work_that_sleeps_gets_workers_and_gives_them_back() {
    let (_site, server) = start(&[]);
    // 64 clients and 20 ms: 3,200 per second with a worker each, 50 or 100 with those of the start.
    let result = load(&server, "/work?sleep=20ms", &["-c", "64", "--warmup", "4s", "-d", "2s"]);
    let rate = result["requests_per_second"].as_f64().unwrap();
    let seen = server.metrics();
    assert!(rate > 200.0, "{rate}: {}", seen["decisions"]);
    let most = seen["pools"][0]["workers"].as_u64().unwrap();
    assert!((32..=1024).contains(&most), "{most}");
    let first = &seen["decisions"][0];
    assert!(first["reason"].as_str().unwrap().starts_with("requests wait"), "{first}");
    assert_eq!(places(&seen, "GET /work").iter().find(|place| *place != "workers"), None);
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.metrics()["pools"][0]["workers"].as_u64().unwrap() > 8 {
        assert!(Instant::now() < deadline, "{}", server.metrics()["decisions"]);
        std::thread::sleep(Duration::from_millis(100));
    }
    server.stop();
}

#[test]
fn what_is_quick_stays_on_the_reactor_until_it_is_not() {
    let (_site, server) = start(&[]);
    load_until_on_reactors(&server, "/1k.html", "GET *.html");
    load_until_on_reactors(&server, "/work", "GET /work");
    // The same route changes its nature.
    load(&server, "/work?sleep=5ms", &["-c", "8", "-d", "2s"]);
    let seen = server.metrics();
    assert!(places(&seen, "GET /work").iter().all(|place| place == "workers"), "{}", seen["routes"]);
    assert!(seen["reactor_stalls"].as_u64().unwrap() >= 1);
    let moves = |to: &str| seen["route_moves"][to].as_u64().unwrap();
    assert!(moves("to_reactor") >= 2 && moves("to_workers") >= 1, "{}", seen["route_moves"]);
    // Of those that the reactors handled some were timed.
    let handled =
        seen["threads"].as_array().unwrap().iter().map(|one| one["handled"]["count"].as_u64().unwrap());
    assert!(handled.sum::<u64>() >= 1, "{}", seen["threads"]);
    assert!(
        server
            .sample("plimsoll_route_moves_total{to=\"workers\"}")
            .ends_with(&format!(" {}", moves("to_workers")))
    );
    server.stop();
}

#[test]
fn a_route_that_holds_up_one_reactor_is_kept_from_the_other() {
    let (_site, server) = start(&["--reactors", "2"]);
    let on_reactors = |metrics: &Value| {
        let places = places(metrics, "GET /work");
        (places.iter().filter(|place| *place == "reactor").count(), places.len())
    };
    let mut rounds = 0..30;
    while on_reactors(&server.metrics()) != (2, 2) {
        assert!(rounds.next().is_some(), "{}", server.metrics()["routes"]);
        load(&server, "/work", &["-c", "16", "-d", "1s"]);
    }
    // The one that is held up does not know it before it has ended.
    let mut client = server.connect();
    client.send("GET /work?sleep=5s HTTP/1.1\r\nHost: a\r\n\r\n");
    until("the other one leaves it to the workers", || on_reactors(&server.metrics()) == (1, 2));
    assert_eq!(client.answer().status, 200);
    server.stop();
}

#[test]
fn a_handler_that_holds_up_its_reactor_is_named() {
    // With one reactor, which has learned that the route is quick.
    let (_site, server) = start(&["--reactors", "1"]);
    load_until_on_reactors(&server, "/work", "GET /work");
    // Nobody could know that it takes long this time.
    let answer = server.connect().get("/work?sleep=500ms");
    assert_eq!(answer.status, 200);
    let log = server.stop();
    assert!(log.contains("holds up its reactor") && log.contains("GET /work"), "{log}");
}
