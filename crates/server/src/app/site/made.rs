//! What becomes of a file: its content in some coding, and the state of the file that this is.

use std::os::fd::OwnedFd;
use std::time::SystemTime;

use rustix::fs::fstat;
use rustix::io::Errno;
use wire::Coding;

use super::compress::{Compressed, Compressor, Encoded};
use super::etag;
use super::missing::Missing;
use super::representation::Content;
use super::variant::By;
use crate::file::{FileVersion, read_at};

/// Files up to this size are sent from memory: with its head, one goes out in a single send.
const SMALL: u64 = 15 * 1024;

/// How often a file is read anew that was changed while it was read.
const TRIES: usize = 4;

/// The content of a file in a coding, and the state of the file that this is.
pub(super) struct Made {
    pub(super) content: Content,
    pub(super) coding: Coding,
    pub(super) version: FileVersion,
    /// A number made of the bytes that are sent, if they are in memory.
    sum: Option<u64>,
    /// Whether it would be made the same again.
    pub(super) lasting: bool,
}

/// Why a file was not read.
enum Unread {
    /// It is in this state by now.
    Changed(FileVersion),
    Failed(Missing),
}

impl From<Errno> for Unread {
    fn from(errno: Errno) -> Self {
        Unread::Failed(errno.into())
    }
}

impl Made {
    /// A file in the coding that it is in: its content is in memory if it is small.
    pub(super) fn as_it_is(file: OwnedFd, version: FileVersion, coding: Coding) -> Result<Self, Missing> {
        let mut version = version;
        for _ in 0..TRIES {
            if version.len() > SMALL {
                let content = Content::File(file.into(), version);
                return Ok(Made { content, coding, version, sum: None, lasting: false });
            }
            match read(&file, version) {
                Ok(content) => {
                    let sum = Some(etag::sum(&content));
                    let content = Content::Memory(content.into());
                    return Ok(Made { content, coding, version, sum, lasting: true });
                }
                Err(Unread::Changed(later)) => version = later,
                Err(Unread::Failed(missing)) => return Err(missing),
            }
        }
        Err(Missing::NotNow)
    }

    /// A file compressed here, as of `now`, which is before it is read; or as it is, where the client takes that and it does not
    /// get smaller, or there is too much to do.
    pub(super) fn compressed(
        file: OwnedFd,
        version: FileVersion,
        (coding, by): (Coding, By),
        compressor: &Compressor,
        now: SystemTime,
    ) -> Result<Self, Missing> {
        let mut version = version;
        for _ in 0..TRIES {
            if !compressor.takes(version.len(), by) {
                // It was changed since the choice was made.
                break;
            }
            // Results for contents that the key may not tell apart must not be kept.
            let key = version.is_settled(now).then_some(version);
            match compressor.compress(key, coding, by, || read(&file, version)) {
                Ok(Compressed::Smaller(Encoded { bytes, sum })) => {
                    let content = Content::Memory(bytes);
                    return Ok(Made { content, coding, version, sum: Some(sum), lasting: true });
                }
                Ok(Compressed::NotSmaller) => return Made::as_it_is(file, version, Coding::Identity),
                Ok(Compressed::Busy) => break,
                Err(Unread::Changed(later)) => version = later,
                Err(Unread::Failed(missing)) => return Err(missing),
            }
        }
        match by {
            By::Force => Err(Missing::NotNow),
            _ => Ok(Made { lasting: false, ..Made::as_it_is(file, version, Coding::Identity)? }),
        }
    }

    /// The entity tag; none for a file that was not read and has not settled, since its times tell nothing then.
    pub(super) fn etag(&self, settled: bool) -> String {
        match self.sum {
            Some(sum) => etag::of_bytes(sum, self.content.len(), self.coding),
            None if settled => etag::of_state(&self.version, self.coding),
            None => String::new(),
        }
    }
}

/// Reads a file that was seen in some state. Bytes of two states must not be sent as one, nor under the name of either.
fn read(file: &OwnedFd, version: FileVersion) -> Result<Vec<u8>, Unread> {
    let mut content = vec![0; version.len() as usize];
    let read = read_at(file, &mut content, 0)?;
    let now = FileVersion::of(&fstat(file)?);
    let is_whole = read == content.len() && now.has_content_of(&version);
    if is_whole { Ok(content) } else { Err(Unread::Changed(now)) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn version(file: &OwnedFd) -> FileVersion {
        FileVersion::of(&fstat(file).unwrap())
    }

    fn content(made: &Made) -> &[u8] {
        match &made.content {
            Content::Memory(bytes) => bytes,
            Content::File(..) => panic!("it is not in memory"),
        }
    }

    #[test]
    fn a_file_that_changed_since_it_was_looked_at_is_read_in_one_state_and_named_after_that() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.txt");
        let compressor = Compressor::new(Default::default(), 1 << 20);
        for new in [String::new(), "new".into(), "n".repeat(2_000), "longer".repeat(2_000)] {
            fs::write(&path, "o".repeat(2_000)).unwrap();
            let open = || OwnedFd::from(fs::File::open(&path).unwrap());
            let (file, other) = (open(), open());
            let old = version(&file);
            // A tick of a coarse clock.
            std::thread::sleep(std::time::Duration::from_millis(20));
            fs::File::options()
                .write(true)
                .truncate(true)
                .open(&path)
                .unwrap()
                .write_all(new.as_bytes())
                .unwrap();
            let made = Made::as_it_is(file, old, Coding::Identity).unwrap();
            assert!(content(&made) == new.as_bytes());
            assert_eq!(made.version, version(&other));
            let how = (Coding::Gzip, By::Compressing);
            let gone = Made::compressed(other, old, how, &compressor, SystemTime::now());
            assert_eq!(gone.unwrap().version, made.version);
        }
    }

    #[test]
    fn what_was_made_of_a_file_that_had_not_settled_is_not_taken_for_a_later_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.txt");
        let compressor = Compressor::new(Default::default(), 1 << 20);
        fs::write(&path, "o".repeat(2_000)).unwrap();
        let open = || OwnedFd::from(fs::File::open(&path).unwrap());
        let version = version(&open());
        let make = |millis| {
            let now = version.changed() + std::time::Duration::from_millis(millis);
            Made::compressed(open(), version, (Coding::Gzip, By::Compressing), &compressor, now).unwrap()
        };
        let (early, again) = (make(999), make(999));
        let (late, kept) = (make(1_000), make(1_000));
        let same = |one: &Made, other: &Made| std::ptr::eq(content(one), content(other));
        assert!(!same(&early, &again) && !same(&early, &late) && same(&late, &kept));
    }

    #[test]
    fn what_has_grown_beyond_memory_is_left_to_the_kernel() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "line\n").unwrap();
        let file = OwnedFd::from(fs::File::open(&path).unwrap());
        let old = version(&file);
        fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        let made = Made::as_it_is(file, old, Coding::Identity).unwrap();
        assert_eq!((made.content.len(), made.lasting), (1 << 40, false));
    }

    #[test]
    fn the_tag_of_what_was_compressed_is_that_of_the_bytes_that_are_sent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.txt");
        let compressor = Compressor::new(Default::default(), 1 << 20);
        fs::write(&path, "o".repeat(2_000)).unwrap();
        for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
            let file = OwnedFd::from(fs::File::open(&path).unwrap());
            let version = version(&file);
            let how = (coding, By::Compressing);
            // Another version of a compressor would make other bytes of the same content; then for a later request, as kept.
            for later in [0, 5, 5] {
                let now = version.changed() + std::time::Duration::from_secs(later);
                let file = file.try_clone().unwrap();
                let made = Made::compressed(file, version, how, &compressor, now).unwrap();
                let (bytes, coding) = (content(&made), made.coding);
                let of_bytes = etag::of_bytes(etag::sum(bytes), bytes.len() as u64, coding);
                assert_eq!((made.etag(false), coding), (of_bytes, how.0));
            }
        }
    }
}
