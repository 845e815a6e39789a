//! Small files in memory, one cache per thread, each entry looked at again after a second.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;
use rustix::fs::Stat;

/// Files up to this size are kept: with its head, one goes out in a single send.
pub(crate) const SMALL: u64 = 15 * 1024;

/// Entries per thread; with [`SMALL`] this bounds the memory of one cache to 15 MiB and the entries' heads.
const ENTRIES: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// How long an entry is believed before the file is looked at again.
const FRESH: Duration = Duration::from_secs(1);

/// The small files that one thread served last, by request path.
pub(crate) struct Cache {
    entries: LruCache<Box<str>, Entry>,
}

/// A file in memory.
pub(crate) struct Entry {
    /// Its field lines, ready to be copied into a response.
    pub(crate) fields: Box<[u8]>,
    /// Its content.
    pub(crate) content: Arc<[u8]>,
    version: FileVersion,
    checked: Instant,
}

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileVersion {
    inode: (u64, u64),
    size: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    /// The state that a file is in. The change time is in it, since the modification time can be set back.
    pub(crate) fn of(stat: &Stat) -> Self {
        FileVersion {
            inode: (stat.st_dev, stat.st_ino),
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }
}

impl Default for Cache {
    fn default() -> Self {
        Cache { entries: LruCache::new(ENTRIES) }
    }
}

impl Cache {
    /// The file of a request path, if it was looked at less than a second ago.
    pub(crate) fn fresh(&mut self, path: &str, now: Instant) -> Option<&Entry> {
        self.entries.get(path).filter(|entry| now.saturating_duration_since(entry.checked) < FRESH)
    }

    /// The file of a request path, if it is still in the state that `version` says.
    pub(crate) fn still(&mut self, path: &str, version: FileVersion, now: Instant) -> Option<&Entry> {
        let entry = self.entries.get_mut(path).filter(|entry| entry.version == version)?;
        entry.checked = now;
        Some(entry)
    }

    /// Keeps a file, in place of the one that has gone unused the longest.
    pub(crate) fn keep(
        &mut self,
        path: &str,
        fields: &[u8],
        content: Arc<[u8]>,
        version: FileVersion,
        now: Instant,
    ) {
        self.entries.put(path.into(), Entry { fields: fields.into(), content, version, checked: now });
    }
}
