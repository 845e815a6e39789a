//! SIGTERM and SIGINT: the first asks for an orderly end, the second ends at once.

use std::io;
use std::thread;

use engine::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Signals that are watched for, and kept until somebody says what they stop.
pub(super) struct Watch(Signals);

impl Watch {
    /// Watches from now on. Before other threads start, so that no signal is missed.
    ///
    /// # Errors
    /// The kernel refuses the pipe that this needs.
    pub(super) fn start() -> io::Result<Self> {
        Signals::new([SIGTERM, SIGINT]).map(Watch)
    }

    /// Sets `stop` at the first signal, after telling `announce` its name; ends the process at the second.
    pub(super) fn then_stop(self, stop: Stop, announce: impl FnOnce(&str) + Send + 'static) {
        let Watch(mut signals) = self;
        thread::spawn(move || {
            let mut signals = signals.forever();
            if let Some(signal) = signals.next() {
                announce(name(signal));
                stop.set();
            }
            if let Some(signal) = signals.next() {
                eprintln!("stopped at once: {}", name(signal));
                std::process::exit(1);
            }
        });
    }
}

fn name(signal: i32) -> &'static str {
    if signal == SIGINT { "SIGINT" } else { "SIGTERM" }
}
