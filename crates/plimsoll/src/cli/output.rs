//! Where results and remarks go: standard output and standard error, of which either may be gone.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write, stdout};
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

/// Prints a result as text, or as JSON where that is wanted with `-`; where a file is named the JSON goes there as well.
///
/// # Errors
/// It cannot be written.
pub(super) fn give(json: Option<&str>, result: &impl Serialize, text: &str) -> anyhow::Result<()> {
    let Some(file) = json else { return print(text) };
    let json = serde_json::to_string_pretty(result)? + "\n";
    if file == "-" {
        return print(json);
    }
    fs::write(file, json).with_context(|| format!("cannot write {file}"))?;
    print(text)
}

/// Writes a file that somebody depends on: it is the old one until it is the new one, whole. What is no plain file, such as
/// `/dev/stdout`, is written as it is.
///
/// # Errors
/// It cannot be written, as on a full disk; what was there before is there still.
pub(super) fn replace(file: &Path, text: &str) -> io::Result<()> {
    // Where it is a link, what it leads to is replaced.
    let file = &fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if fs::metadata(file).is_ok_and(|meta| !meta.is_file()) {
        return fs::write(file, text);
    }
    let mut name = file.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".part");
    let part = file.with_file_name(name);
    let put = |mut file: File| file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let written = File::create(&part).and_then(put).and_then(|()| fs::rename(&part, file));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

/// A file for a result that takes its time: opened before, so that one that cannot be written costs no work. What it has is kept
/// until there is something to put in its place.
pub(super) struct Destination {
    name: PathBuf,
    file: File,
}

impl Destination {
    /// Opens the file, if one is wanted.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn open(name: Option<impl AsRef<Path>>) -> anyhow::Result<Option<Self>> {
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
    pub(super) fn write(mut self, text: &str) -> anyhow::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_old_one_or_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("plimsoll.toml");
        replace(&file, "old").unwrap();
        replace(&file, "new").unwrap();
        let holds = |file: &Path| fs::read_to_string(file).unwrap();
        assert_eq!((holds(&file).as_str(), fs::read_dir(dir.path()).unwrap().count()), ("new", 1));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, "by its link").unwrap();
        assert!(link.is_symlink() && holds(&file) == "by its link");
        // Something is in the way of the part, as where the disk is full.
        fs::create_dir(dir.path().join("plimsoll.toml.part")).unwrap();
        assert!(replace(&file, "newest").is_err() && holds(&file) == "by its link");
        replace(Path::new("/dev/null"), "x").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
