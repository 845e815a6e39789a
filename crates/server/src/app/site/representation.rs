//! A file as it is sent: its content in some coding, and the field lines that belong to it (RFC 9110, 3.2 and 8).

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::SystemTime;

use engine::FileRange;
use wire::{Coding, HttpDate, Status, Validators, put_field};

use super::compress::{Compressed, Compressor, Encoded};
use super::etag;
use super::find::Found;
use super::made::Made;
use super::missing::Missing;
use super::settings::SiteSettings;
use super::variant::{By, Variant, Wish};
use crate::file::FileVersion;
use crate::handler::{Body, Response};

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
    coding: Coding,
    /// Whether another request may be given it.
    lasting: bool,
    /// The state of the file that it was made of, and the coding that it was meant to be in, if it stays the same for as long
    /// as these do.
    made_of: Option<(FileVersion, Coding)>,
}

/// What is said about content.
struct Said<'a> {
    content_type: String,
    etag: String,
    modified: Option<SystemTime>,
    cache_control: Option<&'a str>,
    vary: &'static [u8],
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
                Made::compressed(file, version, (wanted, by), compressor, now)?
            }
            _ => Made::as_it_is(file, version, wanted)?,
        };
        let version = made.version;
        // What had not settled is read again: it may be another content by then, and more can be said about it.
        let settled = version.is_settled(now);
        let said = Said {
            content_type: media.content_type(settings.charset.as_deref()),
            etag: made.etag(settled),
            modified: version.has_date(now).then(|| version.modified()),
            cache_control: settings.cache_control(&name),
            vary: VARY,
        };
        let lasting = made.lasting && matches!(made.content, Content::Memory(_));
        let made_of = settled.then_some((version, wanted));
        let representation = Representation::new(made.content, made.coding, said, settings);
        Ok(Representation { lasting, made_of, ..representation })
    }

    /// Makes one of a page that was made here, in a type chosen by Accept, for a client with such a wish.
    pub(super) fn of_page(
        page: Vec<u8>,
        content_type: &str,
        wish: Wish,
        settings: &SiteSettings,
        compressor: Option<&Compressor>,
    ) -> Result<Self, Missing> {
        let (coding, by) = wish.choose(page.len() as u64, compressor)?;
        let compressed = match compressor {
            Some(compressor) if by != By::Source => {
                compressor.compress(None, coding, by, || Ok::<_, Missing>(&page))?
            }
            _ => Compressed::NotSmaller,
        };
        let (lasting, coding, bytes, sum) = match compressed {
            Compressed::Smaller(Encoded { bytes, sum }) => (true, coding, bytes, sum),
            Compressed::Busy if by == By::Force => return Err(Missing::NotNow),
            Compressed::Busy => (false, Coding::Identity, page.as_slice().into(), etag::sum(&page)),
            Compressed::NotSmaller => (true, Coding::Identity, page.as_slice().into(), etag::sum(&page)),
        };
        let said = Said {
            content_type: content_type.to_owned(),
            etag: etag::of_bytes(sum, bytes.len() as u64, coding),
            modified: None,
            cache_control: Some("no-cache"),
            vary: b"Accept, Accept-Encoding",
        };
        let representation = Representation::new(Content::Memory(bytes), coding, said, settings);
        Ok(Representation { lasting, ..representation })
    }

    fn new(content: Content, coding: Coding, said: Said<'_>, settings: &SiteSettings) -> Self {
        let mut fields = Vec::with_capacity(256);
        put(&mut fields, "Content-Type", said.content_type.as_bytes());
        if coding != Coding::Identity {
            put(&mut fields, "Content-Encoding", coding.name().as_bytes());
        }
        put(&mut fields, "Accept-Ranges", b"bytes");
        let about = fields.len();
        if !said.etag.is_empty() {
            put(&mut fields, "ETag", said.etag.as_bytes());
        }
        if let Some(modified) = said.modified {
            put(&mut fields, "Last-Modified", HttpDate::from(modified).as_bytes());
        }
        if let Some(control) = said.cache_control {
            put(&mut fields, "Cache-Control", control.as_bytes());
        }
        put(&mut fields, "Vary", said.vary);
        let every = fields.len();
        fields.extend_from_slice(&settings.extra_fields);
        Representation {
            fields: fields.into(),
            about,
            every,
            etag: said.etag.into(),
            modified: said.modified,
            content_type: said.content_type.into(),
            content,
            coding,
            lasting: false,
            made_of: None,
        }
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
        self.made_of == Some((variant.source.version, variant.coding))
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
        // That there is no coding for a client varies by what it takes too, and is said already.
        if response.status != Status::NOT_ACCEPTABLE {
            put(&mut response.fields, "Vary", VARY);
        }
        response.body = self.content.whole();
    }
}

/// Adds a field whose name and value are made here or were checked at the start.
fn put(fields: &mut Vec<u8>, name: &str, value: &[u8]) {
    let put = put_field(fields, name, value);
    debug_assert!(put.is_ok(), "{name} has a value that breaks the message");
}
