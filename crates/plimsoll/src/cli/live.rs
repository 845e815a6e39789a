//! A line on the terminal that says how far a command is, written over each time; nothing where nobody watches.

use std::io::{IsTerminal, Write, stderr};

/// What clears the line.
const CLEAR: &str = "\r\x1b[K";

/// The line; it is gone when the command has ended, well or not.
pub(super) struct LiveLine {
    watched: bool,
}

impl LiveLine {
    pub(super) fn new() -> Self {
        LiveLine { watched: stderr().is_terminal() }
    }

    /// Writes it anew.
    pub(super) fn show(&self, line: &str) {
        if self.watched {
            // Where the terminal is gone there is nobody to tell.
            let _ = write!(stderr(), "{CLEAR}{line}");
            let _ = stderr().flush();
        }
    }

    /// Writes a line that stays, watched or not.
    pub(super) fn keep(&self, line: &str) {
        let _ = writeln!(stderr(), "{}{line}", if self.watched { CLEAR } else { "" });
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        self.show("");
    }
}
