//! A process that outlives the lab by a moment: it kills a server whose lab was killed.

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Pid;

/// What every process of a server has in its environment, also where it has left the group.
pub(super) const MARK: &str = "PLIMSOLL_LAB_SERVER";

/// Waits for a line; where its input ends without one, the lab is gone, and whatever has the mark and the whole group are killed:
/// twice, since one of them may have started another meanwhile. What asks the server to end is not meant for it.
const SCRIPT: &str = "trap '' TERM INT HUP; read -r line || {
    for look in 1 2; do
        for file in $(grep -alsF \"$0\" /proc/[0-9]*/environ); do
            file=${file%/environ}
            kill -s KILL \"${file#/proc/}\"
        done
    done
    kill -s KILL 0
}";

/// Leads a group of processes, and watches over it until it is dropped.
///
/// It is there before the first process joins the group, so that there is no moment in which a server could be
/// left behind.
pub(super) struct Watchdog {
    child: Child,
    mark: String,
}

impl Watchdog {
    /// Starts it. The kernel closes the pipe between the two however the lab ends, SIGKILL included.
    pub(super) fn start() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}-", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT, &format!("{MARK}={mark}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Out of the terminal's group, so that an interrupt does not end it before the server.
        Ok(Watchdog { child: command.process_group(0).spawn()?, mark })
    }

    /// What a server has as [`MARK`] in its environment.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// The group it leads.
    pub(super) fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

/// The processes that have this as [`MARK`] in their environment, as far as this process may look at it.
pub(super) fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let has_it = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|row| row == wanted.as_bytes())
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(has_it).collect()
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Where it has ended already, nobody reads this, and there is nothing to wait for.
        if let Some(mut input) = self.child.stdin.take() {
            let _ = input.write_all(b"\n");
        }
        let _ = self.child.wait();
    }
}
