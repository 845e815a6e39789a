//! Going on in the background: the program starts itself again, detached, and waits until that one serves.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;

use super::say;

/// Tells the program that it is the one in the background.
const IN_BACKGROUND: &str = "PLIMSOLL_IN_BACKGROUND";

/// What the program says when it serves.
const SERVES: &str = "listening on ";

/// Whether this process was started by [`start`].
pub(super) fn is_in_background() -> bool {
    std::env::var_os(IN_BACKGROUND).is_some()
}

/// Starts this program again in the background with the same arguments, and returns when that one serves or has ended.
/// A fork would do with less, were it not for the threads that it does not take along.
pub(super) fn start() -> anyhow::Result<ExitCode> {
    let mut child = Command::new(super::own_program()?)
        .args(std::env::args_os().skip(1))
        .env(IN_BACKGROUND, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start in the background")?;
    let Some(said) = child.stderr.take() else { anyhow::bail!("the background process cannot be heard") };
    for line in BufReader::new(said).lines() {
        let line = line?;
        say!("{line}");
        if line.starts_with(SERVES) {
            say!("in the background as process {}; stop it with: kill {}", child.id(), child.id());
            return Ok(ExitCode::SUCCESS);
        }
    }
    let status = child.wait()?;
    Ok(status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(code as u8)))
}

/// In the background, leaves the session of the terminal, and says nothing any more: nobody may be left to listen.
pub(super) fn let_go_of_the_terminal() -> io::Result<()> {
    if !is_in_background() {
        return Ok(());
    }
    // A session of its own, which has no terminal: what is typed there, and its end, are for others.
    rustix::process::setsid()?;
    let nowhere = fs::OpenOptions::new().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stderr(&nowhere)?)
}

/// A file with the number of this process; removed when it is dropped.
pub(super) struct PidFile(Option<PathBuf>);

impl PidFile {
    /// Writes the file, if one is wanted.
    pub(super) fn write(path: Option<PathBuf>) -> anyhow::Result<Self> {
        if let Some(path) = &path {
            fs::write(path, format!("{}\n", std::process::id()))
                .with_context(|| format!("cannot write --pid-file {}", path.display()))?;
        }
        Ok(PidFile(path))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Somebody else may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}
