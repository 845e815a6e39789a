//! Files that change while a server sends them to a real client, and a root that is made anew.

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size;

use crate::common::{Client, Server, large, site, until};

/// One for each way to wait for a socket.
const DRIVERS: [&[&str]; 4] = [
    &["--model", "reactor"],
    &["--model", "reuseport-pool"],
    &["--model", "thread-pool"],
    &["--model", "proactor"],
];

/// What comes of a large file if this is done to it when a part of it has come.
fn sent_while(flags: &[&str], change: impl Fn(&Path)) -> Vec<u8> {
    let site = site();
    let server = Server::start(site.path(), flags);
    let mut client = server.connect();
    // So that the rest does not fit in between, and the server is in the middle of it.
    set_socket_recv_buffer_size(&client.0, 64 * 1024).unwrap();
    let head = client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n").head_of_answer();
    assert_eq!(head.field("Content-Length"), Some((20 << 20).to_string().as_str()));
    let mut body = vec![0; 100_000];
    client.0.read_exact(&mut body).unwrap();
    change(&site.path().join("large.bin"));
    if body_is_cut(&mut client, &mut body) {
        assert_eq!(server.connect().get("/1k.html").status, 200);
    }
    // Otherwise the server would let it read on for a while.
    drop(client);
    server.stop();
    body
}

/// Reads up to the end of the body, or of the connection before it.
fn body_is_cut(client: &mut Client, body: &mut Vec<u8>) -> bool {
    let mut buffer = vec![0; 1 << 20];
    while body.len() < 20 << 20 {
        match client.0.read(&mut buffer) {
            Ok(n @ 1..) => body.extend_from_slice(&buffer[..n]),
            Ok(0) | Err(_) => return true,
        }
    }
    false
}

#[test]
fn a_file_that_is_replaced_or_removed_in_the_middle_of_an_answer_is_sent_on_as_it_was() {
    for flags in DRIVERS {
        let replaced = sent_while(flags, |path| {
            fs::write(path.with_extension("new"), "another").unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        });
        let removed = sent_while(flags, |path| fs::remove_file(path).unwrap());
        assert!(replaced == large() && removed == large(), "{flags:?}");
    }
}

#[test]
fn a_file_that_is_changed_in_the_middle_of_an_answer_is_not_brought_to_its_end() {
    let open = |path: &Path| fs::File::options().write(true).open(path).unwrap();
    for flags in DRIVERS {
        let overwritten = sent_while(flags, |path| open(path).write_all_at(b"!", 19 << 20).unwrap());
        let grown = sent_while(flags, |path| open(path).write_all_at(b"!", 20 << 20).unwrap());
        let cut_short = sent_while(flags, |path| open(path).set_len(10 << 20).unwrap());
        for (what, body) in [("overwritten", overwritten), ("grown", grown), ("cut short", cut_short)] {
            assert!(body.len() < 20 << 20, "{flags:?}: {what}, and sent to its end");
        }
    }
}

/// Puts another directory in the place of the root, and asks for its page until it is there, or for long enough.
fn is_followed(server: &Server, root: &Path, expected: bool) -> bool {
    fs::remove_dir_all(root).unwrap();
    fs::create_dir(root).unwrap();
    fs::write(root.join("page.html"), "new").unwrap();
    let is_new = || server.connect().get("/page.html").text() == "new";
    if expected {
        until("the new directory is served", is_new);
        return true;
    }
    // It is looked for four times a second.
    (0..30).any(|_| {
        thread::sleep(Duration::from_millis(25));
        is_new()
    })
}

#[test]
fn the_start_says_truly_whether_the_process_is_restricted_to_the_directory() {
    // What the kernel has is found out in a thread, which the restriction ends with.
    let kernel = thread::spawn(|| {
        use landlock::{AccessFs, Ruleset, RulesetAttr, RulesetStatus};
        let ruleset = Ruleset::default().handle_access(AccessFs::Execute).unwrap().create().unwrap();
        ruleset.restrict_self().unwrap().ruleset != RulesetStatus::NotEnforced
    });
    let kernel = kernel.join().unwrap();
    let dir = tempfile::tempdir().unwrap();
    for when in ["auto", "off"] {
        let root = dir.path().join(when);
        fs::create_dir(&root).unwrap();
        fs::write(root.join("page.html"), "old").unwrap();
        let server = Server::start(&root, &["--sandbox", when]);
        let line = server.said.lines().find(|line| line.trim_start().starts_with("sandbox")).unwrap();
        let line = line.trim_start().strip_prefix("sandbox").unwrap().trim_start().to_owned();
        let restricts = line.starts_with("on ") || line.starts_with("in part ");
        assert_eq!(restricts, kernel && when == "auto", "{line}");
        let reason = match (kernel, when) {
            (_, "off") => "--sandbox off",
            (true, _) => root.to_str().unwrap(),
            (false, _) => "this kernel has no Landlock",
        };
        assert!(line.contains(reason), "{line}");
        // A restricted process cannot open a directory that was not there when it started.
        assert_eq!(server.connect().get("/page.html").text(), "old");
        assert_eq!(is_followed(&server, &root, !restricts), !restricts, "{line}");
        let said = server.stop();
        assert_eq!(said.contains("--sandbox off"), restricts, "{said}");
    }
}
