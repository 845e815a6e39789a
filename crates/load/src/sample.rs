//! What a server's processes have used, read from /proc.

mod process;
mod snapshot;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::process::{Process, tree};
use self::snapshot::Sample;
use crate::progress::Phase;

/// What a server's process tree used over a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerUse {
    /// Processor time, user and system, in seconds; also of threads and children that ended meanwhile.
    pub cpu_s: f64,
    /// `cpu_s` over the requests answered, in microseconds.
    pub cpu_us_per_request: f64,
    /// Seconds between the two looks at the server; as long as the load was measured, if all is well.
    #[serde(default)]
    pub window_s: f64,
    /// Largest resident memory of its processes, in bytes; what they share counts for each of them.
    pub peak_rss_bytes: u64,
    /// Voluntary context switches of the threads that are there at the end.
    pub voluntary_switches: u64,
    /// Involuntary context switches of the same.
    pub involuntary_switches: u64,
    /// Its threads that used the most processor time.
    #[serde(default)]
    pub threads: Vec<ThreadUse>,
    /// What it used over time.
    #[serde(default)]
    pub moments: Vec<Moment>,
}

/// What a thread used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// Its name.
    pub name: String,
    /// Share of one core that it used, 0 to 1.
    pub cpu_share: f64,
}

/// What a server used in a short while, and held at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Seconds since measuring started, at the end of the while.
    pub at_s: f64,
    /// Cores that it used: 1.5 is one and a half of them.
    pub cores: f64,
    /// Resident memory, in bytes.
    pub rss_bytes: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Voluntary context switches per second.
    pub voluntary_per_second: f64,
    /// Involuntary ones.
    pub involuntary_per_second: f64,
    /// Threads called `worker-` and something, as Plimsoll's workers are.
    #[serde(default)]
    pub workers: u64,
}

/// How often a server is looked at, as long as that is cheap.
const INTERVAL: Duration = Duration::from_millis(100);

/// A look at a server of a thousand processes takes most of that time, from the core of the load or from the server's. So what a
/// look has taken is a fiftieth of the time to the next at most.
const COST: u32 = 50;

/// Most moments that are kept: an hour's. When there are more, every other one is dropped, and less are added from then on.
const MOMENTS: usize = 36_000;

/// Looks at a server while it is loaded.
pub struct Sampler {
    pid: u32,
    from: Option<Sample>,
    last: Option<Sample>,
    until: Option<Sample>,
    interval: Duration,
    /// Processor time that the last look took.
    cost: Duration,
    moments: Vec<Moment>,
}

impl Sampler {
    /// Looks at the process with this number, its group and all their descendants.
    pub fn new(pid: u32) -> Self {
        let (interval, cost) = (INTERVAL, Duration::ZERO);
        Sampler { pid, from: None, last: None, until: None, interval, cost, moments: Vec::new() }
    }

    /// Looks, if it is time; to be called from the load's observer, with where the load is.
    pub fn look(&mut self, phase: Phase) {
        let is_time = self.last.as_ref().is_none_or(|last| last.at.elapsed() >= self.pause());
        match phase {
            Phase::Warmup => {}
            Phase::Measuring if is_time || self.from.is_none() => self.take(),
            Phase::Draining if self.until.is_none() && self.from.is_some() => {
                self.take();
                self.until.clone_from(&self.last);
            }
            Phase::Measuring | Phase::Draining => {}
        }
    }

    /// From one look to the next.
    fn pause(&self) -> Duration {
        self.interval.max(self.cost * COST)
    }

    fn take(&mut self) {
        let begun = engine::clock::of_thread();
        let now = Sample::of_tree(self.pid);
        self.cost = engine::clock::of_thread().saturating_sub(begun);
        let from = self.from.get_or_insert_with(|| now.clone());
        if let Some(last) = &self.last {
            self.moments.push(now.moment(last, from));
        }
        self.last = Some(now);
        if self.moments.len() > MOMENTS {
            let mut keep = false;
            self.moments.retain(|_| {
                keep = !keep;
                keep
            });
            self.interval *= 2;
        }
    }

    /// What was used last.
    pub fn latest(&self) -> Option<&Moment> {
        self.moments.last()
    }

    /// What was used while measuring, for so many requests; `None` if that never began or never ended.
    pub fn finish(self, requests: u64) -> Option<ServerUse> {
        let (from, until) = self.from.zip(self.until)?;
        Some(ServerUse { moments: self.moments, ..until.since(&from, requests) })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};
    use std::thread;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

    use super::*;

    /// A shell in a group of its own that is killed with all it started.
    struct Shell(Child);

    impl Shell {
        fn run(script: &str) -> Self {
            Shell(Command::new("sh").args(["-c", script]).process_group(0).spawn().unwrap())
        }

        /// Waits until the tree has this many processes.
        fn grows_to(&self, count: usize) -> bool {
            (0..500).any(|_| {
                thread::sleep(Duration::from_millis(10));
                tree(self.0.id()).len() == count
            })
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            let members = tree(self.0.id());
            kill_process_group(Pid::from_child(&self.0), Signal::KILL).unwrap();
            for member in members {
                let _ = Pid::from_raw(member.pid as i32)
                    .map(|pid| rustix::process::kill_process(pid, Signal::KILL));
            }
            self.0.wait().unwrap();
        }
    }

    /// Uses that much processor time, however long it takes.
    fn spin(time: Duration) {
        let start = engine::clock::of_thread();
        while engine::clock::of_thread().saturating_sub(start) < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn work_shows_up_in_the_difference_of_two_samples() {
        let pid = std::process::id();
        let before = Sample::of_tree(pid);
        spin(Duration::from_millis(50));
        let used = Sample::of_tree(pid).since(&before, 10);
        assert!(used.cpu_s > 0.005 && used.window_s >= 0.05, "{used:?}");
        assert!((used.cpu_us_per_request - used.cpu_s * 1e5).abs() < 1e-6, "{used:?}");
        assert!(used.peak_rss_bytes > 100_000, "{used:?}");
    }

    #[test]
    fn looking_takes_a_fiftieth_of_a_core_at_most() {
        let mut sampler = Sampler::new(std::process::id());
        let before = engine::clock::of_thread();
        sampler.look(Phase::Measuring);
        let cost = engine::clock::of_thread().saturating_sub(before);
        assert!(sampler.cost > Duration::ZERO && sampler.cost <= cost);
        sampler.cost = Duration::from_millis(1);
        assert_eq!(sampler.pause(), INTERVAL);
        // A thousand processes.
        sampler.cost = Duration::from_millis(80);
        assert_eq!(sampler.pause(), Duration::from_secs(4));
        let begun = Instant::now();
        sampler.look(Phase::Measuring);
        assert!(sampler.moments.is_empty() || begun.elapsed() > Duration::from_secs(3), "it was not time");
        // The end is looked at in any case.
        sampler.look(Phase::Draining);
        assert!(sampler.finish(1).is_some());
    }

    #[test]
    fn workers_are_counted_by_their_names() {
        let pid = std::process::id();
        let from = Sample::of_tree(pid);
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
        let started = std::sync::Arc::new(std::sync::Barrier::new(4));
        let threads = ["worker-0-1", "worker-12", "tuner"].map(|name| {
            let (wait, started) = (wait.clone(), started.clone());
            let run = move || {
                started.wait();
                let _ = wait.lock().map(|wait| wait.recv());
            };
            thread::Builder::new().name(name.into()).spawn(run).unwrap()
        });
        started.wait();
        let moment = Sample::of_tree(pid).moment(&from, &from);
        drop(end);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(moment.workers, 2);
    }

    #[test]
    fn threads_that_have_ended_take_nothing_with_them() {
        let pid = std::process::id();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        // It used more before it was looked at than after, and is gone when it is looked at again.
        let old = thread::spawn(move || {
            spin(Duration::from_millis(100));
            ready.send(()).unwrap();
            wait.recv().unwrap();
            spin(Duration::from_millis(8));
        });
        is_ready.recv().unwrap();
        let before = Sample::of_tree(pid);
        go.send(()).unwrap();
        old.join().unwrap();
        // These were never seen.
        for _ in 0..4 {
            thread::spawn(|| spin(Duration::from_millis(2))).join().unwrap();
        }
        let used = Sample::of_tree(pid).since(&before, 1);
        assert!(used.cpu_s >= 0.016, "{used:?}");
    }

    #[test]
    fn children_that_have_ended_count_before_they_are_waited_for_and_after() {
        let pid = std::process::id();
        let before = Sample::of_tree(pid);
        let count = "i=0; while [ $i -lt 500000 ]; do i=$((i+1)); done";
        let mut child = Command::new("sh").args(["-c", count]).spawn().unwrap();
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&child)), ended).unwrap();
        let unnoticed = Sample::of_tree(pid).since(&before, 1);
        assert!(!tree(pid).iter().any(|process| process.pid == child.id()), "it no longer runs");
        child.wait().unwrap();
        let noticed = Sample::of_tree(pid).since(&before, 1);
        assert!(unnoticed.cpu_s > 0.05 && noticed.cpu_s > 0.05, "{unnoticed:?} {noticed:?}");
    }

    #[test]
    fn children_belong_to_the_tree_even_if_they_leave_the_group_or_lose_their_parent() {
        let leaver = Shell::run("setsid sleep 60 & exec sleep 60");
        assert!(leaver.grows_to(2));
        let orphan = Shell::run("(sleep 60 & sleep 60 &); exec sleep 60");
        assert!(orphan.grows_to(3));
    }

    #[test]
    fn what_has_ended_no_longer_runs() {
        let shell = Shell::run("exec sleep 60");
        assert!(shell.grows_to(1));
        let process = tree(shell.0.id())[0];
        assert!(process.runs());
        drop(shell);
        assert!(!process.runs());
    }
}
