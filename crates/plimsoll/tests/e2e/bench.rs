//! `plimsoll bench` against the server and against nothing.

use std::process::Command;

use serde_json::Value;

use crate::common::{self, Server, failed, output_of, plimsoll, site};

/// The result of a load.
fn bench(url: &str, args: &[&str]) -> Value {
    common::json_of(&mut common::bench(url, args))
}

/// The command line of a load whose result is for people.
fn load(args: &[&str]) -> Command {
    let mut command = plimsoll();
    command.arg("bench").args(args);
    command
}

#[test]
fn a_number_of_requests_is_kept_exactly() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    for extra in [&[][..], &["--close"]] {
        let result = bench(&server.url("/1k.html"), &[&["-n", "1234", "-c", "7"], extra].concat());
        assert_eq!(result["requests"], 1234);
        assert_eq!(result["statuses"]["200"], 1234);
        assert_eq!(result["response_time_us"]["count"], 1234);
        assert!(
            result["errors"].as_object().unwrap().values().all(|count| count == 0),
            "{}",
            result["errors"]
        );
        // Each answer has 1,024 bytes and a head.
        let bytes = result["bytes_received"].as_u64().unwrap();
        assert!((1234 * 1124..1234 * 1324).contains(&bytes), "{bytes}");
    }
    // The server has counted the same.
    assert!(server.stop().contains("stopped: 2468 requests answered"));
}

#[test]
fn a_time_is_kept_and_the_parts_agree() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let result =
        bench(&server.url("/1k.html"), &["-d", "1500ms", "--warmup", "200ms", "-c", "16", "-t", "1"]);
    let number = |name: &str| result[name].as_f64().unwrap();
    assert!((number("duration_s") - 1.5).abs() < 0.001);
    assert!((number("requests_per_second") * 1.5 - number("requests")).abs() < 1.0);
    let timeline = result["timeline"].as_array().unwrap();
    assert_eq!(timeline.len(), 2);
    let seconds: f64 = timeline.iter().map(|second| second["requests"].as_f64().unwrap()).sum();
    assert_eq!(seconds, number("requests"));
    assert_eq!(result["response_time_us"]["count"].as_f64().unwrap(), number("requests") + number("drained"));
    // Little's law: in a closed loop the connections are the rate times the mean response time. The bound is
    // wide, since a busy machine may stop a thread for a while.
    let in_flight =
        number("requests_per_second") * result["response_time_us"]["mean"].as_f64().unwrap() / 1e6;
    assert!((in_flight / 16.0 - 1.0).abs() < 0.25, "{in_flight}");
    server.stop();
}

#[test]
fn head_and_other_statuses_are_answers_too() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let result = bench(&server.url("/large.bin"), &["--method", "HEAD", "-n", "100", "-c", "4"]);
    assert_eq!(result["statuses"]["200"], 100);
    let result = bench(&server.url("/missing"), &["-n", "100", "-c", "4"]);
    assert_eq!((&result["statuses"]["404"], &result["requests"]), (&100.into(), &100.into()));
    server.stop();
}

#[test]
fn a_server_that_is_not_there_is_a_failed_run() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/");
    let (status, said) = failed(&mut load(&[&url, "-n", "20", "-c", "2"]));
    assert_eq!(status, 1);
    assert!(said.contains("gave no complete response: connect refused (20 times)"), "{said}");
}

#[test]
fn the_text_has_what_matters() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let text = output_of(&mut load(&[&server.url("/1k.html"), "-n", "2000", "-c", "8"]));
    for part in [
        "closed loop, 8 connections, keep-alive",
        "status 200",
        "p50",
        "p99.999",
        "n/a",
        "errors",
        "of CPU per request",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    server.stop();
}

#[test]
fn scripts_for_ab_and_wrk_find_what_they_look_for() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let url = server.url("/1k.html");
    let line = |text: &str, label: &str| {
        text.lines().find_map(|line| line.trim().strip_prefix(label)).map(|rest| rest.trim().to_owned())
    };
    let ab = output_of(&mut load(&[&url, "-n", "500", "-c", "5", "--format", "ab"]));
    assert_eq!(line(&ab, "Complete requests:").as_deref(), Some("500"), "{ab}");
    assert_eq!(line(&ab, "Failed requests:").as_deref(), Some("0"));
    assert_eq!(line(&ab, "Document Path:").as_deref(), Some("/1k.html"));
    assert!(line(&ab, "Requests per second:").is_some_and(|rest| rest.ends_with("[#/sec] (mean)")));
    assert!(line(&ab, "50%").is_some() && line(&ab, "100%").is_some(), "{ab}");
    let wrk = output_of(&mut load(&[&url, "-n", "500", "-c", "5", "--format", "wrk"]));
    let rate: f64 = line(&wrk, "Requests/sec:").unwrap().parse().unwrap();
    assert!(rate > 0.0 && wrk.contains("500 requests in ") && !wrk.contains("Socket errors"), "{wrk}");
    let csv = output_of(&mut load(&[&url, "-n", "500", "--format", "csv"]));
    let mut lines = csv.lines().map(|line| line.split(',').count());
    assert!(lines.next() > Some(10) && csv.lines().count() == 2, "{csv}");
    server.stop();
}

#[test]
fn a_missed_threshold_is_a_failure() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let url = server.url("/1k.html");
    output_of(&mut load(&[&url, "-n", "20000", "--threshold", "p99<10s,errors<0.1%,rate>1"]));
    let (status, said) = failed(&mut load(&[&url, "-n", "20000", "--threshold", "p99<1ns,rate>1"]));
    assert!(status == 1 && said.contains("missed: p99<1ns: it is "), "{said}");
    assert_eq!(failed(&mut load(&[&url, "--threshold", "p98<1s"])).0, 2);
    server.stop();
}

#[test]
fn a_result_that_means_nothing_reaches_no_threshold_and_says_so() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let missing = server.url("/missing");
    let bounds = ["-n", "2000", "-c", "4", "--threshold", "p50<10s"];
    let (status, said) = failed(&mut load(&[&[&*missing], &bounds[..]].concat()));
    assert!(status == 1 && said.contains("missed: the result is INVALID: 2000 of 2000 answers"), "{said}");
    for form in ["ab", "wrk", "hdr"] {
        let said = output_of(&mut load(&[&missing, "-n", "50", "-q", "--format", form]));
        assert!(said.contains("plimsoll: INVALID: 50 of 50 answers have an error status"), "{form}: {said}");
    }
    let wrk = ["-n", "50", "-q", "--format", "wrk", "--expect-status", "200"];
    let said = String::from_utf8(load(&[&[&*missing], &wrk[..]].concat()).output().unwrap().stdout).unwrap();
    assert!(said.contains("Non-2xx or 3xx responses: 50") && !said.contains("Socket errors"), "{said}");
    server.stop();
}

#[test]
fn a_file_that_cannot_be_written_is_said_before_the_load() {
    let directory = tempfile::tempdir().unwrap();
    let (nowhere, kept) = (directory.path().join("nowhere/x"), directory.path().join("kept"));
    std::fs::write(&kept, "of before").unwrap();
    let [nowhere, kept] = [&nowhere, &kept].map(|path| path.to_str().unwrap());
    // Nobody listens there, which would be another failure.
    for name in ["bench", "capacity"] {
        for flags in [["--json", nowhere], ["--html", nowhere]] {
            let mut command = plimsoll();
            command.args([&[name, "http://127.0.0.1:1/"], &flags[..]].concat());
            let (status, said) = failed(&mut command);
            assert!(status == 2 && said.contains("cannot write"), "{status}: {said}");
        }
    }
    let site = site();
    let server = Server::start(site.path(), &[]);
    output_of(&mut load(&[&server.url("/1k.html"), "-n", "10", "--json", kept]));
    let result: Value = serde_json::from_str(&std::fs::read_to_string(kept).unwrap()).unwrap();
    assert_eq!(result["requests"], 10);
    server.stop();
}

#[test]
fn an_open_loop_is_kept_and_the_server_is_looked_at() {
    let site = site();
    let server = Server::start(site.path(), &["--model", "reactor"]);
    let (url, pid) = (server.url("/1k.html"), server.pid().to_string());
    let flags = ["-d", "2s", "--rate", "500", "--spacing", "constant", "-c", "50", "--pid", &pid];
    let result = bench(&url, &flags);
    assert_eq!(result["offered"]["due"], 1000);
    assert_eq!(result["plan"]["arrivals"]["loop"], "open");
    let used = &result["server"];
    assert!(used["cpu_us_per_request"].as_f64().unwrap() > 0.0, "{used}");
    assert!(used["threads"].as_array().unwrap().iter().any(|thread| thread["name"] == "reactor-0"), "{used}");
    // Ten times a second; on a busy machine, some fewer.
    assert!((8..=21).contains(&used["moments"].as_array().unwrap().len()), "{used}");
    assert!(used["moments"][0]["descriptors"].as_u64().unwrap() > 5, "{used}");
    server.stop();
    for wrong in [["--pid", "4194304"], ["--rate", "saw:1@2s"], ["--spacing", "constant"]] {
        assert_eq!(failed(load(&[&url]).args(wrong)).0, 2, "{wrong:?}");
    }
}

#[test]
fn several_paths_bodies_and_pipelines_arrive_as_they_were_asked_for() {
    let site = site();
    let log = tempfile::tempdir().unwrap();
    let path = log.path().join("access.log");
    let flags = ["--workloads", "--access-log", path.to_str().unwrap()];
    let server = Server::start(site.path(), &flags);
    let urls = log.path().join("urls");
    std::fs::write(&urls, "# two paths\n/1k.html\nhttp://elsewhere/empty\n").unwrap();
    let url = server.url("/");
    let asked = ["-n", "100", "-c", "2", "-t", "1", "--url-file", urls.to_str().unwrap()];
    assert_eq!(bench(&url, &asked)["requests"], 100);
    let piped = bench(&server.url("/1k.html"), &["-n", "160", "-c", "2", "-t", "1", "--pipeline", "16"]);
    assert_eq!((&piped["requests"], &piped["statuses"]["200"]), (&160.into(), &160.into()));
    let posted = bench(&server.url("/echo"), &["-n", "10", "-c", "1", "--body", "hello"]);
    assert_eq!(posted["statuses"]["200"], 10);
    server.stop();
    let lines = std::fs::read_to_string(path).unwrap();
    let count = |what: &str| lines.matches(what).count();
    assert_eq!(
        [count("\"GET /1k.html "), count("\"GET /empty "), count("\"POST /echo ")],
        [50 + 160, 50, 10]
    );
    let server = Server::start(site.path(), &["--connections-per-address", "5"]);
    // Twenty connections from four addresses are five from each.
    let flags = ["-n", "400", "-c", "20", "-t", "1", "--sources", "4"];
    let spread = bench(&server.url("/1k.html"), &flags);
    assert_eq!((&spread["requests"], &spread["statuses"]["200"]), (&400.into(), &400.into()), "{spread}");
    server.stop();
    assert_eq!(failed(&mut load(&["http://[::1]:1/", "--sources", "2"])).0, 1);
    std::fs::write(&urls, "/a b c\n").unwrap();
    let (status, said) = failed(load(&[&url]).args(asked));
    assert!(status == 2 && said.contains("line 1"), "{said}");
}
