//! More load than a server carries: who is let in is answered in time, and the others are told at once.

use std::process::Stdio;

use serde_json::Value;

use crate::common::{Client, Server, bench, json_of, site, until};

/// Twice what one worker of 5 ms carries, for 3 seconds, in open loop.
fn overload(server: &Server) -> Value {
    let load = ["--rate", "400", "-d", "3s", "-c", "200", "--expect-status", "200"];
    json_of(&mut bench(&server.url("/work?sleep=5ms"), &load))
}

/// How long requests waited for a worker in the mean, in units of what one takes then. A busy host makes both longer.
fn wait_in_services(server: &Server) -> f64 {
    let metrics = server.metrics();
    let mean = |name| {
        let of = &metrics["pools"][0][name];
        of["sum_seconds"].as_f64().unwrap() / of["count"].as_f64().unwrap()
    };
    mean("wait") / mean("service")
}

#[test]
fn a_bound_on_the_wait_keeps_those_who_are_let_in_quick() {
    let site = site();
    let flags = ["--model", "reactor-pool", "--workers", "1", "--workloads", "--admin", "127.0.0.1:0"];
    for (queue, order) in [
        ("mutex", "fifo"),
        ("mutex", "priority"),
        ("mutex", "lifo"),
        ("mutex", "adaptive"),
        ("lock-free", "fifo"),
        ("stealing", "fifo"),
    ] {
        let more = ["--queue", queue, "--order", order, "--queue-delay", "10ms"];
        let server = Server::start(site.path(), &[&flags[..], &more].concat());
        let result = overload(&server);
        let (answered, away) = (&result["requests"], &result["unexpected_statuses"]["503"]);
        let (answered, away) = (answered.as_u64().unwrap(), away.as_u64().unwrap());
        // One worker carries 190 per second or so; the rest is turned away, and nothing is lost.
        assert!(answered > 0 && away > 100, "{answered} answered, {away} turned away");
        assert_eq!(result["errors"]["bad_status"], away);
        // Its queue would be a second long and more by the end: 200 times what one takes. Nobody is left behind in it either.
        let waited = wait_in_services(&server);
        assert!(waited < 60.0, "{waited} times the service time");
        let counted = server.sample("reason=\"queue_delay\"");
        assert!(counted.ends_with(&format!(" {away}")), "{counted}");
        server.stop();
    }
}

#[test]
fn a_health_check_is_answered_whatever_else_is_asked_for() {
    let site = site();
    let flags = [
        "--model",
        "reactor-pool",
        "--workers",
        "1",
        "--queue-capacity",
        "4",
        "--workloads",
        "--slow-duration",
        "300ms",
    ];
    let bounds = ["--queue-delay", "1ms", "--rate-limit", "/=0.001:20", "--class", "/work=high"];
    let bounds = [&bounds[..], &["--admin", "127.0.0.1:0"]].concat();
    for order in ["fifo", "priority"] {
        let server = Server::start(site.path(), &[&flags[..], &bounds, &["--order", order]].concat());
        // The worker is busy, the queue is full, and the client has made more requests than it may.
        let mut slow: Vec<Client> = (0..20).map(|_| server.connect()).collect();
        slow.iter_mut().for_each(|client| _ = client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"));
        let refused =
            || server.sample("reason=\"queue_full\"").rsplit(' ').next().unwrap().parse::<u32>().unwrap();
        until("all but those are refused that the queue and the worker have room for", || refused() >= 15);
        assert_eq!(server.connect().get("/slow").status, 429, "{order}");
        for _ in 0..3 {
            assert_eq!(server.connect().get("/work?spin=10us").status, 200, "{order}");
        }
        drop(slow);
        server.stop();
    }
}

#[test]
fn without_a_bound_everybody_waits() {
    let site = site();
    let server = Server::start(site.path(), &["--model", "reactor-pool", "--workers", "1", "--workloads"]);
    let result = overload(&server);
    assert_eq!(result["unexpected_statuses"].as_object().unwrap().len(), 0);
    assert!(result["response_time_us"]["max"].as_u64().unwrap() > 800_000, "{}", result["response_time_us"]);
    server.stop();
}

#[test]
fn a_client_that_asks_too_often_is_told_when_to_come_again() {
    let site = site();
    for model in ["auto", "reactor", "thread-pool"] {
        let flags =
            ["--model", model, "--workloads", "--admin", "127.0.0.1:0", "--rate-limit", "/fast=0.01:3"];
        let server = Server::start(site.path(), &flags);
        let mut client = server.connect();
        let statuses: Vec<u16> = (0..5).map(|_| client.get("/fast").status).collect();
        assert_eq!(statuses, [200, 200, 200, 429, 429], "{model}");
        let away = client.get("/fast");
        assert!(away.field("Retry-After").unwrap().parse::<u64>().unwrap() >= 90, "{model}: {}", away.text());
        // It is the client that counts, and not the connection; and only what was bounded.
        assert_eq!(server.connect().get("/fast").status, 429, "{model}");
        assert_eq!(client.get("/1k.html").status, 200, "{model}");
        // The body of a request that is turned away does no harm.
        client.send("POST /fast HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        assert_eq!(client.answer().status, 429, "{model}");
        assert_eq!(client.get("/1k.html").status, 200, "{model}");
        let counted = server.sample("reason=\"rate\"");
        assert!(counted.ends_with(" 5"), "{model}: {counted}");
        server.stop();
    }
}

#[test]
fn who_is_turned_away_with_a_long_body_still_gets_the_answer() {
    let site = site();
    let server = Server::start(site.path(), &["--workloads", "--rate-limit", "/echo=0.01:1"]);
    let mut client = server.connect();
    assert_eq!(client.get("/echo").status, 405);
    // Longer than what is read and dropped for a connection to go on.
    client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n").send(vec![b'x'; 500_000]);
    let answer = client.answer();
    assert_eq!((answer.status, answer.field("Connection")), (429, Some("close")));
    server.stop();
}

#[test]
fn no_more_than_so_many_are_with_the_workers_and_the_others_are_told_at_once() {
    let site = site();
    let flags = ["--model", "reactor-pool", "--workers", "1", "--workloads", "--in-flight", "/slow=2"];
    let flags = [&flags[..], &["--slow-duration", "1s", "--admin", "127.0.0.1:0"]].concat();
    let server = Server::start(site.path(), &flags);
    let mut waiting: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    waiting.iter_mut().for_each(|client| _ = client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"));
    // Both are in before the next one comes.
    let under_way = || server.metrics()["gates"][0]["under_way"].as_u64().unwrap();
    until("two are under way", || under_way() == 2);
    let mut client = server.connect();
    let away = client.get("/slow");
    assert_eq!((away.status, away.field("Retry-After").is_some()), (503, true));
    // Others are not concerned.
    assert_eq!(client.get("/fast").status, 200);
    assert_eq!(client.get("/work?spin=1us").status, 200);
    waiting.iter_mut().for_each(|client| assert_eq!(client.answer().status, 200));
    until("none is under way", || under_way() == 0);
    assert_eq!(client.get("/slow").status, 200);
    server.stop();
}

#[test]
fn a_bound_that_finds_itself_keeps_the_workers_busy_and_the_wait_short() {
    let site = site();
    let flags = ["--model", "reactor-pool", "--workers", "4", "--workloads", "--in-flight", "/=auto"];
    let server = Server::start(site.path(), &[&flags[..], &["--admin", "127.0.0.1:0"]].concat());
    // Four workers carry 800 per second; four times as much is offered.
    let load = ["--rate", "3200", "-d", "4s", "--warmup", "2s", "-c", "400", "--expect-status", "200"];
    let result = json_of(&mut bench(&server.url("/work?sleep=5ms"), &load));
    let (answered, away) = (&result["requests"], &result["unexpected_statuses"]["503"]);
    let (answered, away) = (answered.as_u64().unwrap(), away.as_u64().unwrap());
    assert!(answered > 0 && away > 100, "{answered} answered, {away} turned away");
    // Enough for four workers, and far from the 400 that there are: with all of them in the queue the wait would be 100 times
    // what one takes.
    let limit = server.metrics()["gates"][0]["limit"].as_u64().unwrap();
    assert!((4..=100).contains(&limit), "{limit} at a time");
    let waited = wait_in_services(&server);
    assert!(waited < 40.0, "{waited} times the service time");
    server.stop();
}

#[test]
fn a_heavy_client_does_not_starve_a_light_one() {
    let site = site();
    let flags = ["--model", "reactor-pool", "--workers", "2", "--workloads", "--in-flight", "/=8"];
    let server = Server::start(site.path(), &flags);
    let url = server.url("/work?sleep=20ms");
    let mut heavy = bench(&url, &["-c", "64", "-d", "6s", "--sources", "1"]);
    let mut heavy = heavy.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    // From another address, one request after the other. It may be turned away at first; then there is room for it.
    let light = ["-c", "1", "-d", "2s", "--expect-status", "200", "--warmup", "1s"];
    let result = json_of(&mut bench(&url, &light));
    heavy.wait().unwrap();
    let answered = result["requests"].as_u64().unwrap();
    let failed: u64 = result["errors"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert!(answered > 10 && failed == 0, "{answered} answered, {failed} failed: {}", result["errors"]);
    server.stop();
}
