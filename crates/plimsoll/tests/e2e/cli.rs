//! The command line: what is wrong is said in one line, with the right exit status.

use std::net::TcpListener;

use crate::common::{Server, failed, plimsoll, site};

/// Runs the program, which must fail: its exit status and what it said.
fn failure(args: &[&str]) -> (i32, String) {
    failed(plimsoll().args(args))
}

#[test]
fn what_cannot_be_served_is_said_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    for (args, said) in [
        (
            &["serve", "/no/such/dir"][..],
            "plimsoll: cannot serve /no/such/dir: give a readable directory: No such file or directory (os error 2)\n",
        ),
        (
            &["serve", "--reactors", "0"],
            "plimsoll: --reactors 0: must be at least 1; for threads that own connections use --model thread-pool\n",
        ),
        (&["serve", "--connections", "0"], "plimsoll: --connections 0: must be at least 1\n"),
        (
            &["serve", "--model", "reactor", "--reactors", "2"],
            "plimsoll: --reactors 2: --model reactor has one; for several use --model multi-reactor or reuseport\n",
        ),
        (
            &["serve", "--header-bytes", "1MiB"],
            "plimsoll: --header-bytes 1.0 MiB: must be 64 B to 16.0 KiB\n",
        ),
        (
            &["serve", "--header-timeout", "0s"],
            "plimsoll: --header-timeout 0s: must be longer; nothing could be served\n",
        ),
        (&["serve", "--backlog", "0"], "plimsoll: --backlog 0: must be at least 1\n"),
        (
            &["bench", "https://x/"],
            "plimsoll: URL \"https://x/\": https is not spoken yet; give an http:// URL\n",
        ),
        (&["bench", "http://x/", "-c", "0"], "plimsoll: connections 0: must be at least 1\n"),
        (
            &["lab", "run", "/no/such.toml"],
            "plimsoll: /no/such.toml: No such file or directory (os error 2)\n",
        ),
    ] {
        assert_eq!(failure(args), (2, said.to_string()), "{args:?}");
    }
    let (code, said) = failure(&["serve", file.to_str().unwrap()]);
    assert!(code == 2 && said.ends_with("Not a directory (os error 20)\n"), "{code}: {said}");
}

#[test]
fn flags_that_are_almost_right_are_helped() {
    for (args, hint) in [
        (&["serve", "--reactor", "2"][..], "'--reactors'"),
        (&["serve", "--model", "multireactor"], "'multi-reactor'"),
        (&["serve", "--idle-timeout", "soon"], "--idle-timeout"),
        (&["lab", "run", "model"], "did you mean \"models\"?"),
        (&["servo"], "'serve'"),
    ] {
        let (code, said) = failure(args);
        assert!(code == 2 && said.contains(hint), "{args:?}: {code}: {said}");
        assert!(said.starts_with("plimsoll: ") && said.lines().count() == 1, "{args:?}: {said}");
    }
}

#[test]
fn a_taken_port_is_a_failed_run_and_not_bad_usage() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    for model in ["reactor", "multi-reactor", "reuseport"] {
        let (code, said) = failure(&["serve", "/tmp", "--listen", &listen, "--model", model]);
        let expected = format!(
            "plimsoll: cannot listen on {listen}: choose another with --listen ADDRESS:PORT: Address already in use (os error 98)\n"
        );
        assert_eq!((code, said), (1, expected), "{model}");
    }
}

#[test]
fn a_thread_that_cannot_start_is_not_blamed_on_the_address() {
    let here = engine::host::processors()[0];
    // The process may run on the first of them; no host has the other.
    let cpus = format!("{here},1023");
    let (code, said) = failure(&[
        "serve",
        "/tmp",
        "--listen",
        "127.0.0.1:0",
        "--model",
        "reuseport",
        "--reactors",
        "2",
        "--cpus",
        &cpus,
    ]);
    let expected =
        "plimsoll: cannot start the server's threads: processor 1023: Invalid argument (os error 22)\n";
    assert_eq!((code, said.as_str()), (1, expected));
}

#[test]
fn what_is_explained_is_what_would_be_served() {
    let (code, said) = failure(&["serve", "--explain", "--header-bytes", "1B"]);
    assert_eq!((code, said.as_str()), (2, "plimsoll: --header-bytes 1 B: must be 64 B to 16.0 KiB\n"));
    let (code, said) =
        failure(&["serve", "--explain", "--model", "reactor-pool", "--queue-capacity", "1000000000000"]);
    assert_eq!(
        (code, said.as_str()),
        (2, "plimsoll: --queue-capacity 1000000000000: must be 1 to 1048576\n")
    );
    let flags = ["--model", "reactor", "--in-flight", "/=1", "--queue-delay", "1s", "--work-mode", "spin"];
    let output = plimsoll().args(["serve", "--explain"]).args(flags).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let warned: Vec<&str> = said.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(
        (output.status.code(), warned),
        (Some(0), vec!["--in-flight", "--queue-delay", "--work-mode"]),
        "{said}"
    );
}

#[test]
fn two_servers_do_not_share_a_port_unnoticed() {
    let site = site();
    let first = Server::start(site.path(), &["--model", "reuseport", "--reactors", "2"]);
    let listen = first.address.to_string();
    let (code, _) =
        failure(&["serve", "/tmp", "--listen", &listen, "--model", "reuseport", "--reactors", "2"]);
    assert_eq!(code, 1);
    first.stop();
}

#[test]
fn it_says_what_it_chose_and_why() {
    let site = site();
    let server = Server::start(site.path(), &["--reactors", "3"]);
    let said = server.said.clone();
    server.stop();
    for (setting, value, why) in [
        ("cores", "", "in the affinity mask"),
        ("model", "auto", "the default"),
        ("reactors", "3", "--reactors"),
        ("driver", "epoll", "the model's"),
        ("spread", "reuseport", "the model's"),
        ("offload", "measured", "the model's"),
        ("connections", "per reactor", ""),
        ("files", "beneath the root", ""),
    ] {
        let line = said.lines().find(|line| line.trim_start().starts_with(setting)).unwrap_or_default();
        assert!(line.contains(value) && line.contains(why), "{setting}: {said}");
    }
}

#[test]
fn a_reader_that_leaves_is_content_and_a_full_disk_is_said() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = plimsoll().args(["lab", "list"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = plimsoll().args(["lab", "list"]).stdout(full).output().unwrap();
    let said = "plimsoll: cannot write to the standard output: No space left on device (os error 28)\n";
    assert_eq!(
        (output.status.code(), String::from_utf8(output.stderr).unwrap()),
        (Some(1), said.to_string())
    );
}
