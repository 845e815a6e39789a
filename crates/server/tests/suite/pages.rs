//! What a site can be told: indexes, listings, pages for errors, fall-backs, extra fields, links and hidden files.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use server::app::{Links, Root, Site, SiteSettings};

use crate::common::{body, decoded, field, get, get_bytes, status, touch};

fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("assets/deep")).unwrap();
    for (name, content) in [
        ("index.html", "home"),
        ("404.html", "lost"),
        (".secret", "secret"),
        ("assets/app.js", "app"),
        ("assets/<b> & \"c\".txt", "odd"),
        ("assets/a:b", "colon"),
        ("assets/default.htm", "default"),
        ("../outside", "outside"),
    ] {
        fs::write(root.join(name), content).unwrap();
    }
    symlink("app.js", root.join("assets/inner.js")).unwrap();
    symlink("../../outside", root.join("assets/outer")).unwrap();
    dir
}

fn site(dir: &Path, settings: SiteSettings) -> Arc<Site> {
    with_links(dir, Links::Within, settings)
}

fn with_links(dir: &Path, links: Links, settings: SiteSettings) -> Arc<Site> {
    Arc::new(Site::new(Root::open(&dir.join("root"), links).unwrap(), settings))
}

#[test]
fn a_directory_is_listed_only_if_that_is_wanted_and_it_has_no_index() {
    let dir = directory();
    assert_eq!(status(&get(&site(dir.path(), SiteSettings::default()), "GET /assets/")), 404);
    let listing = site(dir.path(), SiteSettings { listing: true, ..SiteSettings::default() });
    assert_eq!(body(&get(&listing, "GET /")), "home");
    let answer = get(&listing, "GET /assets/");
    assert_eq!(field(&answer, "Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(field(&answer, "Vary"), Some("Accept, Accept-Encoding"));
    let page = body(&answer);
    assert!(page.contains("<a href=\"./deep/\">deep/</a>"), "{page}");
    assert!(page.contains("&lt;b&gt; &amp; &quot;c&quot;.txt</a><td>3<td>"), "{page}");
    assert!(page.contains("href=\"./%3Cb%3E%20%26%20%22c%22.txt\""), "{page}");
    assert!(page.contains("href=\"./a%3Ab\""), "{page}");
    assert!(page.contains("inner.js") && !page.contains("outer"), "{page}");
    assert!(!body(&get(&listing, "GET /assets/deep/")).contains("<b>"));
    assert_eq!(status(&get(&listing, "GET /missing/")), 404);
    let head = get(&listing, "HEAD /assets/");
    assert_eq!((body(&head), field(&head, "Content-Length")), ("", field(&answer, "Content-Length")));
}

#[test]
fn programs_get_the_listing_as_json() {
    let dir = directory();
    let listing = site(dir.path(), SiteSettings { listing: true, ..SiteSettings::default() });
    let answer = get(&listing, "GET /assets/\nAccept: application/json");
    assert_eq!(field(&answer, "Content-Type"), Some("application/json"));
    let json: serde_json::Value = serde_json::from_str(body(&answer)).unwrap();
    assert_eq!((json["path"].as_str(), json["truncated"].as_bool()), (Some("/assets/"), Some(false)));
    let names: Vec<_> =
        json["entries"].as_array().unwrap().iter().map(|entry| entry["name"].clone()).collect();
    // Directories first, then by name.
    assert_eq!(names, ["deep", "<b> & \"c\".txt", "a:b", "app.js", "default.htm", "inner.js"]);
    assert_eq!(json["entries"][3]["size"], 3);
    for accepts in ["text/html,application/xhtml+xml,*/*;q=0.8", "*/*"] {
        let answer = get(&listing, &format!("GET /assets/\nAccept: {accepts}"));
        assert_eq!(field(&answer, "Content-Type"), Some("text/html; charset=utf-8"), "{accepts}");
    }
}

#[test]
fn a_listing_is_subject_to_conditions_and_codings_as_any_page_is() {
    let dir = directory();
    let site = site(dir.path(), SiteSettings { listing: true, ..SiteSettings::default() });
    let ask = |fields: &str| get(&site, &format!("GET /assets/\n{fields}"));
    let plain = ask("");
    let tag = field(&plain, "ETag").unwrap();
    assert_eq!(status(&ask("If-Match: \"x\"")), 412);
    for fields in ["If-None-Match: *".into(), format!("If-None-Match: {tag}")] {
        let answer = ask(&fields);
        assert_eq!((status(&answer), body(&answer), field(&answer, "ETag")), (304, "", Some(tag)));
        assert_eq!(field(&answer, "Vary"), Some("Accept, Accept-Encoding"));
        assert_eq!(field(&answer, "Cache-Control"), Some("no-cache"));
    }
    // Its forms are told apart.
    assert_eq!(status(&ask(&format!("Accept: application/json\nIf-None-Match: {tag}"))), 200);
    for accepts in ["gzip", "gzip, identity;q=0"] {
        let (head, bytes) = get_bytes(&site, &format!("GET /assets/\nAccept-Encoding: {accepts}"));
        assert_eq!((status(&head), field(&head, "Content-Encoding")), (200, Some("gzip")), "{accepts}");
        assert_eq!(decoded("gzip", &bytes), body(&plain).as_bytes(), "{accepts}");
        assert_ne!(field(&head, "ETag"), Some(tag));
    }
    assert_eq!(status(&ask("Accept-Encoding: identity;q=0")), 406);
    // Too short to be worth it, but for who takes nothing else.
    let json = "Accept: application/json\nAccept-Encoding: br";
    assert_eq!(field(&ask(json), "Content-Encoding"), None);
    let (head, _) = get_bytes(&site, &format!("GET /assets/\n{json}, identity;q=0"));
    assert_eq!(field(&head, "Content-Encoding"), Some("br"));
}

#[test]
fn a_listing_has_the_names_that_can_be_asked_for_and_no_others() {
    let dir = directory();
    let many = dir.path().join("root/many");
    fs::create_dir(&many).unwrap();
    let names: [&[u8]; 9] = [
        b"plain",
        b"caf\xc3\xa9",
        b"caf\xe9",
        b"%61",
        b"a?b#c",
        b"back\\slash",
        b"line\nend",
        b"\x7f",
        b"\x1b[m",
    ];
    for name in names {
        fs::write(many.join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    let listing = site(dir.path(), SiteSettings { listing: true, ..SiteSettings::default() });
    let page = get(&listing, "GET /many/");
    let links = page.split("href=\"./").skip(1).map(|rest| rest.split('"').next().unwrap());
    let mut found: Vec<_> = links.map(|link| get_bytes(&listing, &format!("GET /many/{link}")).1).collect();
    found.sort();
    let mut expected = names[..5].to_vec();
    expected.sort();
    assert_eq!(found, expected);
    let answer = get(&listing, "GET /many/\nAccept: application/json");
    let json: serde_json::Value = serde_json::from_str(body(&answer)).unwrap();
    let encoded = json["entries"].as_array().unwrap().iter().filter_map(|entry| entry["encoded"].as_str());
    assert_eq!(encoded.collect::<Vec<_>>(), ["caf%E9"]);
}

#[test]
fn a_listing_is_bounded() {
    let dir = directory();
    let many = dir.path().join("root/many");
    fs::create_dir(&many).unwrap();
    for at in 0..10_050 {
        fs::File::create(many.join(format!("{at:05}"))).unwrap();
    }
    let listing = site(dir.path(), SiteSettings { listing: true, ..SiteSettings::default() });
    let json: serde_json::Value =
        serde_json::from_str(body(&get(&listing, "GET /many/\nAccept: application/json"))).unwrap();
    assert_eq!(json["entries"].as_array().unwrap().len(), 10_000);
    assert_eq!(json["truncated"], true);
    assert!(body(&get(&listing, "GET /many/")).contains("There is more"));
}

#[test]
fn errors_have_the_pages_that_were_set_for_them() {
    let dir = directory();
    let pages = ["404=/404.html", "405=/missing.html", "406=/404.html", "412=/404.html", "416=/404.html"];
    let pages = pages.map(|page| page.parse().unwrap());
    let site = site(dir.path(), SiteSettings { error_pages: pages.into(), ..SiteSettings::default() });
    let answer = get(&site, "GET /nowhere");
    assert_eq!((status(&answer), body(&answer)), (404, "lost"));
    assert_eq!(field(&answer, "Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!((field(&answer, "ETag"), field(&answer, "Last-Modified")), (None, None));
    // It is no answer to a condition or a range: the client asked about something else.
    assert_eq!(status(&get(&site, "GET /nowhere\nIf-None-Match: *\nRange: bytes=0-1")), 404);
    assert_eq!(body(&get(&site, "HEAD /nowhere")), "");
    for (request, expected) in [("GET /\nIf-Match: \"x\"", 412), ("GET /\nRange: bytes=9-", 416)] {
        let answer = get(&site, request);
        assert_eq!((status(&answer), body(&answer)), (expected, "lost"), "{request}");
        assert_eq!(field(&answer, "Content-Range"), (expected == 416).then_some("bytes */4"));
    }
    // What is refused for its coding has a page that is small enough to be compressed.
    fs::write(dir.path().join("root/huge.txt"), "x".repeat(2 << 20)).unwrap();
    let (head, bytes) = get_bytes(&site, "GET /huge.txt\nAccept-Encoding: gzip, identity;q=0");
    assert_eq!((status(&head), decoded("gzip", &bytes).as_slice()), (406, &b"lost"[..]));
    assert_eq!(field(&head, "Vary"), Some("Accept-Encoding"));
    // A page that is not there is no reason to fail.
    assert_eq!(body(&get(&site, "POST /")), "405 Method Not Allowed\n");
    assert_eq!(body(&get(&site, "GET /404.html")), "lost");
}

#[test]
fn an_application_in_the_browser_gets_its_page_for_every_path() {
    let dir = directory();
    let site =
        site(dir.path(), SiteSettings { fallback: Some("/index.html".into()), ..SiteSettings::default() });
    for path in ["/users/7", "/users/", "/assets/"] {
        let answer = get(&site, &format!("GET {path}\nAccept: text/html,*/*;q=0.8"));
        assert_eq!((status(&answer), body(&answer)), (200, "home"), "{path}");
    }
    assert_eq!(status(&get(&site, "GET /users/7")), 200);
    // A cache must not give one client what is for the other.
    for (accepts, expected) in [("text/html", 200), ("application/json", 404)] {
        let answer = get(&site, &format!("GET /users/7\nAccept: {accepts}"));
        assert!(answer.contains("\r\nVary: Accept\r\n") && status(&answer) == expected, "{answer}");
    }
    assert!(!get(&site, "GET /missing.js").contains("\r\nVary: Accept\r\n"));
    for request in
        ["GET /missing.js", "GET /users/7\nAccept: application/json", "GET /.hidden", "POST /users/7"]
    {
        assert!(status(&get(&site, request)) >= 400, "{request}");
    }
    assert_eq!(body(&get(&site, "GET /assets/app.js")), "app");
}

#[test]
fn rules_say_how_long_files_may_be_kept() {
    let dir = directory();
    let rules =
        ["/assets/*=max-age=31536000, immutable", "*.html=no-cache"].map(|rule| rule.parse().unwrap());
    let extra = *b"X-Frame-Options: DENY\r\n";
    let settings =
        SiteSettings { cache_rules: rules.into(), extra_fields: extra.into(), ..SiteSettings::default() };
    let site = site(dir.path(), settings);
    let asset = get(&site, "GET /assets/app.js");
    assert_eq!(field(&asset, "Cache-Control"), Some("max-age=31536000, immutable"));
    // Not by the path that was asked for, but by the file that is served for it.
    assert_eq!(field(&get(&site, "GET /"), "Cache-Control"), Some("no-cache"));
    let again = get(&site, "GET /assets/app.js\nIf-None-Match: *");
    assert_eq!((status(&again), field(&again, "Cache-Control")), (304, Some("max-age=31536000, immutable")));
    for request in [
        "GET /",
        "GET /missing",
        "GET /assets",
        "POST /",
        "OPTIONS /",
        "GET /\nIf-None-Match: *",
        "GET /\nIf-Match: \"x\"",
        "GET /\nRange: bytes=9-",
    ] {
        assert_eq!(field(&get(&site, request), "X-Frame-Options"), Some("DENY"), "{request}");
    }
    assert_eq!(field(&get(&site, "GET /missing.html"), "Cache-Control"), None);
}

/// A page, and others that were compressed beforehand beside it: what each says is its name.
fn with_siblings(name: &str) -> tempfile::TempDir {
    let dir = directory();
    for (_, ending) in CODINGS {
        put(&dir.path().join("root"), &format!("{name}{ending}"), &format!("{name}{ending}"));
    }
    dir
}

/// A file that was changed a while ago.
fn put(root: &Path, name: &str, content: &str) {
    fs::write(root.join(name), content).unwrap();
    touch(root, name, 784_111_777);
}

const CODINGS: [(&str, &str); 4] = [("identity", ""), ("zstd", ".zst"), ("br", ".br"), ("gzip", ".gz")];

#[test]
fn rules_hold_for_a_file_in_whatever_coding_it_is_sent() {
    let dir = with_siblings("page.html");
    let rules = ["*.html=no-cache", "*=max-age=60"].map(|rule| rule.parse().unwrap());
    let site = site(dir.path(), SiteSettings { cache_rules: rules.into(), ..SiteSettings::default() });
    for (coding, ending) in CODINGS {
        for (method, fields, expected) in
            [("GET", "", 200), ("HEAD", "", 200), ("GET", "\nIf-None-Match: *", 304)]
        {
            let answer = get(&site, &format!("{method} /page.html\nAccept-Encoding: {coding}{fields}"));
            assert_eq!(status(&answer), expected, "{coding}");
            assert_eq!(field(&answer, "Cache-Control"), Some("no-cache"), "{coding}: {answer}");
        }
        // Asked for by itself it is a file of its own.
        let own = if ending.is_empty() { "no-cache" } else { "max-age=60" };
        let answer = get(&site, &format!("GET /page.html{ending}"));
        assert_eq!(field(&answer, "Cache-Control"), Some(own), "{ending}");
    }
}

#[test]
fn pages_that_stand_in_for_others_are_sent_compressed_beforehand_too() {
    let dir = with_siblings("404.html");
    let root = dir.path().join("root");
    for (_, ending) in CODINGS {
        put(&root, &format!("app.html{ending}"), &format!("404.html{ending}"));
    }
    let settings = SiteSettings {
        error_pages: vec!["404=/404.html".parse().unwrap()],
        fallback: Some("/app.html".into()),
        ..SiteSettings::default()
    };
    let site = site(dir.path(), settings);
    for (coding, ending) in CODINGS {
        for (path, expected) in [("/users/7", 200), ("/missing.js", 404)] {
            let ask = |method: &str| get_bytes(&site, &format!("{method} {path}\nAccept-Encoding: {coding}"));
            let ((head, bytes), (bodiless, nothing)) = (ask("GET"), ask("HEAD"));
            assert_eq!((status(&head), bytes), (expected, format!("404.html{ending}").into_bytes()));
            let said = field(&head, "Content-Encoding");
            assert_eq!(said, (coding != "identity").then_some(coding), "{path}");
            assert_eq!(field(&head, "Content-Type"), Some("text/html; charset=utf-8"), "{path}");
            assert!(head.contains("\r\nVary: Accept-Encoding\r\n"), "{head}");
            // HEAD says the same of all of them.
            assert_eq!((bodiless, nothing), (head.clone(), Vec::new()), "{path}");
        }
    }
}

#[test]
fn the_charset_of_text_is_as_it_was_set() {
    let dir = directory();
    for (charset, page, script) in [
        (Some("utf-8"), "text/html; charset=utf-8", "text/javascript; charset=utf-8"),
        (Some("iso-8859-1"), "text/html; charset=iso-8859-1", "text/javascript; charset=iso-8859-1"),
        (None, "text/html", "text/javascript"),
    ] {
        let pages = vec!["404=/404.html".parse().unwrap()];
        let settings = SiteSettings {
            charset: charset.map(str::to_owned),
            error_pages: pages,
            ..SiteSettings::default()
        };
        let site = site(dir.path(), settings);
        for (path, expected) in [("/", page), ("/assets/app.js", script), ("/missing", page)] {
            assert_eq!(field(&get(&site, &format!("GET {path}")), "Content-Type"), Some(expected), "{path}");
        }
    }
}

#[test]
fn links_hidden_files_and_indexes_are_as_they_were_set() {
    let dir = directory();
    for (links, inner, outer) in
        [(Links::Within, 200, 404), (Links::Deny, 404, 404), (Links::Follow, 200, 200)]
    {
        let site = with_links(dir.path(), links, SiteSettings::default());
        assert_eq!(status(&get(&site, "GET /assets/inner.js")), inner, "{links:?}");
        assert_eq!(status(&get(&site, "GET /assets/outer")), outer, "{links:?}");
        assert_eq!(status(&get(&site, "GET /../outside")), 400, "{links:?}");
    }
    assert_eq!(status(&get(&site(dir.path(), SiteSettings::default()), "GET /.secret")), 404);
    let open = site(dir.path(), SiteSettings { dotfiles: true, ..SiteSettings::default() });
    assert_eq!(body(&get(&open, "GET /.secret")), "secret");
    let index = vec!["index.html".into(), "default.htm".into()];
    let site = site(dir.path(), SiteSettings { index, ..SiteSettings::default() });
    assert_eq!((body(&get(&site, "GET /assets/")), body(&get(&site, "GET /"))), ("default", "home"));
}
