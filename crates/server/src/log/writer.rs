//! The thread that writes the lines of an access log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{AccessLog, Destination};

/// How long a line waits at most, if the file takes it.
const INTERVAL: Duration = Duration::from_millis(100);

/// How often it is said that lines cannot be written.
const COMPLAINS: Duration = Duration::from_secs(60);

/// Where the lines go.
pub(super) struct Output {
    to: Destination,
    file: Box<dyn Write + Send>,
    /// The last line was only written in part.
    torn: bool,
    complained: Option<Instant>,
}

/// Writes until the log is finished.
pub(super) fn run(log: &AccessLog, mut output: Output) {
    let mut lines = Vec::new();
    loop {
        let finished = log.finished.load(Ordering::Acquire);
        if log.reopen.swap(false, Ordering::AcqRel) {
            output.reopen();
        }
        for mut waiting in log.waiting.all() {
            std::mem::swap(&mut *waiting, &mut lines);
            drop(waiting);
            if lines.is_empty() {
                continue;
            }
            log.in_hand.store(lines_in(&lines), Ordering::Release);
            let lost = output.write(&lines);
            log.in_hand.store(0, Ordering::Release);
            log.dropped.fetch_add(lost, Ordering::Relaxed);
            log.written.fetch_add(lines.len() as u64, Ordering::Release);
            lines.clear();
        }
        if finished {
            return;
        }
        std::thread::park_timeout(INTERVAL);
    }
}

/// How many lines end in some bytes.
pub(super) fn lines_in(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

impl Output {
    pub(super) fn open(to: Destination) -> io::Result<Self> {
        Ok(Output { file: open(&to)?, to, torn: false, complained: None })
    }

    fn reopen(&mut self) {
        match open(&self.to) {
            Ok(file) => (self.file, self.torn) = (file, false),
            Err(error) => {
                tracing::warn!(%error, to = ?self.to, "the access log cannot be opened again; the old file is used on");
            }
        }
    }

    /// Writes lines: how many of them were lost. A full disk must not end anything but them.
    fn write(&mut self, lines: &[u8]) -> u64 {
        // The rest of a line that was torn stays on a line of its own.
        let end = if self.torn { self.write_all(b"\n").1 } else { Ok(()) };
        let (written, result) = match end {
            Ok(()) => self.write_all(lines),
            failed => (0, failed),
        };
        if let Err(error) = result {
            self.torn |= written > 0 && !lines[..written].ends_with(b"\n");
            self.complain(&error);
        } else {
            self.torn = false;
        }
        lines_in(&lines[written..])
    }

    /// Writes as much as can be: how much that is, and why no more.
    fn write_all(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while written < bytes.len() {
            match self.file.write(&bytes[written..]) {
                Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }

    fn complain(&mut self, error: &io::Error) {
        if self.complained.is_none_or(|at| at.elapsed() >= COMPLAINS) {
            self.complained = Some(Instant::now());
            tracing::warn!(%error, to = ?self.to, "lines of the access log are lost; requests are served on");
        }
    }
}

fn open(to: &Destination) -> io::Result<Box<dyn Write + Send>> {
    Ok(match to {
        Destination::File(path) => Box::new(OpenOptions::new().append(true).create(true).open(path)?),
        // Not std's own, which holds lines back.
        Destination::Stdout => Box::new(File::from(rustix::io::dup(rustix::stdio::stdout())?)),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A disk with room for so many bytes.
    struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (content, room) = &mut *self.0.lock().unwrap();
            let n = bytes.len().min(room.saturating_sub(content.len()));
            if n == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            content.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_loses_lines_and_counts_them_and_goes_on_when_there_is_room() {
        let disk = Arc::new(Mutex::new((Vec::new(), 14)));
        let mut output = Output {
            to: Destination::Stdout,
            file: Box::new(Disk(disk.clone())),
            torn: false,
            complained: None,
        };
        assert_eq!(output.write(b"first\n"), 0);
        assert_eq!(output.write(b"second\nthird\nfourth\n"), 2 + 1 - 1);
        assert_eq!(output.write(b"fifth\n"), 1);
        disk.lock().unwrap().1 = 100;
        assert_eq!(output.write(b"sixth\n"), 0);
        let content = String::from_utf8(disk.lock().unwrap().0.clone()).unwrap();
        assert_eq!(content, "first\nsecond\nt\nsixth\n");
    }
}
