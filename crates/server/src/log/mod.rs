//! The access log: a line for each request, written by a thread of its own, that no request ever waits for.

mod address;
mod first_line;
mod json;
mod line;
mod writer;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

pub(crate) use line::{Logger, Note};

use crate::striped::Striped;

/// Most bytes of lines that wait to be written, for each thread; further lines are dropped and counted.
const MOST_WAITING: usize = 1024 * 1024;

/// Once as many bytes wait the writer is woken before its time.
const MANY_WAITING: usize = 64 * 1024;

/// How long the end waits for lines to be written of which not one byte is taken: into a pipe that nobody reads, they never
/// would be.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The combined log format of Apache and nginx, with the time in UTC.
    Combined,
    /// A JSON object.
    Json,
}

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The end of a file, which is made if it is not there.
    File(PathBuf),
    /// The standard output.
    Stdout,
}

/// A line for each request, on its way to a file.
#[derive(Debug)]
pub struct AccessLog {
    format: Format,
    /// Lines that wait to be written.
    waiting: Striped<Vec<u8>>,
    dropped: AtomicU64,
    /// Lines that are being written.
    in_hand: AtomicU64,
    /// Bytes that were written.
    written: AtomicU64,
    reopen: AtomicBool,
    finished: AtomicBool,
    /// The thread that writes.
    writer: OnceLock<Thread>,
    /// Disconnected when that thread has ended.
    ended: Mutex<Option<Receiver<()>>>,
}

impl AccessLog {
    /// Starts the log of a server whose connections belong to so many threads.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread cannot be started.
    pub fn start(to: Destination, format: Format, threads: usize) -> io::Result<Arc<Self>> {
        let output = writer::Output::open(to)?;
        let log = Arc::new(AccessLog {
            format,
            waiting: Striped::new(threads, |_| Vec::new()),
            dropped: AtomicU64::new(0),
            in_hand: AtomicU64::new(0),
            written: AtomicU64::new(0),
            reopen: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            writer: OnceLock::new(),
            ended: Mutex::default(),
        });
        let (of_writer, (end, ended)) = (log.clone(), channel());
        let thread = std::thread::Builder::new().name("access-log".into()).spawn(move || {
            writer::run(&of_writer, output);
            drop::<std::sync::mpsc::Sender<()>>(end);
        })?;
        let _ = log.writer.set(thread.thread().clone());
        *log.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        Ok(log)
    }

    /// Opens the file anew, after it was moved away. What waits is written to the new one.
    pub fn reopen(&self) {
        self.reopen.store(true, Ordering::Release);
        self.wake_writer();
    }

    /// Writes what waits, and ends the thread. Where nothing is taken any more, the lines are given up: a server is not kept
    /// from stopping by who reads its log.
    pub fn finish(&self) {
        self.finished.store(true, Ordering::Release);
        self.wake_writer();
        let Some(ended) = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let mut written = self.written.load(Ordering::Acquire);
        while ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let now = self.written.load(Ordering::Acquire);
            if now == written {
                return self.give_up();
            }
            written = now;
        }
    }

    /// Counts what could not be written. The thread waits on; it ends with the process.
    fn give_up(&self) {
        let waiting: u64 = self.waiting.all().map(|lines| writer::lines_in(&lines)).sum();
        let lost = waiting + self.in_hand.load(Ordering::Acquire);
        self.dropped.fetch_add(lost, Ordering::Relaxed);
        tracing::warn!(lost, "nobody takes the lines of the access log: the last ones are lost");
    }

    /// Lines that were lost: they came faster than they could be written, or writing failed.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Adds a line, made by `put`, of at most so many bytes; or drops it, if too many wait.
    fn add(&self, thread: usize, most: usize, put: impl FnOnce(&mut Vec<u8>)) {
        let mut lines = self.waiting.of(thread);
        let before = lines.len();
        if before + most > MOST_WAITING {
            drop(lines);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        put(&mut lines);
        if before < MANY_WAITING && lines.len() >= MANY_WAITING {
            drop(lines);
            self.wake_writer();
        }
    }

    fn wake_writer(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }
}
