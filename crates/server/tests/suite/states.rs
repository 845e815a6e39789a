//! Files that change: what is served of them and when, and what is said that tells their states apart.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use engine::Stop;
use engine::driver::memory::Script;
use server::app::Site;

use crate::common::{body, converse_with, decoded, field, get, get_bytes, status, touch, until};

fn site() -> (tempfile::TempDir, Arc<Site>) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("page.html"), page()).unwrap();
    fs::write(dir.path().join("large.bin"), large()).unwrap();
    let site = Arc::new(Site::open(dir.path()).unwrap());
    (dir, site)
}

fn page() -> String {
    "all work and no play makes a dull page, ".repeat(100)
}

/// More than is kept in memory.
fn large() -> Vec<u8> {
    (0..300_000u32).map(|at| b'a' + (at % 25) as u8).collect()
}

/// Puts a file in the place of another one.
fn replace(root: &Path, name: &str, content: &str) {
    fs::write(root.join("new"), content).unwrap();
    fs::rename(root.join("new"), root.join(name)).unwrap();
}

/// When the kernel says that a file was changed, or put in its place.
fn changed(path: &Path) -> SystemTime {
    let metadata = fs::metadata(path).unwrap();
    SystemTime::UNIX_EPOCH + Duration::new(metadata.ctime() as u64, metadata.ctime_nsec() as u32)
}

#[test]
fn a_changed_file_is_served_new_within_a_second_of_its_own_time() {
    let (dir, site) = site();
    let path = dir.path().join("page.html");
    // Asked all the while, so that it is always in memory; longer than a file takes to settle.
    let served = |request: &str, since: SystemTime, content: &[u8]| {
        loop {
            let asked = SystemTime::now();
            let (head, bytes) = get_bytes(&site, request);
            let coding = field(&head, "Content-Encoding");
            if coding.map_or(bytes.clone(), |coding| decoded(coding, &bytes)) == content {
                return;
            }
            // However slow the host is: it is about when it was asked.
            let age = asked.duration_since(since).unwrap_or_default();
            assert!(age < Duration::from_secs(1), "{request}: still the old one after {age:?}");
        }
    };
    for request in ["GET /page.html", "GET /page.html\nAccept-Encoding: zstd"] {
        for (round, content) in ["one", "two", "six"].iter().enumerate() {
            let content = content.repeat(1_000);
            match round {
                0 => replace(dir.path(), "page.html", &content),
                _ => fs::write(&path, &content).unwrap(),
            }
            served(request, changed(&path), content.as_bytes());
            let start = SystemTime::now();
            while start.elapsed().unwrap() < Duration::from_millis(if round == 1 { 0 } else { 1_200 }) {
                served(request, start, content.as_bytes());
            }
        }
    }
    fs::remove_file(&path).unwrap();
    let removed = SystemTime::now();
    loop {
        let asked = SystemTime::now();
        if status(&get(&site, "GET /page.html")) == 404 {
            break;
        }
        assert!(asked.duration_since(removed).unwrap() < Duration::from_secs(1), "still the removed file");
    }
}

/// What a client is sent of the large file if this is done to it after its answer was begun, and how often the connection was
/// cut for it.
fn sent_while(change: impl Fn(&Path) + Send + Sync + 'static) -> (String, u64) {
    let (dir, site) = site();
    let path = dir.path().join("large.bin");
    let handler = move |request: &server::Request<'_>, response: &mut server::Response| {
        server::Handler::handle(&*site, request, response);
        // The answer has its length and the file's state by now. A tick of a coarse clock must pass for the change to show.
        std::thread::sleep(Duration::from_millis(20));
        change(&path);
    };
    let requests = "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n";
    let seen = converse_with(handler, Stop::default(), Script::sends([requests]).then_ends(), |_| ());
    let (head, body) = seen.text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("Content-Length: 300000"), "{head}");
    (body.to_owned(), seen.totals.files_changed)
}

#[test]
fn a_file_that_is_replaced_or_removed_while_it_is_sent_is_sent_on_as_it_was() {
    let replaced = sent_while(|path| replace(path.parent().unwrap(), "large.bin", "another"));
    let removed = sent_while(|path| fs::remove_file(path).unwrap());
    for (body, cut) in [replaced, removed] {
        assert_eq!((body.as_bytes() == large(), cut), (true, 0));
    }
}

#[test]
fn a_file_that_is_changed_in_place_while_it_is_sent_is_not_brought_to_its_end() {
    let open = |path: &Path| fs::File::options().write(true).open(path).unwrap();
    let cut_short = sent_while(move |path| open(path).set_len(100_000).unwrap());
    assert_eq!((cut_short.0.len(), cut_short.1), (100_000, 1));
    let grown = sent_while(move |path| open(path).set_len(400_000).unwrap());
    let overwritten = sent_while(move |path| {
        std::os::unix::fs::FileExt::write_all_at(&open(path), &[b'!'; 50], 150_000).unwrap();
    });
    let back_dated = sent_while(move |path| {
        let (file, modified) = (open(path), fs::metadata(path).unwrap().modified().unwrap());
        std::os::unix::fs::FileExt::write_all_at(&file, b"!", 0).unwrap();
        file.set_modified(modified).unwrap();
    });
    for (body, cut) in [grown, overwritten, back_dated] {
        assert!(body.len() < 300_000 && cut == 1, "{} bytes, cut {cut} times", body.len());
    }
}

/// Tells another thread to stop, also where the test fails.
struct StopAtTheEnd<'a>(&'a AtomicBool);

impl Drop for StopAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_file_that_is_written_all_the_time_is_never_a_mixture_and_no_two_states_have_one_tag() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("page.txt");
    let states = ["a", "b"].map(|letter| letter.repeat(4_000));
    fs::write(&path, &states[0]).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                // Truncated, and written in one go: nothing, and either content, are states of it.
                fs::write(&path, &states[round % 2]).unwrap();
            }
        });
        let _stop = StopAtTheEnd(&stop);
        let mut tags = std::collections::HashMap::new();
        let (start, mut seen) = (SystemTime::now(), std::collections::BTreeSet::new());
        for round in 0.. {
            // However slow the host is: until each content was served, too.
            if round >= 2_000 && states.iter().all(|state| seen.contains(state)) {
                break;
            }
            assert!(start.elapsed().unwrap() < Duration::from_secs(60), "{} states were served", seen.len());
            // Nothing is in its memory.
            let site = Arc::new(Site::open(dir.path()).unwrap());
            let coding = ["", "\nAccept-Encoding: gzip"][round % 2];
            let (head, bytes) = get_bytes(&site, &format!("GET /page.txt{coding}"));
            if status(&head) == 503 {
                assert_eq!(field(&head, "Retry-After"), Some("1"));
                continue;
            }
            let coding = field(&head, "Content-Encoding");
            let content = String::from_utf8(coding.map_or(bytes.clone(), |c| decoded(c, &bytes))).unwrap();
            assert!(content.is_empty() || states.contains(&content), "{content:.60}");
            assert_eq!(field(&head, "Last-Modified"), None);
            let tag = field(&head, "ETag").unwrap().to_owned();
            assert_eq!(*tags.entry(tag).or_insert(content.clone()), content, "{head}");
            seen.insert(content);
        }
    });
}

#[test]
fn the_date_of_a_file_is_said_when_no_later_state_can_have_it_too() {
    let (dir, site) = site();
    for name in ["page.html", "large.bin"] {
        let path = dir.path().join(name);
        let mut content = fs::read(&path).unwrap();
        content[0] = b'!';
        fs::write(&path, content).unwrap();
        loop {
            let asked = SystemTime::now();
            let answer = get(&site, &format!("GET /{name}"));
            let age = SystemTime::now().duration_since(changed(&path)).unwrap();
            if let Some(date) = field(&answer, "Last-Modified") {
                assert!(age >= Duration::from_secs(1), "{date} is said after {age:?}");
                assert!(field(&answer, "ETag").is_some_and(|tag| tag.starts_with('"')));
                break;
            }
            // The content of small files is read, and its tag made of that.
            assert_eq!(field(&answer, "ETag").is_some(), name == "page.html");
            let known = asked.duration_since(changed(&path)).unwrap_or_default();
            assert!(known < Duration::from_secs(2), "{name}: nothing is said after {known:?}");
            // A client that guesses a date is given no part by it.
            let date = wire::HttpDate::from(changed(&path));
            let date = String::from_utf8_lossy(date.as_bytes()).into_owned();
            let answer = get(&site, &format!("GET /{name}\nRange: bytes=0-3\nIf-Range: {date}"));
            assert!(status(&answer) == 200 || field(&answer, "Last-Modified").is_some(), "{answer:.200}");
        }
    }
}

#[test]
fn a_tag_tells_contents_apart_that_were_made_with_the_same_time_and_length() {
    let (dir, site) = site();
    for name in ["page.html", "large.bin"] {
        let mut content = fs::read(dir.path().join(name)).unwrap();
        touch(dir.path(), name, 1_000_000_000);
        let ask = |first: u8| {
            let mut answer = String::new();
            until("it is the new one and has a tag", || {
                answer = get(&site, &format!("GET /{name}"));
                body(&answer).as_bytes()[0] == first && field(&answer, "ETag").is_some()
            });
            field(&answer, "ETag").unwrap().to_owned()
        };
        let old = ask(content[0]);
        content[0] = b'!';
        fs::write(dir.path().join(name), &content).unwrap();
        touch(dir.path(), name, 1_000_000_000);
        assert_ne!(ask(b'!'), old);
        assert_eq!(status(&get(&site, &format!("GET /{name}\nIf-None-Match: {old}"))), 200);
        assert_eq!(status(&get(&site, &format!("GET /{name}\nRange: bytes=0-1\nIf-Range: {old}"))), 200);
    }
}

#[test]
fn forms_of_a_file_that_look_alike_have_tags_of_their_own() {
    let (dir, site) = site();
    for (name, content) in [("page.html", b"same"), ("page.html.gz", b"same"), ("page.html.br", b"same")] {
        fs::write(dir.path().join(name), content).unwrap();
        touch(dir.path(), name, 1_000_000_000);
    }
    let tag = |accepts| field(&get(&site, &format!("GET /page.html{accepts}")), "ETag").unwrap().to_owned();
    let tags = ["", "\nAccept-Encoding: gzip", "\nAccept-Encoding: br"].map(tag);
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2], "{tags:?}");
}
