//! Entity tags, which tell the states of a file apart, and the codings of each (RFC 9110, 8.8.3). All of them are strong.

use std::hash::{DefaultHasher, Hasher};
use std::time::SystemTime;

use wire::Coding;

use crate::file::FileVersion;

/// A number that tells contents apart: 64 bits, so that two states of a file have the same by the rarest of chances.
pub(super) fn sum(content: &[u8]) -> u64 {
    // Without keys, so that it is the same in every process.
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    hasher.finish()
}

/// The tag of the bytes that are sent, by their sum: the same wherever the same bytes are sent. What was compressed is told
/// apart by what came of it, since another version of a compressor makes other bytes of the same content, which a client must
/// not join with these.
pub(super) fn of_bytes(sum: u64, length: u64, coding: Coding) -> String {
    quoted(&format!("{sum:016x}-{length:x}"), coding)
}

/// The tag of a file that was not read, by which file it is, its times and its length. The change time is among them since the
/// modification time is the same for all contents where files are made reproducibly; and the file itself, since two that take
/// each other's place may have been made in one tick of the clock.
pub(super) fn of_state(version: &FileVersion, coding: Coding) -> String {
    let (device, number) = version.inode();
    let [modified, changed] = [version.modified(), version.changed()]
        .map(|time| time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos());
    quoted(&format!("{device:x}-{number:x}-{modified:x}-{changed:x}-{:x}", version.len()), coding)
}

fn quoted(state: &str, coding: Coding) -> String {
    match coding {
        Coding::Identity => format!("\"{state}\""),
        coding => format!("\"{state}-{}\"", coding.name()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::OwnedFd;

    use rustix::fs::fstat;

    use super::*;

    #[test]
    fn files_that_were_made_at_the_same_moment_have_tags_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let mut stats = ["one", "two"].map(|name| {
            let file = fs::File::create(dir.path().join(name)).unwrap();
            fstat(OwnedFd::from(file)).unwrap()
        });
        let [one, two] = &mut stats;
        // As if both had been made in the same tick of the clock.
        (two.st_mtime, two.st_mtime_nsec) = (one.st_mtime, one.st_mtime_nsec);
        (two.st_ctime, two.st_ctime_nsec) = (one.st_ctime, one.st_ctime_nsec);
        let tags = stats.map(|stat| of_state(&FileVersion::of(&stat), Coding::Identity));
        assert_ne!(tags[0], tags[1]);
    }
}
