//! Where results and remarks go: standard output and standard error, of which either may be gone.

use std::fmt::Display;
use std::fs;
use std::io::{ErrorKind, Write, stdout};

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

/// Says something on the standard error. Nobody may be left to listen, which must not end anything: `eprintln` would panic.
macro_rules! say {
    ($($what:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($what)*)));
    }};
}
pub(crate) use say;
