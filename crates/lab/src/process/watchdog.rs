//! A process that outlives the lab by a moment: it kills a server whose lab was killed.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

/// Waits for a line; where its input ends without one, the lab is gone, and the whole group is killed. What asks
/// the server to end is not meant for it.
const SCRIPT: &str = "trap '' TERM INT HUP; read -r line || kill -s KILL 0";

/// Leads a group of processes, and watches over it until it is dropped.
///
/// It is there before the first process joins the group, so that there is no moment in which a server could be
/// left behind.
pub(super) struct Watchdog(Child);

impl Watchdog {
    /// Starts it. The kernel closes the pipe between the two however the lab ends, SIGKILL included.
    pub(super) fn start() -> io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Out of the terminal's group, so that an interrupt does not end it before the server.
        command.process_group(0).spawn().map(Watchdog)
    }

    /// The group it leads.
    pub(super) fn group(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Where it has ended already, nobody reads this, and there is nothing to wait for.
        if let Some(mut input) = self.0.stdin.take() {
            let _ = input.write_all(b"\n");
        }
        let _ = self.0.wait();
    }
}
