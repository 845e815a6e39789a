//! Reading open files, and telling one state of a file from another.

use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Stat, fstat};
use rustix::io::Errno;

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileVersion {
    inode: (u64, u64),
    size: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    /// The state that a file is in. The change time is in it, since the modification time can be set back.
    pub fn of(stat: &Stat) -> Self {
        FileVersion {
            inode: (stat.st_dev, stat.st_ino),
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        u64::try_from(self.size).unwrap_or_default()
    }

    /// Whether the file has no content.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the content was changed last; 1970 for what was before.
    pub fn modified(&self) -> SystemTime {
        let (seconds, nanos) = self.modified;
        let since = Duration::new(
            u64::try_from(seconds).unwrap_or_default(),
            u32::try_from(nanos).unwrap_or_default(),
        );
        UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
    }

    /// Whether an open file is still in this state.
    pub fn still(&self, file: &OwnedFd) -> bool {
        fstat(file).is_ok_and(|stat| FileVersion::of(&stat) == *self)
    }
}

/// Reads a part of a file into a buffer: how many bytes were there.
///
/// # Errors
/// The kernel's.
pub(crate) fn read_at(file: &OwnedFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut read = 0;
    while read < buffer.len() {
        match rustix::io::pread(file, &mut buffer[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(n) => read += n,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(read)
}
