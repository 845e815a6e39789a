//! In the background: it says where it serves, goes on without a terminal, and stops like any other.

use std::fs;
use std::net::SocketAddr;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::common::{Client, failed, plimsoll, site, until};

#[test]
fn it_serves_in_the_background_until_it_is_stopped() {
    let site = site();
    let pid_file = site.path().join("pid");
    let mut command = plimsoll();
    command.arg("serve").arg(site.path()).args(["--listen", "127.0.0.1:0", "--daemonize", "--pid-file"]);
    let output = command.arg(&pid_file).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let url = said.lines().find_map(|line| line.strip_prefix("listening on http://")).unwrap();
    let address: SocketAddr = url.trim_end_matches('/').parse().unwrap();
    let pid: i32 = fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    assert!(said.contains(&format!("in the background as process {pid}")), "{said}");
    assert_eq!(Client::connect(address).get("/1k.html").status, 200);
    // A session of its own, whose terminal is none.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    assert_eq!((fields[3], fields[4]), (pid.to_string().as_str(), "0"), "session and terminal: {stat}");

    let pid = Pid::from_raw(pid).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    until("it has ended", || test_kill_process(pid).is_err() || !pid_file.exists());
    assert!(!pid_file.exists());
}

#[test]
fn what_keeps_it_from_serving_is_said_before_it_leaves() {
    let (status, said) = failed(plimsoll().args(["serve", "/no/such/dir", "--daemonize"]));
    assert_eq!((status, said.lines().count()), (2, 1), "{said}");
    assert!(said.starts_with("plimsoll: cannot serve /no/such/dir"), "{said}");
    let site = site();
    let mut command = plimsoll();
    command.arg("serve").arg(site.path()).args(["--listen", "127.0.0.1:0", "--daemonize"]);
    let (status, said) = failed(command.args(["--pid-file", "/no/such/dir/pid"]));
    assert!(status == 1 && said.contains("/no/such/dir/pid") && !said.contains("listening on"), "{said}");
}

#[test]
fn an_explanation_is_for_the_terminal() {
    let output = plimsoll().args(["serve", "--daemonize", "--explain"]).output().unwrap();
    assert!(output.status.success() && !output.stdout.is_empty());
}
