//! Where results and remarks go: standard output and standard error, of which either may be gone.

use std::fmt::Display;
use std::fs::File;
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

/// Prints a result. Who reads only its beginning, as `head` does, is content with it.
///
/// # Errors
/// It cannot be written, as on a full disk: half a result must not pass for a whole one.
pub(super) fn print(text: impl Display) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to the standard output")
        }
        _ => Ok(()),
    }
}

/// Where a result that takes its time goes beside the standard output: files that are opened before, so that one that cannot be
/// written costs no work.
pub(super) struct Files {
    json: Option<Destination>,
    page: Option<Destination>,
    /// The JSON is printed in place of the text.
    prints_json: bool,
}

impl Files {
    /// Opens those that are wanted: one for the JSON, which is printed where that is `-`, and one for a page.
    ///
    /// # Errors
    /// One of them cannot be written.
    pub(super) fn open(json: Option<&str>, page: Option<&Path>) -> anyhow::Result<Self> {
        let prints_json = json == Some("-");
        let json = Destination::open(json.filter(|_| !prints_json))?;
        Ok(Files { json, page: Destination::open(page)?, prints_json })
    }

    /// Prints a result, and puts it where else it goes. First what is seen: a disk that is full by now must not cost it.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn give(
        self,
        result: &impl Serialize,
        text: impl FnOnce() -> anyhow::Result<String>,
        page: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        let json = || Ok::<_, anyhow::Error>(serde_json::to_string_pretty(result)? + "\n");
        print(if self.prints_json { json()? } else { text()? })?;
        if let Some(file) = self.json {
            file.write(&json()?)?;
        }
        self.page.map_or(Ok(()), |file| file.write(&page()))
    }
}

/// A file that is open. What it has is kept until there is something to put in its place.
struct Destination {
    name: PathBuf,
    file: File,
}

impl Destination {
    /// Opens the file, if one is wanted.
    ///
    /// # Errors
    /// It cannot be written.
    fn open(name: Option<impl AsRef<Path>>) -> anyhow::Result<Option<Self>> {
        let Some(name) = name else { return Ok(None) };
        let name = name.as_ref().to_path_buf();
        let file = File::options().write(true).create(true).truncate(false).open(&name);
        let file = file.with_context(|| format!("cannot write {}", name.display()))?;
        Ok(Some(Destination { name, file }))
    }

    /// Puts the result there.
    ///
    /// # Errors
    /// It cannot be written, as on a full disk.
    fn write(mut self, text: &str) -> anyhow::Result<()> {
        // A terminal or a pipe has no length.
        let is_file = self.file.metadata().is_ok_and(|metadata| metadata.is_file());
        let emptied = if is_file { self.file.set_len(0) } else { Ok(()) };
        emptied
            .and_then(|()| self.file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {}", self.name.display()))
    }
}

/// Says something on the standard error. Nobody may be left to listen, which must not end anything: `eprintln` would panic.
macro_rules! say {
    ($($what:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($what)*)));
    }};
}
pub(crate) use say;
