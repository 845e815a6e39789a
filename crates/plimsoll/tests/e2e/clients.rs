//! Clients that people use, each loading from every model without an error.

use std::fs;
use std::process::Command;

use crate::common::{has, large, on_every_model, output_of};

#[test]
fn curl_fetches_what_is_on_disk() {
    if !has("curl", "curl") {
        return;
    }
    let expected = large();
    on_every_model(|server| {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("large.bin");
        output_of(
            Command::new("curl").args(["-sS", "--fail", "-o"]).arg(&file).arg(server.url("/large.bin")),
        );
        assert!(fs::read(file).unwrap() == expected);
        let head = output_of(Command::new("curl").args(["-sS", "--fail", "-I"]).arg(server.url("/")));
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        // A redirect is followed, and two requests share a connection.
        let text =
            output_of(Command::new("curl").args(["-sSL", "-w", " %{num_connects}"]).arg(server.url("/sub")));
        assert_eq!(text, "<h1>sub</h1> 1");
        let text =
            output_of(Command::new("curl").args(["-sS", "--http1.0", "--fail"]).arg(server.url("/sub/")));
        assert_eq!(text, "<h1>sub</h1>");
    });
}

#[test]
fn ab_has_no_failed_request() {
    if !has("ab", "apache2-utils") {
        return;
    }
    on_every_model(|server| {
        for keep_alive in [&["-k"][..], &[]] {
            let ab = &mut Command::new("ab");
            let text = output_of(
                ab.args(["-q", "-n", "4000", "-c", "32"]).args(keep_alive).arg(server.url("/1k.html")),
            );
            let line =
                |label: &str| text.lines().find(|line| line.starts_with(label)).unwrap_or("").to_string();
            assert!(line("Complete requests:").ends_with(" 4000"), "{text}");
            assert!(line("Failed requests:").ends_with(" 0"), "{text}");
            assert!(!text.contains("Non-2xx"), "{text}");
            let kept = line("Keep-Alive requests:");
            assert!(keep_alive.is_empty() || kept.ends_with(" 4000"), "{text}");
        }
    });
}

#[test]
fn wrk_has_no_error() {
    if !has("wrk", "wrk") {
        return;
    }
    on_every_model(|server| {
        for path in ["/1k.html", "/large.bin"] {
            let text = output_of(Command::new("wrk").args(["-t1", "-c50", "-d1s"]).arg(server.url(path)));
            assert!(text.contains("requests in") && !text.contains("Socket errors"), "{text}");
            assert!(!text.contains("Non-2xx") && !text.contains("\nRequests/sec:      0.00"), "{text}");
        }
    });
}

#[test]
fn h2load_speaks_http_1_to_it() {
    if !has("h2load", "nghttp2-client") {
        return;
    }
    on_every_model(|server| {
        // Four requests at a time on each connection: pipelining.
        let h2load = &mut Command::new("h2load");
        let text =
            output_of(h2load.args(["--h1", "-n", "4000", "-c", "20", "-m", "4"]).arg(server.url("/1k.html")));
        assert!(text.contains("4000 succeeded, 0 failed, 0 errored, 0 timeout"), "{text}");
        assert!(text.contains("status codes: 4000 2xx"), "{text}");
    });
}

#[test]
fn a_browser_loads_a_page_with_all_that_belongs_to_it() {
    if !has("chromium", "chromium") {
        return;
    }
    on_every_model(|server| {
        let profile = tempfile::tempdir().unwrap();
        let mut chromium = Command::new("chromium");
        chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
        chromium.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        chromium.arg(format!("--user-data-dir={}", profile.path().display()));
        chromium.args(["--virtual-time-budget=10000", "--dump-dom"]).arg(server.url("/"));
        let text = output_of(&mut chromium);
        // The picture's handler ran, and saw the script's constant and the style's colour.
        assert!(text.contains("<title>loaded hi rgb(1, 2, 3)</title>"), "{text}");
    });
}
