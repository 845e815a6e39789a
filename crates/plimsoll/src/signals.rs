//! SIGTERM and SIGINT: the first asks for an orderly end, the second ends at once. SIGHUP: log files are to be opened anew.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use engine::Stop;
use nix::sys::signal::{SigSet, Signal};

/// Signals that are watched for, and kept until somebody says what they stop.
pub struct Watch {
    signals: SigSet,
    hangup: Box<dyn Fn() + Send>,
}

impl Watch {
    /// Watches from now on, on this thread and those it starts: so before any other, that no signal is missed.
    ///
    /// The signals are blocked and waited for (sigwait(3)), which takes no descriptor and cannot fail.
    ///
    /// # Errors
    /// The kernel does not know the signals.
    pub fn start() -> io::Result<Self> {
        Self::of([Signal::SIGTERM, Signal::SIGINT])
    }

    /// The same, and SIGHUP, which otherwise ends a process.
    ///
    /// # Errors
    /// The kernel does not know the signals.
    pub fn start_with_hangup() -> io::Result<Self> {
        Self::of([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])
    }

    fn of(signals: impl IntoIterator<Item = Signal>) -> io::Result<Self> {
        let signals = SigSet::from_iter(signals);
        signals.thread_block()?;
        Ok(Watch { signals, hangup: Box::new(|| ()) })
    }

    /// What to do at each SIGHUP.
    pub fn on_hangup(self, hangup: impl Fn() + Send + 'static) -> Self {
        Watch { hangup: Box::new(hangup), ..self }
    }

    /// Waits for the next signal that asks for an end.
    pub fn wait(&self) -> Signal {
        loop {
            match self.signals.wait() {
                Ok(Signal::SIGHUP) => (self.hangup)(),
                Ok(signal) => return signal,
                // It fails only for a set that makes no sense.
                Err(_) => {}
            }
        }
    }

    /// Sets `stop` at the first signal, after telling `announce` its name; ends the process at the second.
    pub fn then_stop(self, stop: Stop, announce: impl FnOnce(&str) + Send + 'static) {
        thread::spawn(move || {
            let signal = self.wait();
            // Whatever becomes of the announcement, the stop must come.
            let _ = catch_unwind(AssertUnwindSafe(|| announce(signal.as_str())));
            stop.set();
            let signal = self.wait();
            // Nobody may be left to listen.
            let _ = writeln!(io::stderr(), "stopped at once: {}", signal.as_str());
            std::process::exit(1);
        });
    }
}
