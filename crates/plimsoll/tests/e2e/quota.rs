//! Limits of the host that change while the server runs: it follows, and no request notices.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;

use crate::common::{Client, PATIENCE, Server, output_of, plimsoll, site, until};

/// Every way in which reactors come by their connections.
const MODELS: [&[&str]; 5] = [
    &["--model", "auto"],
    &["--model", "multi-reactor"],
    &["--model", "reuseport", "--spread", "shared"],
    &["--model", "proactor"],
    &["--model", "proactor", "--spread", "acceptor"],
];

/// Clients that keep their connection, and those that come anew for each request.
const STEADY: usize = 8;
const COMING: usize = 2;

fn command(root: &Path, flags: &[&str]) -> Command {
    let mut command = plimsoll();
    command.arg("serve").arg(root).args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]).args(flags);
    command
}

/// Keeps a server busy while `change` runs; each request is answered.
fn under_load(server: &Server, change: impl FnOnce()) {
    let (over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    // Also where the test fails, so that the clients end.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let ask = |client: &mut Client| {
        assert_eq!(client.get("/1k.html").status, 200);
        answered.fetch_add(1, Ordering::Relaxed);
    };
    thread::scope(|scope| {
        let _over = Over(&over);
        for _ in 0..STEADY {
            scope.spawn(|| {
                let mut client = server.connect();
                while !over.load(Ordering::Relaxed) {
                    ask(&mut client);
                }
            });
        }
        for _ in 0..COMING {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    ask(&mut server.connect());
                }
            });
        }
        until("it is busy", || answered.load(Ordering::Relaxed) > 100);
        change();
        let then = answered.load(Ordering::Relaxed);
        until("it is busy still", || answered.load(Ordering::Relaxed) > then + 100);
    });
    assert!(server.sample("reason=\"connections_full\"").ends_with(" 0"));
}

/// Waits until so many reactors work.
fn until_working(server: &Server, reactors: u64) {
    until(format_args!("{reactors} reactors work"), || {
        server.metrics()["reactors_working"].as_u64() == Some(reactors)
    });
}

/// Connections that a reactor has.
fn open(server: &Server, reactor: usize) -> u64 {
    server.metrics()["threads"][reactor]["connections_open"].as_u64().unwrap()
}

/// Lets every thread of a server run on these processors.
fn put_on(server: &Server, processors: &CpuSet) {
    for thread in fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap() {
        let id = thread.unwrap().file_name().into_string().unwrap().parse().unwrap();
        // It may have ended meanwhile.
        let _ = sched_setaffinity(Pid::from_raw(id), processors);
    }
}

#[test]
fn reactors_follow_the_affinity_mask() {
    let all = sched_getaffinity(None).unwrap();
    let count = u64::from(all.count()).min(1024);
    if count < 2 {
        eprintln!("skipped: this host has a single processor");
        return;
    }
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|processor| all.is_set(*processor)).unwrap());
    let site = site();
    for flags in MODELS {
        let mut command = command(site.path(), flags);
        command.env("PLIMSOLL_LOG", "info");
        let server = Server::spawn(command);
        until_working(&server, count);
        under_load(&server, || {
            put_on(&server, &one);
            until_working(&server, 1);
            until("who rests has nobody", || (1..count as usize).all(|rests| open(&server, rests) <= 1));
            put_on(&server, &all);
            until_working(&server, count);
        });
        let said = server.stop();
        assert!(said.contains("the number of reactors follows"), "{flags:?}: {said}");
    }
}

/// A control group for a test.
struct Group(PathBuf);

impl Group {
    /// One in which a controller's limits can be set; `None` where there can be none, which is said.
    fn new(controller: &str, file: [&str; 2]) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let nth = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plimsoll-test-{controller}-{}-{nth}", std::process::id());
        // Version 2, and version 1.
        for (root, file) in [(root.to_path_buf(), file[0]), (root.join(controller), file[1])] {
            let group = root.join(&name);
            if root.join("cgroup.procs").exists() && fs::create_dir(&group).is_ok() {
                let group = Group(group);
                if group.0.join(file).exists() {
                    return Some(group);
                }
            }
        }
        eprintln!("skipped: no cgroup with the controller {controller} can be made here");
        None
    }

    /// At most so many processors.
    fn set_processors(&self, quota: f64) {
        let us = (quota * 100_000.0) as u64;
        let path = self.0.join("cpu.max");
        let (path, text) = match path.exists() {
            true => (path, format!("{us} 100000")),
            false => (self.0.join("cpu.cfs_quota_us"), us.to_string()),
        };
        fs::write(path, text).unwrap();
    }

    /// At most so much memory, in bytes.
    fn set_memory(&self, bytes: u64) {
        let path = self.0.join("memory.max");
        let path = if path.exists() { path } else { self.0.join("memory.limit_in_bytes") };
        fs::write(path, bytes.to_string()).unwrap();
    }

    /// Bytes that its processes have, without the page cache.
    fn memory(&self) -> u64 {
        let stat = fs::read_to_string(self.0.join("memory.stat")).unwrap();
        let of = |name| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        of("anon ").or_else(|| of("total_rss ")).unwrap()
    }

    /// A command that runs in it.
    fn around(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        inside.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.0.join("cgroup.procs"));
        inside.arg(command.get_program()).args(command.get_args());
        inside
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes may not be gone for good yet.
        let start = Instant::now();
        while fs::remove_dir(&self.0).is_err() && start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn reactors_follow_the_quota_of_the_cgroup() {
    if sched_getaffinity(None).unwrap().count() < 2 {
        eprintln!("skipped: this host has a single processor");
        return;
    }
    let Some(group) = Group::new("cpu", ["cpu.max", "cpu.cfs_quota_us"]) else { return };
    let site = site();
    for flags in MODELS {
        group.set_processors(1.0);
        let server = Server::spawn(group.around(&command(site.path(), flags)));
        assert!(server.said.contains("cgroup quota of 1.00"), "{}", server.said);
        until_working(&server, 1);
        under_load(&server, || {
            group.set_processors(1.5);
            until_working(&server, 2);
            until("the second has somebody", || open(&server, 1) > 0);
            group.set_processors(0.8);
            until_working(&server, 1);
            until("who rests has nobody", || open(&server, 1) <= 1);
        });
        server.stop();
    }
}

#[test]
fn of_a_part_of_a_processor_nothing_is_left_once_that_part_is_in_use() {
    let Some(group) = Group::new("cpu", ["cpu.max", "cpu.cfs_quota_us"]) else { return };
    let site = site();
    group.set_processors(0.5);
    let flags = ["--model", "reactor", "--workloads"];
    let server = Server::spawn(group.around(&command(site.path(), &flags)));
    let mut client = server.connect();
    let in_use = || {
        let headroom = &server.metrics()["headroom"];
        let shares = headroom["in_use"].as_array().unwrap();
        shares.iter().find(|share| share[0] == "processors").unwrap()[1].as_f64().unwrap()
    };
    until("nearly all of it is in use", || {
        assert_eq!(client.get("/work?spin=300ms").status, 200);
        in_use() > 0.8
    });
    server.stop();
}

/// A process that holds as much memory as it is given, and nothing else.
struct Hog(Child);

impl Hog {
    fn start(group: &Group) -> Self {
        // It keeps the last line until it ends.
        let mut hog = group.around(&Command::new("tail"));
        Hog(hog.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn feed(&mut self, mib: usize) {
        let input = self.0.stdin.as_mut().unwrap();
        (0..mib).for_each(|_| input.write_all(&[b'x'; 1 << 20]).unwrap());
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn memory_that_runs_out_is_noticed_before_the_kernel_ends_somebody() {
    let Some(group) = Group::new("memory", ["memory.max", "memory.limit_in_bytes"]) else { return };
    let (site, limit) = (site(), 256 << 20);
    group.set_memory(limit);
    // More descriptors than memory, so that this bounds the connections.
    let mut asked = command(site.path(), &["--model", "reactor"]);
    asked.arg("--explain");
    let said = output_of(&mut group.around(&asked));
    if engine::host::descriptor_limit().is_none_or(|limit| limit > 5000) {
        assert!(said.contains("half of the memory (256.0 MiB, limit of the cgroup)"), "{said}");
    }
    for model in ["reactor", "multi-reactor", "proactor", "auto"] {
        let flags = ["--model", model, "--connections", "100"];
        let server = Server::spawn(group.around(&command(site.path(), &flags)));
        let mut idle = server.connect();
        assert_eq!(idle.get("/1k.html").status, 200);
        let mut hog = Hog::start(&group);
        while group.memory() < limit / 100 * 92 {
            let missing = (limit / 100 * 92).saturating_sub(group.memory()) >> 20;
            hog.feed((missing as usize / 2).max(1));
            // What it was given has come to it, and to the statistics, a little later.
            thread::sleep(Duration::from_millis(20));
        }
        assert!(idle.rest().is_empty(), "{model}: who is idle goes");
        let made_room = |thread: &Value| thread["http"]["idle_made_room"].as_u64().unwrap();
        let threads = server.metrics()["threads"].as_array().unwrap().clone();
        assert_eq!(threads.iter().map(made_room).sum::<u64>(), 1, "{model}");
        let mut waiting = Vec::new();
        until(format_args!("{model} pauses"), || {
            waiting.push(server.connect());
            waiting.last_mut().unwrap().send("GET /1k.html HTTP/1.1\r\nHost: a\r\n\r\n");
            server.metrics()["accept_pauses"].as_u64().unwrap() > 0
        });
        assert!(
            server.sample("resource=\"memory\"").split(' ').next_back().unwrap().parse::<f64>().unwrap()
                > 0.8
        );
        drop(hog);
        waiting.iter_mut().for_each(|client| assert_eq!(client.answer().status, 200, "{model}"));
        server.stop();
    }
}
