//! The static site through the connection: what is served, what is refused, and what a file's changes do.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::common::{converse_with, get};
use engine::Stop;
use engine::driver::memory::Script;
use server::app::{Beneath, Links, Root, Site, SiteSettings};

fn site(root: &Path) -> std::sync::Arc<Site> {
    Site::open(root).unwrap().into()
}

fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("sub/.git")).unwrap();
    fs::create_dir_all(root.join(".well-known")).unwrap();
    for (name, content) in [
        ("index.html", "<h1>home</h1>"),
        ("sub/index.html", "<h1>sub</h1>"),
        ("sub/.git/config", "secret"),
        (".env", "secret"),
        (".well-known/security.txt", "contact"),
        ("empty", ""),
        ("café menu.txt", "tea"),
        ("../outside", "secret"),
    ] {
        fs::write(root.join(name), content).unwrap();
    }
    let large: Vec<u8> = (0..300_000u32).map(|at| b'a' + (at % 25) as u8).collect();
    fs::write(root.join("large.bin"), large).unwrap();
    std::os::unix::fs::symlink("../outside", root.join("link")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", root.join("absolute")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, root.join("pipe"), rustix::fs::FileType::Fifo, 0o644.into(), 0)
        .unwrap();
    dir
}

#[test]
fn files_and_directories_are_served_with_their_fields() {
    let dir = directory();
    let root = dir.path().join("root");
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    fs::File::options().write(true).open(root.join("index.html")).unwrap().set_modified(modified).unwrap();
    let site = site(&root);
    let home = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nAccept-Ranges: bytes\r\n\
                ETag: \"ae1b981bc490a00-d\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
                Vary: Accept-Encoding\r\nContent-Length: 13\r\n\r\n";
    for _ in 0..2 {
        // From the file, then from memory.
        assert_eq!(get(&site, "GET /"), format!("{home}<h1>home</h1>"));
        assert_eq!(get(&site, "HEAD /index.html"), home);
    }
    assert!(get(&site, "GET /sub/").ends_with("<h1>sub</h1>"));
    assert!(get(&site, "GET /empty").ends_with("Content-Length: 0\r\n\r\n"));
    assert!(get(&site, "GET /caf%C3%A9%20menu.txt").ends_with("\r\n\r\ntea"));
    assert!(get(&site, "GET /.well-known/security.txt").ends_with("contact"));
    let large = get(&site, "GET /large.bin");
    let (head, body) = large.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("Content-Length: 300000"), "{head}");
    assert!(body.as_bytes() == fs::read(root.join("large.bin")).unwrap());
}

#[test]
fn what_is_not_for_visitors_is_not_served_whoever_keeps_the_root() {
    let dir = directory();
    for beneath in [Beneath::Kernel, Beneath::Walk] {
        let root = Root::open(&dir.path().join("root"), Links::Within).unwrap().with(beneath);
        let site = std::sync::Arc::new(Site::new(root, SiteSettings::default()));
        for (path, status) in [
            ("/missing", 404),
            ("/empty/below", 404),
            ("/link", 404),
            ("/absolute", 404),
            ("/pipe", 404),
            ("/.env", 404),
            ("/sub/.git/config", 404),
            ("/%2eenv", 404),
            ("/index.html/", 404),
            // Overlong forms of a dot and a slash are just odd names.
            ("/%c0%ae%c0%ae/outside", 404),
            ("/%c0%af%e0%80%af", 404),
            ("/%252e%252e/outside", 404),
            ("/../outside", 400),
            ("/sub/../../outside", 400),
            ("/%2e%2e/outside", 400),
            ("/..%2foutside", 400),
            ("/sub%5c..%5coutside", 400),
            ("/index.html%00", 400),
            ("/%zz", 400),
        ] {
            let answer = get(&site, &format!("GET {path}"));
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path} under {beneath:?}: {answer}");
            assert!(!answer.contains("secret"), "{path} under {beneath:?}");
        }
    }
}

#[test]
fn a_directory_without_its_slash_is_redirected_with_its_query() {
    let dir = directory();
    let site = site(&dir.path().join("root"));
    assert!(get(&site, "GET /sub?a=b").contains("\r\nLocation: /sub/?a=b\r\n"));
    // Never to another host.
    assert!(get(&site, "GET //sub").contains("\r\nLocation: /sub/\r\n"));
}

#[test]
fn what_files_do_not_allow_is_refused_and_what_they_allow_is_said() {
    let dir = directory();
    let site = site(&dir.path().join("root"));
    for (method, status) in
        [("POST", 405), ("PUT", 405), ("DELETE", 405), ("PATCH", 405), ("TRACE", 405), ("BREW", 501)]
    {
        let answer = get(&site, &format!("{method} /"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert_eq!(answer.contains("\r\nAllow: GET, HEAD, OPTIONS\r\n"), status == 405, "{answer}");
    }
    for target in ["/", "*", "/missing"] {
        let answer = get(&site, &format!("OPTIONS {target}"));
        assert_eq!(answer, "HTTP/1.1 204 No Content\r\nAllow: GET, HEAD, OPTIONS\r\n\r\n");
    }
}

#[test]
fn a_changed_file_is_served_new_within_a_second() {
    let dir = directory();
    let root = dir.path().join("root");
    let site = site(&root);
    assert!(get(&site, "GET /sub/").ends_with("<h1>sub</h1>"));
    fs::write(root.join("new"), "<h1>new</h1>").unwrap();
    fs::rename(root.join("new"), root.join("sub/index.html")).unwrap();
    let start = std::time::Instant::now();
    while !get(&site, "GET /sub/").ends_with("<h1>new</h1>") {
        assert!(start.elapsed() < Duration::from_secs(3), "still the old file");
        std::thread::sleep(Duration::from_millis(20));
    }
    fs::remove_file(root.join("sub/index.html")).unwrap();
    let start = std::time::Instant::now();
    while !get(&site, "GET /sub/").starts_with("HTTP/1.1 404 ") {
        assert!(start.elapsed() < Duration::from_secs(3), "still the removed file");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_file_cut_short_while_it_is_sent_ends_the_connection() {
    let dir = directory();
    let file = fs::File::options().write(true).open(dir.path().join("root/large.bin")).unwrap();
    let site = site(&dir.path().join("root"));
    let handler = move |request: &server::Request<'_>, response: &mut server::Response| {
        server::Handler::handle(&*site, request, response);
        // The answer has its length by now.
        file.set_len(100_000).unwrap();
    };
    let requests = "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let seen = converse_with(handler, Stop::default(), Script::sends([requests]).then_ends(), |_| ());
    assert_eq!(seen.totals.files_changed, 1);
    let (head, body) = seen.text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("Content-Length: 300000") && body.len() == 100_000, "{head}, {} bytes", body.len());
}
