//! Clients that people use, each loading from every model without an error.

use std::fs;
use std::process::Command;

use crate::browser::chromium;
use crate::common::{has, is_missing, large, on_every_model, output_of, site};

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
fn curl_resumes_compresses_and_asks_whether_it_has_the_file() {
    if !has("curl", "curl") {
        return;
    }
    let (expected, text) = (large(), "all work and no play, ".repeat(500));
    on_every_model(|server| {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).into_os_string().into_string().unwrap();
        let curl = |args: &[&str], path: &str| {
            let mut curl = Command::new("curl");
            output_of(curl.args(["-sS", "--fail"]).args(args).arg(server.url(path)))
        };
        fs::write(at("part"), &expected[..5_000_000]).unwrap();
        curl(&["-C", "-", "-o", &at("part")], "/large.bin");
        assert!(fs::read(at("part")).unwrap() == expected);
        assert!(curl(&["-r", "100-199"], "/text.txt") == text[100..200]);
        for coding in ["gzip", "br", "zstd"] {
            let accepts = format!("Accept-Encoding: {coding}");
            let head = curl(&["-D", "-", "-o", "/dev/null", "-H", &accepts], "/text.txt");
            assert!(head.contains(&format!("Content-Encoding: {coding}\r\n")), "{head}");
        }
        assert!(curl(&["--compressed"], "/text.txt") == text);
        // The second time it has it already, by its tag and by its date.
        let tag = ["--etag-save", &at("tag"), "--etag-compare", &at("tag"), "-o", &at("page")];
        let code = ["-w", "%{http_code}"];
        let codes = [(); 2].map(|()| curl(&[&tag[..], &code].concat(), "/1k.html"));
        assert_eq!(codes, ["200", "304"]);
        let since =
            curl(&[&["-z", "1 Jan 2037 00:00:00 GMT", "-o", "/dev/null"], &code[..]].concat(), "/1k.html");
        assert_eq!(since, "304");
    });
}

/// Runs a client of a language against every model; it gets the URL and the large file, and says ok.
fn says_ok(client: &[&str]) {
    let large = site();
    on_every_model(|server| {
        let (program, args) = client.split_first().unwrap();
        let mut client = Command::new(program);
        let said = output_of(client.args(args).arg(server.url("")).arg(large.path().join("large.bin")));
        assert_eq!(said, "ok\n");
    });
}

/// The source of a client.
fn source(name: &str) -> String {
    format!("{}/tests/clients/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn python_finds_all_as_it_should_be() {
    // Debian's own, for which the packages are.
    let python = "/usr/bin/python3";
    let has_both = Command::new(python).args(["-c", "import requests, httpx"]).output();
    if has_both.is_ok_and(|output| output.status.success())
        || is_missing("requests or httpx", "python3-requests python3-httpx")
    {
        says_ok(&[python, &source("client.py")]);
    }
}

#[test]
fn node_finds_all_as_it_should_be() {
    if has("node", "nodejs") {
        says_ok(&["node", &source("client.mjs")]);
    }
}

#[test]
fn go_finds_all_as_it_should_be() {
    if has("go", "golang-go") {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("client");
        // What it makes of its own library is kept, as cargo keeps what it has built.
        let cache = concat!(env!("CARGO_TARGET_TMPDIR"), "/go");
        let mut go = Command::new("go");
        go.env("GOCACHE", cache).env("GO111MODULE", "off");
        output_of(go.args(["build", "-o"]).arg(&program).arg(source("client.go")));
        says_ok(&[program.to_str().unwrap()]);
    }
}

#[test]
fn java_finds_all_as_it_should_be() {
    if has("javac", "default-jdk-headless") {
        let dir = tempfile::tempdir().unwrap();
        let classes = dir.path().to_str().unwrap();
        output_of(Command::new("javac").args(["-d", classes, &source("Client.java")]));
        says_ok(&["java", "-cp", classes, "Client"]);
    }
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
        // wrk calls an answer that takes 2 s an error, and fifty of 20 MiB each take that long on a slow host.
        for (path, connections) in [("/1k.html", "-c50"), ("/large.bin", "-c4")] {
            let text =
                output_of(Command::new("wrk").args(["-t1", connections, "-d1s"]).arg(server.url(path)));
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
        let mut chromium = chromium(profile.path());
        chromium.args(["--virtual-time-budget=10000", "--dump-dom"]).arg(server.url("/"));
        let text = output_of(&mut chromium);
        // The picture's handler ran, and saw the script's constant and the style's colour.
        assert!(text.contains("<title>loaded hi rgb(1, 2, 3)</title>"), "{text}");
    });
}
