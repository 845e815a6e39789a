//! Reading open files, and telling one state of a file from another.

use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Stat, fstat};
use rustix::io::Errno;

/// A file that was changed less than this ago may change again without its times showing it: a clock's tick is some
/// milliseconds, and a single write(2) stamps a file when it begins, not when it ends.
const SETTLED: Duration = Duration::from_secs(1);

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileVersion {
    inode: (u64, u64),
    /// Names that it has; their number tells why the change time is another one.
    links: u64,
    size: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    /// The state that a file is in. The change time is in it, since the modification time can be set back.
    pub fn of(stat: &Stat) -> Self {
        FileVersion {
            inode: (stat.st_dev, stat.st_ino),
            // As wide as the architecture has it.
            #[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "its width differs")]
            links: stat.st_nlink as u64,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }

    /// Which file it is: the device that it is on, and its number there.
    pub(crate) fn inode(&self) -> (u64, u64) {
        self.inode
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        u64::try_from(self.size).unwrap_or_default()
    }

    /// Whether the file has no content.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the content was changed last; 1970 for what was before. Whoever may write the file may set it to anything.
    pub fn modified(&self) -> SystemTime {
        time(self.modified)
    }

    /// When anything about the file was changed last, by the kernel's clock: nobody can set this.
    pub fn changed(&self) -> SystemTime {
        time(self.changed)
    }

    /// Whether the times of a file that is in this state at `now` would show any later change of its content.
    pub(crate) fn is_settled(&self, now: SystemTime) -> bool {
        now.duration_since(self.changed()).is_ok_and(|age| age >= SETTLED)
    }

    /// Whether its date, which has no parts of a second (RFC 9110, 8.8.2), is that of no later state too. 0 and 1 are what
    /// reproducible builds put in the place of a date.
    pub(crate) fn has_date(&self, now: SystemTime) -> bool {
        self.modified.0 > 1 && now.duration_since(self.modified()).is_ok_and(|age| age >= SETTLED)
    }

    /// Whether an open file still has the content that it had in this state.
    pub fn still(&self, file: &OwnedFd) -> bool {
        fstat(file).is_ok_and(|stat| FileVersion::of(&stat).has_content_of(self))
    }

    /// Whether the content is the same as in an earlier state. Removing a file, and renaming another over it, change its change
    /// time and nothing in it; they leave it with fewer names. Any other change of that time may be one of the content, whose
    /// modification time was set back.
    pub(crate) fn has_content_of(&self, earlier: &FileVersion) -> bool {
        (self.inode, self.size, self.modified) == (earlier.inode, earlier.size, earlier.modified)
            && (self.changed == earlier.changed || self.links < earlier.links)
    }
}

/// A time as the kernel has it; 1970 for what was before.
fn time((seconds, nanos): (i64, i64)) -> SystemTime {
    let since =
        Duration::new(u64::try_from(seconds).unwrap_or_default(), u32::try_from(nanos).unwrap_or_default());
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn state(file: &OwnedFd) -> FileVersion {
        FileVersion::of(&fstat(file).unwrap())
    }

    #[test]
    fn taking_a_name_from_a_file_leaves_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("file"), dir.path().join("other"));
        fs::write(&path, "content").unwrap();
        fs::hard_link(&path, dir.path().join("second")).unwrap();
        let file = OwnedFd::from(fs::File::open(&path).unwrap());
        for what in ["replaced", "removed"] {
            let before = state(&file);
            match what {
                "replaced" => {
                    fs::write(&other, "another").unwrap();
                    fs::rename(&other, &path).unwrap();
                }
                _ => fs::remove_file(dir.path().join("second")).unwrap(),
            }
            assert!(before.still(&file), "{what}");
        }
    }

    #[test]
    fn a_changed_content_shows_though_the_modification_time_is_set_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "content").unwrap();
        let file = fs::File::options().read(true).write(true).open(&path).unwrap();
        let at = UNIX_EPOCH + Duration::from_secs(784_111_777);
        file.set_modified(at).unwrap();
        let open = OwnedFd::from(file.try_clone().unwrap());
        let before = state(&open);
        assert!(before.still(&open));
        // On kernels before 6.13 a tick of the clock, which is at most 10 ms, has to pass for the change to show.
        std::thread::sleep(Duration::from_millis(20));
        fs::write(&path, "CONTENT").unwrap();
        file.set_modified(at).unwrap();
        assert_eq!(state(&open).modified(), at);
        assert!(!before.still(&open));
        // Another name, as `cp -al` gives it, does not hide it.
        fs::hard_link(&path, dir.path().join("second")).unwrap();
        assert!(!before.still(&open));
    }

    #[test]
    fn a_file_settles_by_the_kernels_clock_and_has_a_date_by_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let file = fs::File::create(dir.path().join("file")).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(784_111_777)).unwrap();
        let version = state(&OwnedFd::from(file));
        let after = |millis| version.changed() + Duration::from_millis(millis);
        assert!(!version.is_settled(after(999)) && version.is_settled(after(1000)));
        // A clock that was set back says nothing.
        assert!(!version.is_settled(version.changed() - Duration::from_secs(5)));
        assert!(
            version.has_date(after(0)) && !version.has_date(version.modified() + Duration::from_millis(999))
        );
    }
}
