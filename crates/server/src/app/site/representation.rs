//! A file as it is sent: its content in some coding, and the field lines that belong to it (RFC 9110, 3.2 and 8).

use std::hash::{DefaultHasher, Hasher};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::SystemTime;

use engine::FileRange;
use rustix::fs::fstat;
use wire::{Coding, HttpDate, Validators, put_field};

use super::compress::{Compressed, Compressor};
use super::find::Found;
use super::missing::Missing;
use super::settings::SiteSettings;
use super::variant::{By, Variant};
use crate::file::{FileVersion, read_at};
use crate::handler::{Body, Response};

/// Files up to this size are sent from memory: with its head, one goes out in a single send.
const SMALL: u64 = 15 * 1024;

/// How often a file is read anew that was changed while it was read.
const TRIES: usize = 4;

/// Any file may be there in another coding too, or be put in one for a client that takes nothing else.
const VARY: &[u8] = b"Accept-Encoding";

/// A file as it is sent.
pub(super) struct Representation {
    /// Field lines: what the content is, then what tells its states apart, and what is said with every answer.
    fields: Box<[u8]>,
    /// Where the second part of the field lines begins; a 304 has only that (RFC 9110, 15.4.5).
    about: usize,
    /// Where the last part begins, which every answer of the site has.
    every: usize,
    /// The entity tag as it is sent; empty where none can be vouched for yet.
    etag: Box<str>,
    /// The date of the last change, likewise.
    modified: Option<SystemTime>,
    /// The media type, as it is said.
    content_type: Box<str>,
    pub(super) content: Content,
    /// The state of the file that it was made of.
    version: FileVersion,
    /// The coding it was meant to be in.
    wanted: Coding,
    coding: Coding,
    /// Whether another request may be given it.
    lasting: bool,
    /// Whether it is kept for as long as the times of the file stay the same.
    settled: bool,
}

/// The content of a representation.
#[derive(Clone)]
pub(super) enum Content {
    Memory(Arc<[u8]>),
    File(Arc<OwnedFd>, FileVersion),
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        match self {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::File(_, version) => version.len(),
        }
    }

    /// All of it.
    pub(super) fn whole(&self) -> Body {
        match self {
            Content::Memory(bytes) => Body::Shared(bytes.clone()),
            Content::File(..) => self.part(0..self.len()),
        }
    }

    /// A part of it, which must lie within.
    pub(super) fn part(&self, part: std::ops::Range<u64>) -> Body {
        match self {
            Content::Memory(bytes) => Body::Slice(bytes.clone(), part.start as usize, part.end as usize),
            Content::File(file, version) => {
                let range =
                    FileRange { file: file.clone(), offset: part.start, length: part.end - part.start };
                Body::File(range, Some(*version))
            }
        }
    }
}

impl Representation {
    /// Makes one of a variant of a file, as of `now`, which is before the file was read.
    pub(super) fn build(
        variant: Variant,
        settings: &SiteSettings,
        compressor: Option<&Compressor>,
        now: SystemTime,
    ) -> Result<Self, Missing> {
        let Variant { source: Found { file, version, name }, media, coding: wanted, by } = variant;
        let made = match (by, compressor) {
            (By::Compressing | By::Force, Some(compressor)) => {
                compressed(file, version, wanted, by, compressor, now)?
            }
            _ => Made::as_it_is(file, version, wanted)?,
        };
        let Made { content, coding, version, .. } = &made;
        let settled = version.is_settled(now);
        let modified = version.has_date(now).then(|| version.modified());
        let etag = made.etag(settled);
        let mut fields = Vec::with_capacity(256);
        let content_type = media.content_type(settings.charset.as_deref());
        put(&mut fields, "Content-Type", content_type.as_bytes());
        if *coding != Coding::Identity {
            put(&mut fields, "Content-Encoding", coding.name().as_bytes());
        }
        put(&mut fields, "Accept-Ranges", b"bytes");
        let about = fields.len();
        if !etag.is_empty() {
            put(&mut fields, "ETag", etag.as_bytes());
        }
        if let Some(modified) = modified {
            put(&mut fields, "Last-Modified", HttpDate::from(modified).as_bytes());
        }
        if let Some(control) = settings.cache_control(&name) {
            put(&mut fields, "Cache-Control", control.as_bytes());
        }
        put(&mut fields, "Vary", VARY);
        let every = fields.len();
        fields.extend_from_slice(&settings.extra_fields);
        Ok(Representation {
            fields: fields.into(),
            about,
            every,
            etag: etag.into(),
            modified,
            content_type: content_type.into(),
            lasting: made.lasting && matches!(content, Content::Memory(_)),
            settled,
            version: *version,
            wanted,
            coding: *coding,
            content: made.content,
        })
    }

    /// All field lines: for the whole content, or a part of it.
    pub(super) fn fields(&self) -> &[u8] {
        &self.fields
    }

    /// The field lines without those that describe the content.
    pub(super) fn fields_without_content(&self) -> &[u8] {
        &self.fields[self.about..]
    }

    /// The field lines that every answer of the site has.
    pub(super) fn fields_of_every_answer(&self) -> &[u8] {
        &self.fields[self.every..]
    }

    /// What conditions are judged by.
    pub(super) fn validators(&self) -> Validators<'_> {
        Validators { etag: self.etag.as_bytes(), modified: self.modified }
    }

    pub(super) fn content_type(&self) -> &str {
        &self.content_type
    }

    pub(super) fn coding(&self) -> Coding {
        self.coding
    }

    /// Whether another request may be given it: it is in memory, and in the coding that it was meant to be in, if that makes
    /// it smaller.
    pub(super) fn is_lasting(&self) -> bool {
        self.lasting
    }

    /// Whether it is what would be made of a variant now.
    pub(super) fn is_still(&self, variant: &Variant) -> bool {
        // What had not settled is read again: it may be another content by now, and more can be said about it.
        self.settled && self.version == variant.source.version && self.wanted == variant.coding
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let content = match &self.content {
            Content::Memory(bytes) => bytes.len(),
            Content::File(..) => 0,
        };
        size_of::<Self>() + self.fields.len() + self.etag.len() + self.content_type.len() + content
    }

    /// Puts its content into a response that says that something went wrong: what is there is the page about the error,
    /// so nothing of it tells states apart.
    pub(super) fn put_as_error(&self, response: &mut Response) {
        put(&mut response.fields, "Content-Type", self.content_type.as_bytes());
        if self.coding != Coding::Identity {
            put(&mut response.fields, "Content-Encoding", self.coding.name().as_bytes());
        }
        put(&mut response.fields, "Vary", VARY);
        response.body = self.content.whole();
    }
}

/// What became of a file: its content in a coding, and the state of the file that this is.
struct Made {
    content: Content,
    coding: Coding,
    version: FileVersion,
    /// A number made of the content of the file that was read, if it was read.
    sum: Option<u64>,
    lasting: bool,
}

impl Made {
    /// A file in the coding that it is in: its content is in memory if it is small.
    fn as_it_is(file: OwnedFd, version: FileVersion, coding: Coding) -> Result<Self, Missing> {
        let mut version = version;
        for _ in 0..TRIES {
            if version.len() > SMALL {
                let content = Content::File(file.into(), version);
                return Ok(Made { content, coding, version, sum: None, lasting: false });
            }
            match read(&file, version)? {
                Ok(content) => {
                    let sum = Some(sum(&content));
                    let content = Content::Memory(content.into());
                    return Ok(Made { content, coding, version, sum, lasting: true });
                }
                Err(now) => version = now,
            }
        }
        Err(Missing::NotNow)
    }

    /// The entity tag, another one for each coding (RFC 9110, 8.8.3). It is strong: where the content was read it is made of
    /// that, and so the same on every host. Otherwise it is made of the file's times and length, and the times of a file that
    /// has not settled tell nothing. The change time is among them since the modification time is the same for all contents
    /// where files are made reproducibly.
    fn etag(&self, settled: bool) -> String {
        let length = self.version.len();
        let state = match self.sum {
            Some(sum) => format!("{sum:016x}-{length:x}"),
            None if settled => {
                let [modified, changed] = [self.version.modified(), self.version.changed()]
                    .map(|time| time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos());
                format!("{modified:x}-{changed:x}-{length:x}")
            }
            None => return String::new(),
        };
        match self.coding {
            Coding::Identity => format!("\"{state}\""),
            coding => format!("\"{state}-{}\"", coding.name()),
        }
    }
}

/// The content of a file in a coding, or as it is.
fn compressed(
    file: OwnedFd,
    version: FileVersion,
    coding: Coding,
    by: By,
    compressor: &Compressor,
    now: SystemTime,
) -> Result<Made, Missing> {
    let mut version = version;
    for _ in 0..TRIES {
        if !compressor.takes(version.len(), by) {
            // It was changed since the choice was made.
            break;
        }
        let content = match read(&file, version)? {
            Ok(content) => content,
            Err(now) => {
                version = now;
                continue;
            }
        };
        // Results for contents that the key may not tell apart must not be kept.
        let key = version.is_settled(now).then_some(version);
        let sum = Some(sum(&content));
        return match compressor.compress(&content, key, coding, by) {
            Compressed::Smaller(bytes) => {
                Ok(Made { content: Content::Memory(bytes), coding, version, sum, lasting: true })
            }
            Compressed::NotSmaller => Made::as_it_is(file, version, Coding::Identity),
            Compressed::Busy if by == By::Force => Err(Missing::NotNow),
            Compressed::Busy => {
                Ok(Made { lasting: false, ..Made::as_it_is(file, version, Coding::Identity)? })
            }
        };
    }
    match by {
        By::Force => Err(Missing::NotNow),
        _ => Ok(Made { lasting: false, ..Made::as_it_is(file, version, Coding::Identity)? }),
    }
}

/// Reads a file that was seen in some state; `Err` is the state that it is in now, if its content is not of that one. Bytes of
/// two states must not be sent as one, nor under the name of either.
fn read(file: &OwnedFd, version: FileVersion) -> Result<Result<Vec<u8>, FileVersion>, Missing> {
    let mut content = vec![0; version.len() as usize];
    let read = read_at(file, &mut content, 0)?;
    let now = FileVersion::of(&fstat(file)?);
    let is_whole = read == content.len() && now.has_content_of(&version);
    Ok(if is_whole { Ok(content) } else { Err(now) })
}

/// A number that tells contents apart: 64 bits, so that two states of a file have the same by the rarest of chances.
fn sum(content: &[u8]) -> u64 {
    // Without keys, so that it is the same in every process.
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    hasher.finish()
}

/// Adds a field whose name and value are made here or were checked at the start.
fn put(fields: &mut Vec<u8>, name: &str, value: &[u8]) {
    let put = put_field(fields, name, value);
    debug_assert!(put.is_ok(), "{name} has a value that breaks the message");
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
            let gone = compressed(other, old, Coding::Gzip, By::Compressing, &compressor, SystemTime::now());
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
            compressed(open(), version, Coding::Gzip, By::Compressing, &compressor, now).unwrap()
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
}
