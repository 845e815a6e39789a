//! The static site through the connection: what is served, what is refused, and what a file's changes do.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::common::{body, field, get, status};
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
    let first = get(&site, "GET /");
    let tag = field(&first, "ETag").unwrap();
    assert!(tag.len() == "\"0123456789abcdef-d\"".len() && tag.ends_with("-d\""), "{tag}");
    let home = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nAccept-Ranges: bytes\r\n\
         ETag: {tag}\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
         Vary: Accept-Encoding\r\nContent-Length: 13\r\n\r\n"
    );
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
    for target in ["/%zz", "/..%2f", "/../above", "/a%00"] {
        assert_eq!(status(&get(&site, &format!("OPTIONS {target}"))), 400, "{target}");
    }
}

#[test]
fn another_directory_in_the_place_of_the_root_is_served_within_a_second() {
    let dir = directory();
    let root = dir.path().join("root");
    std::os::unix::fs::symlink("root", dir.path().join("current")).unwrap();
    // A directory that a build makes anew, and a link that is switched to the next release.
    for (at, name) in ["root", "current"].into_iter().enumerate() {
        let site = site(&dir.path().join(name));
        assert!(get(&site, "GET /sub/").contains("<h1>"));
        let next = dir.path().join(format!("release-{at}"));
        fs::create_dir_all(next.join("sub")).unwrap();
        fs::write(next.join("sub/index.html"), format!("<h1>{at}</h1>")).unwrap();
        if name == "root" {
            fs::rename(&root, dir.path().join("away")).unwrap();
            fs::remove_dir_all(dir.path().join("away")).unwrap();
            assert_eq!(status(&get(&site, "GET /missing")), 404);
            fs::rename(&next, &root).unwrap();
        } else {
            std::os::unix::fs::symlink(&next, dir.path().join("link")).unwrap();
            fs::rename(dir.path().join("link"), dir.path().join("current")).unwrap();
        }
        let changed = Instant::now();
        loop {
            let asked = Instant::now();
            if body(&get(&site, "GET /sub/")) == format!("<h1>{at}</h1>") {
                break;
            }
            assert!(asked - changed < Duration::from_secs(1), "still what stood there before: {name}");
        }
    }
}
