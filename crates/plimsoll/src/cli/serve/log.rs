//! Flags of the access log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use server::log::{AccessLog, Destination, Format};

/// The access log.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Access log")]
pub(super) struct LogFlags {
    /// File for a line about each request, opened anew on SIGHUP; - for the standard output. Requests never wait for it:
    /// lines that cannot be written in time are dropped and counted [default: none]
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// How a line looks
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "combined")]
    log_format: LogFormat,
    /// Send X-Request-Id with every answer, and log it as JSON: the client's own, or one that is made here
    #[arg(long)]
    pub(super) request_id: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    /// As Apache and nginx write it, with the time in UTC
    Combined,
    /// A JSON object, with the microseconds that the request took
    Json,
}

impl LogFlags {
    /// The file of the log, if it has one.
    pub(super) fn file(&self) -> Option<&Path> {
        self.access_log.as_deref().filter(|path| *path != Path::new("-"))
    }

    /// Starts the log, for a server whose connections belong to so many threads.
    pub(super) fn start(&self, threads: usize) -> anyhow::Result<Option<Arc<AccessLog>>> {
        let Some(path) = &self.access_log else { return Ok(None) };
        let to = match self.file() {
            Some(path) => Destination::File(path.into()),
            None => Destination::Stdout,
        };
        let format = match self.log_format {
            LogFormat::Combined => Format::Combined,
            LogFormat::Json => Format::Json,
        };
        let log = AccessLog::start(to, format, threads)
            .with_context(|| format!("cannot write --access-log {}", path.display()))?;
        Ok(Some(log))
    }
}
