//! SIGTERM and SIGINT: the first asks for an orderly end, the second ends at once.

use std::io;
use std::thread;

use engine::Stop;
use nix::sys::signal::{SigSet, Signal};

/// Signals that are watched for, and kept until somebody says what they stop.
pub struct Watch(SigSet);

impl Watch {
    /// Watches from now on, on this thread and those it starts: so before any other, that no signal is missed.
    ///
    /// The signals are blocked and waited for (sigwait(3)), which takes no descriptor and cannot fail.
    ///
    /// # Errors
    /// The kernel does not know the signals.
    pub fn start() -> io::Result<Self> {
        let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
        signals.thread_block()?;
        Ok(Watch(signals))
    }

    /// Waits for the next of them.
    pub fn wait(&self) -> Signal {
        loop {
            // It fails only for a set that makes no sense.
            if let Ok(signal) = self.0.wait() {
                return signal;
            }
        }
    }

    /// Sets `stop` at the first signal, after telling `announce` its name; ends the process at the second.
    pub fn then_stop(self, stop: Stop, announce: impl FnOnce(&str) + Send + 'static) {
        thread::spawn(move || {
            announce(self.wait().as_str());
            stop.set();
            eprintln!("stopped at once: {}", self.wait().as_str());
            std::process::exit(1);
        });
    }
}
