//! A file as it is sent: its content in some coding, and the field lines that belong to it (RFC 9110, 3.2 and 8).

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use engine::FileRange;
use wire::{Coding, HttpDate, Validators, put_field};

use super::compress::{Compressed, Compressor};
use super::find::Found;
use super::media::Media;
use super::missing::Missing;
use super::settings::SiteSettings;
use super::variant::{By, Variant};
use crate::file::{FileVersion, read_at};
use crate::handler::{Body, Response};

/// Files up to this size are sent from memory: with its head, one goes out in a single send.
const SMALL: u64 = 15 * 1024;

/// A file that was changed less than this ago may change again without its times showing it.
const SETTLED: Duration = Duration::from_secs(1);

/// A file as it is sent.
pub(super) struct Representation {
    /// Field lines: what the content is, then what tells its states apart, and what is said with every answer.
    fields: Box<[u8]>,
    /// Where the second part of the field lines begins; a 304 has only that (RFC 9110, 15.4.5).
    about: usize,
    /// Where the last part begins, which every answer of the site has.
    every: usize,
    /// The entity tag as it is sent.
    etag: Box<str>,
    modified: SystemTime,
    pub(super) media: Media,
    pub(super) content: Content,
    /// The state of the file that it was made of.
    version: FileVersion,
    /// The coding it was meant to be in.
    wanted: Coding,
    coding: Coding,
    /// Whether another request may be given it.
    lasting: bool,
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
    /// Makes one of a variant of a file.
    pub(super) fn build(
        variant: Variant,
        settings: &SiteSettings,
        compressor: Option<&Compressor>,
        now: SystemTime,
    ) -> Result<Self, Missing> {
        let Variant { source: Found { file, version, name }, media, coding: wanted, by, varies } = variant;
        let (coding, content, steady) = match (by, compressor) {
            (By::Compressing | By::Force, Some(compressor)) => {
                compressed(file, version, wanted, by, compressor)?
            }
            _ => {
                let (content, steady) = read(file, version)?;
                (wanted, content, steady)
            }
        };
        let settled = now.duration_since(version.modified()).is_ok_and(|age| age >= SETTLED);
        let etag = entity_tag(version, if by == By::Source { Coding::Identity } else { coding }, settled);
        let mut fields = Vec::with_capacity(256);
        put(&mut fields, "Content-Type", media.content_type().as_bytes());
        if coding != Coding::Identity {
            put(&mut fields, "Content-Encoding", coding.name().as_bytes());
        }
        put(&mut fields, "Accept-Ranges", b"bytes");
        let about = fields.len();
        put(&mut fields, "ETag", etag.as_bytes());
        // RFC 9110, 8.8.2.1: no later than the moment of the answer.
        if version.modified() <= now {
            put(&mut fields, "Last-Modified", HttpDate::from(version.modified()).as_bytes());
        }
        if let Some(control) = settings.cache_control(&name) {
            put(&mut fields, "Cache-Control", control.as_bytes());
        }
        if varies {
            put(&mut fields, "Vary", b"Accept-Encoding");
        }
        let every = fields.len();
        fields.extend_from_slice(&settings.extra_fields);
        Ok(Representation {
            fields: fields.into(),
            about,
            every,
            etag: etag.into(),
            modified: version.modified(),
            media,
            lasting: steady && matches!(content, Content::Memory(_)),
            content,
            version,
            wanted,
            coding,
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
        Validators { etag: self.etag.as_bytes(), modified: Some(self.modified) }
    }

    pub(super) fn coding(&self) -> Coding {
        self.coding
    }

    /// Whether another request may be given it: it is in memory, and what was read is one state of the file.
    pub(super) fn is_lasting(&self) -> bool {
        self.lasting
    }

    /// Whether it is what would be made of a variant now.
    pub(super) fn is_still(&self, variant: &Variant) -> bool {
        // A weak tag can become a strong one by now.
        !self.etag.starts_with("W/")
            && self.version == variant.source.version
            && self.wanted == variant.coding
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let content = match &self.content {
            Content::Memory(bytes) => bytes.len(),
            Content::File(..) => 0,
        };
        size_of::<Self>() + self.fields.len() + self.etag.len() + content
    }

    /// Puts its content into a response that says that something went wrong: what is there is the page about the error,
    /// so nothing of it tells states apart.
    pub(super) fn put_as_error(&self, response: &mut Response) {
        put(&mut response.fields, "Content-Type", self.media.content_type().as_bytes());
        if self.coding != Coding::Identity {
            put(&mut response.fields, "Content-Encoding", self.coding.name().as_bytes());
        }
        if self.media.compressible {
            put(&mut response.fields, "Vary", b"Accept-Encoding");
        }
        response.body = self.content.whole();
    }
}

/// The content of a file: in memory if it is small; and whether it is one state of the file.
fn read(file: OwnedFd, version: FileVersion) -> Result<(Content, bool), Missing> {
    if version.len() > SMALL {
        return Ok((Content::File(file.into(), version), true));
    }
    let (content, steady) = read_whole(&file, version)?;
    Ok((Content::Memory(content.into()), steady))
}

/// The content of a file in a coding, or as it is.
fn compressed(
    file: OwnedFd,
    version: FileVersion,
    coding: Coding,
    by: By,
    compressor: &Compressor,
) -> Result<(Coding, Content, bool), Missing> {
    let (content, steady) = read_whole(&file, version)?;
    // Bytes of no one state must not be kept as the compressed form of that state.
    match (steady, by) {
        (true, _) => {}
        (false, By::Force) => return Err(Missing::Exhausted),
        (false, _) => return Ok((Coding::Identity, Content::Memory(content.into()), false)),
    }
    Ok(match compressor.compress(&content, version, coding, by) {
        Compressed::Smaller(bytes) => (coding, Content::Memory(bytes), steady),
        Compressed::NotSmaller => {
            let (content, steady) = read(file, version)?;
            (Coding::Identity, content, steady)
        }
        Compressed::Busy if by == By::Force => return Err(Missing::Exhausted),
        Compressed::Busy => {
            let (content, _) = read(file, version)?;
            (Coding::Identity, content, false)
        }
    })
}

/// Reads a file; and whether it was in the same state all the while. One that grows is read as far as it was.
fn read_whole(file: &OwnedFd, version: FileVersion) -> Result<(Vec<u8>, bool), Missing> {
    let mut content = vec![0; version.len() as usize];
    let read = read_at(file, &mut content, 0)?;
    content.truncate(read);
    Ok((content, version.still(file)))
}

/// RFC 9110, 8.8.3: strong once the file has been left alone long enough for its times to tell; another one for each
/// coding that is made here. A file that was compressed beforehand has times of its own.
fn entity_tag(version: FileVersion, coding: Coding, settled: bool) -> String {
    let weak = if settled { "" } else { "W/" };
    let modified = version.modified().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let length = version.len();
    match coding {
        Coding::Identity => format!("{weak}\"{modified:x}-{length:x}\""),
        coding => format!("{weak}\"{modified:x}-{length:x}-{}\"", coding.name()),
    }
}

/// Adds a field whose name and value are made here or were checked at the start.
fn put(fields: &mut Vec<u8>, name: &str, value: &[u8]) {
    let put = put_field(fields, name, value);
    debug_assert!(put.is_ok(), "{name} has a value that breaks the message");
}
