//! Loads of every kind, as a user asks for them: replays, sitemaps, several processes, pages, and servers that fail midway.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::browser::draws_every_chart;
use crate::common::{Server, bench, failed, has, json_of, output_of, plimsoll, site};

#[test]
fn a_replay_asks_for_what_the_log_has() {
    let (site, logs) = (site(), tempfile::tempdir().unwrap());
    let (first, second) = (logs.path().join("first"), logs.path().join("second"));
    for format in ["combined", "json"] {
        let _ = (fs::remove_file(&first), fs::remove_file(&second));
        let flags = |file: &std::path::Path| {
            ["--access-log", file.to_str().unwrap(), "--log-format", format].map(String::from)
        };
        let start = |flags: &[String]| {
            Server::start(site.path(), &flags.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let server = start(&flags(&first));
        let list = logs.path().join("list");
        fs::write(&list, "/1k.html 3\n/missing 1\n").unwrap();
        let url = server.url("/");
        json_of(&mut bench(&url, &["-n", "400", "-c", "4", "--url-file", list.to_str().unwrap()]));
        server.stop();
        let server = start(&flags(&second));
        let replay = ["--replay", first.to_str().unwrap(), "-t", "2"];
        let result = json_of(&mut bench(&server.url("/"), &replay));
        assert_eq!(result["offered"]["due"], 400);
        server.stop();
        let targets = |file| {
            let text = fs::read_to_string(file).unwrap();
            (text.matches("/1k.html").count(), text.matches("/missing").count())
        };
        assert_eq!(targets(&first), targets(&second), "{format}");
    }
}

#[test]
fn a_sitemap_is_a_list_of_pages() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let file = site.path().join("sitemap.xml");
    let page = |path: &str| format!("<url><loc>http://example.org{path}</loc><priority>0.5</priority></url>");
    let urls = page("/1k.html") + &page("/no-such-page");
    fs::write(&file, format!("<?xml version=\"1.0\"?><urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">{urls}</urlset>")).unwrap();
    let list = ["-n", "100", "-c", "2", "--url-file", file.to_str().unwrap()];
    let result = json_of(&mut bench(&server.url("/"), &list));
    assert_eq!((&result["statuses"]["200"], &result["statuses"]["404"]), (&50.into(), &50.into()));
    fs::write(&file, "<urlset>").unwrap();
    let (status, said) = failed(&mut bench(&server.url("/"), &["--url-file", file.to_str().unwrap()]));
    assert!(status == 2 && said.contains("looks like a sitemap"), "{status}: {said}");
    server.stop();
}

#[test]
fn several_processes_are_one_load() {
    let site = site();
    let server = Server::start(site.path(), &["--connections", "2000"]);
    // More connections than a process may have descriptors: there are as many processes as that takes.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 200; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_plimsoll"), "bench"]);
    command.arg(server.url("/1k.html")).args(["-c", "600", "-n", "6000", "--json", "-", "--quiet"]);
    let result = json_of(&mut command);
    assert_eq!((&result["plan"]["processes"], &result["requests"]), (&4.into(), &6000.into()));
    assert_eq!(result["statuses"]["200"], 6000);
    assert_eq!(result["response_time_us"]["count"], 6000);
    // Their clocks agree: a second is a second of all.
    let result = json_of(&mut bench(
        &server.url("/1k.html"),
        &["-d", "2s", "-c", "20", "--processes", "2", "--rate", "1000", "--spacing", "constant"],
    ));
    let timeline = result["timeline"].as_array().unwrap();
    assert_eq!(result["offered"]["due"], 2000);
    for second in &timeline[..2] {
        assert!((900..=1100).contains(&second["requests"].as_u64().unwrap()), "{second}");
    }
    // The server is looked at to the end of so many requests too.
    let pid = server.pid().to_string();
    let result = json_of(&mut bench(
        &server.url("/1k.html"),
        &["-n", "2000", "-c", "4", "--processes", "2", "--pid", &pid],
    ));
    let used = &result["server"];
    assert!(used["cpu_s"].as_f64().is_some_and(|cpu_s| cpu_s > 0.0), "{used}");
    assert!(server.stop().contains("stopped: 10000 requests answered"));
}

#[test]
fn the_errors_of_several_processes_are_told_by_the_second() {
    // Nothing listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command =
        bench(&format!("http://127.0.0.1:{port}/"), &["-d", "1s", "-c", "4", "--processes", "2"]);
    let output = command.output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let timeline = result["timeline"].as_array().unwrap();
    let errors: u64 = timeline.iter().map(|second| second["errors"].as_u64().unwrap()).sum();
    let drained = 4;
    assert!(errors > 0 && count(&result, "connect_refused").abs_diff(errors) <= drained, "{result:#}");
}

#[test]
fn a_load_of_several_processes_ends_when_it_is_interrupted() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let mut command = bench(&server.url("/1k.html"), &["-d", "60s", "-c", "4", "--processes", "2"]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(1500));
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (requests, seconds) = (result["requests"].as_u64().unwrap(), result["duration_s"].as_f64().unwrap());
    assert!(requests > 0 && seconds < 30.0, "{requests} in {seconds} s");
    server.stop();
}

#[test]
fn a_result_is_a_page_with_charts() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let page = site.path().join("page.html");
    let pid = server.pid().to_string();
    let args = ["-d", "2500ms", "-c", "8", "--html", page.to_str().unwrap(), "--pid", &pid];
    let output = plimsoll().args(["bench", &server.url("/1k.html")]).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    // Where nobody looks at a terminal there is a line for each second.
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.lines().filter(|line| line.starts_with("measuring ") && line.contains("cores")).count() >= 2,
        "{said}"
    );
    let html = fs::read_to_string(&page).unwrap();
    for part in ["id=\"percentiles\"", "id=\"rate\"", "id=\"times\"", "id=\"server\"", "plimsoll bench http"]
    {
        assert!(html.contains(part), "{part}");
    }
    server.stop();
    if has("chromium", "chromium") {
        draws_every_chart(&page);
    }
}

#[test]
fn the_check_knows_the_loads_own_ceiling() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let result = json_of(&mut bench(&server.url("/1k.html"), &["-d", "1s", "-c", "4", "-t", "1", "--check"]));
    let check = &result["check"];
    assert!(check["ceiling_per_second"].as_f64().unwrap() > 1000.0, "{check}");
    assert!(check["second_client"].as_f64().unwrap() > 0.1, "{check}");
    assert_eq!(check["ceiling_errors"], 0);
    server.stop();
}

#[test]
fn the_check_has_descriptors_for_both_of_its_sides() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    // Of 300 descriptors 200 connections of a process leave too few for another 200, which the server of the check has.
    let load = bench(&server.url("/1k.html"), &["-d", "500ms", "-c", "200", "-t", "2", "--check"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 300 && exec \"$@\"", "sh"]).arg(load.get_program()).args(load.get_args());
    let result = json_of(&mut limited);
    assert_eq!(
        (&result["check"]["ceiling_errors"], &result["errors"]["connect_failed"]),
        (&0.into(), &0.into())
    );
    assert!(result["check"]["ceiling_per_second"].as_f64().unwrap() > 0.0, "{result}");
    server.stop();
}

/// Loads a server for 3 seconds, lets something happen to it after the first, and gives the result.
fn load_while(address: &str, happens: impl FnOnce()) -> Value {
    let mut command =
        bench(&format!("http://{address}/1k.html"), &["-d", "3s", "-c", "4", "--timeout", "500ms"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_secs(1));
    happens();
    serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap()
}

/// Answers that the load says it has are answers that the server says it gave, those under way at its death aside.
fn count(result: &Value, error: &str) -> u64 {
    result["errors"][error].as_u64().unwrap()
}

#[test]
fn a_server_that_is_killed_midway_leaves_honest_errors() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let address = server.address.to_string();
    let result = load_while(&address, || drop(server));
    // One answer per connection may be lost on the way, and one connection each that nobody had accepted yet; from then on
    // nobody listens.
    assert!(result["requests"].as_u64().unwrap() > 0);
    assert!(count(&result, "connect_refused") > 100, "{}", result["errors"]);
    let lost =
        ["reset", "closed_early", "short_response"].map(|error| count(&result, error)).iter().sum::<u64>();
    assert!(lost <= 12, "{}", result["errors"]);
    let timeline = result["timeline"].as_array().unwrap();
    assert_eq!(timeline[2]["requests"], 0, "{timeline:?}");
    assert_ne!(result["verdict"], "VALID");
}

#[test]
fn a_server_that_hangs_midway_leaves_time_outs() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let address = server.address.to_string();
    let result = load_while(&address, || server.signal(Signal::STOP));
    let late = count(&result, "first_byte_timeout") + count(&result, "transfer_timeout");
    // Each of 4 connections waits half a second for each answer, for 2 seconds and to the end of the last.
    assert!((4..=24).contains(&late), "{}", result["errors"]);
    assert_eq!(result["censored"].as_u64().unwrap(), late + count(&result, "connect_timeout"));
    server.signal(Signal::CONT);
    server.stop();
}

#[test]
fn a_server_that_is_started_again_midway_is_found_again() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let address = server.address.to_string();
    let mut again = None;
    let result = load_while(&address, || {
        drop(server);
        thread::sleep(Duration::from_millis(300));
        let mut command = plimsoll();
        command.arg("serve").arg(site.path()).args(["--listen", &address]);
        again = Some(Server::spawn(command));
    });
    assert!(count(&result, "connect_refused") > 10, "{}", result["errors"]);
    assert!(result["timeline"][2]["requests"].as_u64().unwrap() > 0, "{}", result["timeline"]);
    again.unwrap().stop();
}

#[test]
fn what_is_expected_of_answers_is_a_goal() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let sum = output_of(Command::new("sha256sum").arg(site.path().join("1k.html")));
    let sum = sum.split(' ').next().unwrap();
    let right = ["-n", "50", "--expect-status", "200", "--expect-length", "1024", "--expect-sha256", sum];
    assert_eq!(json_of(&mut bench(&server.url("/1k.html"), &right))["requests"], 50);
    let output = bench(&server.url("/missing"), &["-n", "50", "--expect-status", "200"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("bad status (50 times)"), "{output:?}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["unexpected_statuses"]["404"], 50);
    server.stop();
}

#[test]
fn logs_of_several_loads_are_added_up() {
    let site = site();
    let server = Server::start(site.path(), &[]);
    let logs: Vec<_> = ["first", "second"]
        .iter()
        .map(|name| {
            let args = ["bench", &server.url("/1k.html"), "-n", "1500", "-c", "4", "-q", "--format", "hdr"];
            let file = site.path().join(name);
            // What is said of the verdict goes to the standard error.
            let output = plimsoll().args(args).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            fs::write(&file, output.stdout).unwrap();
            file
        })
        .collect();
    let text = output_of(plimsoll().arg("merge").args(&logs));
    assert!(text.starts_with("3000 response times"), "{text}");
    assert!(text.lines().any(|line| line.trim_start().starts_with("p95") && !line.contains("n/a")), "{text}");
    let (status, said) = failed(plimsoll().arg("merge").arg(site.path().join("1k.html")));
    assert_eq!(status, 2, "{said}");
    server.stop();
}
