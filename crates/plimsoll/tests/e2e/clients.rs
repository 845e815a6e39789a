//! Clients that people use, each loading from every model without an error; those that take seconds to start, from every driver.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::browser::chromium;
use crate::common::{
    MODELS, Server, has, is_missing, large, on_every_driver, on_every_model, output_of, site,
};

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

/// Runs a client of a language against every driver; it gets the URL and the large file, and says ok.
fn says_ok(client: &[&str]) {
    let large = site();
    on_every_driver(|server| {
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
        // By default wrk calls an answer that takes 2 s an error, which one of 20 MiB may on a slow host.
        for (path, connections) in [("/1k.html", "-c50"), ("/large.bin", "-c4")] {
            let wrk = &mut Command::new("wrk");
            let text =
                output_of(wrk.args(["-t1", connections, "-d1s", "--timeout", "60s"]).arg(server.url(path)));
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
    on_every_driver(|server| {
        let profile = tempfile::tempdir().unwrap();
        let mut chromium = chromium(profile.path());
        chromium.args(["--virtual-time-budget=10000", "--dump-dom"]).arg(server.url("/"));
        let text = output_of(&mut chromium);
        // The picture's handler ran, and saw the script's constant and the style's colour.
        assert!(text.contains("<title>loaded hi rgb(1, 2, 3)</title>"), "{text}");
    });
}

/// A directory of a small site, whose pages link to everything in it.
fn linked_site() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b")).unwrap();
    for (name, content) in [
        (
            "index.html",
            "<link rel=stylesheet href=style.css><a href=a/>a</a><a href='x%20y%20100%25.txt'>x</a>",
        ),
        ("style.css", "body { background: url(a/dot.svg) }"),
        ("a/index.html", "<a href=../>up</a><a href='b/page.html?x=1#y'>b</a><img src=dot.svg>"),
        ("a/dot.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>"),
        ("a/b/page.html", "<a href=/large.bin>large</a><a href=/empty.txt>empty</a>"),
        ("x y 100%.txt", "named"),
        ("empty.txt", ""),
    ] {
        fs::write(dir.path().join(name), content).unwrap();
    }
    fs::write(dir.path().join("large.bin"), &large()[..1 << 20]).unwrap();
    dir
}

/// The files below a directory, and what is in each.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut tree, mut left) = (BTreeMap::new(), vec![dir.to_path_buf()]);
    while let Some(at) = left.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_string_lossy();
                // A query is part of the name that wget gives a file.
                let name = name.split('?').next().unwrap().into();
                tree.insert(name, fs::read(path).unwrap());
            }
        }
    }
    tree
}

#[test]
fn wget_mirrors_a_site_byte_for_byte() {
    if !has("wget", "wget") {
        return;
    }
    let site = linked_site();
    let expected = tree(site.path());
    for flags in MODELS {
        let server = Server::start(site.path(), flags);
        let dir = tempfile::tempdir().unwrap();
        let mut wget = Command::new("wget");
        wget.args([
            "--mirror",
            "--no-host-directories",
            "--no-verbose",
            "--tries=1",
            "--execute",
            "robots=off",
        ]);
        output_of(wget.arg("--directory-prefix").arg(dir.path()).arg(server.url("/")));
        let mirrored = tree(dir.path());
        assert!(mirrored == expected, "{flags:?}: {:?}, not {:?}", mirrored.keys(), expected.keys());
        server.stop();
    }
}

#[test]
fn a_browser_loads_the_demos_site_without_a_failed_request() {
    let root = Path::new("/usr/share/doc/sqlite3");
    if !has("chromium", "chromium")
        || !(root.join("index.html").exists() || is_missing("the site", "sqlite3-doc"))
    {
        return;
    }
    for model in ["auto", "thread-pool", "proactor"] {
        let (dir, pages) = (tempfile::tempdir().unwrap(), ["/", "/queryplanner.html"]);
        let log = dir.path().join("access.log");
        let flags = ["--model", model, "--log-format", "json", "--access-log", log.to_str().unwrap()];
        let server = Server::start(root, &flags);
        for page in pages {
            let mut chromium = chromium(&dir.path().join("profile"));
            chromium.args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=10000", "--dump-dom"]);
            let text = output_of(chromium.arg(server.url(page)));
            assert!(
                text.contains("</html>") && !text.contains("Failed to load"),
                "{model} {page}: {text:.2000}"
            );
        }
        server.stop();
        let lines = fs::read_to_string(log).unwrap();
        let mut seen = Vec::new();
        for line in lines.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let (target, status) = (line["target"].as_str().unwrap(), line["status"].as_u64().unwrap());
            // The site has no such file, and no page of it asks for one.
            assert!([200, 206, 304].contains(&status) || target == "/favicon.ico", "{model}: {line}");
            seen.push(target.to_owned());
        }
        for target in pages.into_iter().chain(["/sqlite.css", "/images/qp/fullscan.gif"]) {
            assert!(seen.iter().any(|seen| seen == target), "{model}: {target} was not asked for: {seen:?}");
        }
    }
}
