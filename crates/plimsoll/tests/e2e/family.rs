//! Processes of a test: a mark in their environment, which all that they start inherit, however they are called and whoever
//! their parent is by then.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The variable that is the mark.
const MARK: &str = "PLIMSOLL_TEST_FAMILY";

/// Marks what a command will start as belonging to a test, by a directory of it.
pub(crate) fn mark<'a>(command: &'a mut Command, test: &Path) -> &'a mut Command {
    command.env(MARK, test)
}

/// The command lines of all processes with that mark that run.
pub(crate) fn members(test: &Path) -> Vec<String> {
    let mark = format!("{MARK}={}", test.display());
    let found = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        // What has ended has no environment any more, and other users' is not shown.
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let is_marked = environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes());
        let line = is_marked.then(|| fs::read(entry.path().join("cmdline")).unwrap_or_default())?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    found.collect()
}

/// Whether a server of ours is among them.
pub(crate) fn serves(test: &Path) -> bool {
    members(test).iter().any(|line| line.contains(" serve ") && line.contains(" --listen "))
}
