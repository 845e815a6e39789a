//! Which form of a file a client is sent: compressed beforehand, compressed here, or as it is.

use std::time::SystemTime;

use wire::{Coding, Codings};

use super::compress::Compressor;
use super::find::{Found, open_beside};
use super::media::{Media, Packing};
use super::missing::Missing;
use super::root::Root;

/// A form of a file.
pub(super) struct Variant {
    /// The file to read: the one asked for, or the compressed one beside it.
    pub(super) source: Found,
    pub(super) media: Media,
    /// The coding that the client is to be sent.
    pub(super) coding: Coding,
    /// How the source comes to be in that coding.
    pub(super) by: By,
}

/// How a form comes to be in its coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The source is in it.
    Source,
    /// It is compressed here, unless that is not worth it or there is too much of it to do.
    Compressing,
    /// It is compressed here in any case: the client does not take it as it is.
    Force,
}

impl Variant {
    /// Chooses the form of a file for a client that takes these codings.
    pub(super) fn choose(
        root: &Root,
        found: Found,
        codings: Codings,
        compressor: Option<&Compressor>,
    ) -> Result<Self, Missing> {
        let media = Media::of(&String::from_utf8_lossy(&found.name));
        let takes_identity = codings.iter().any(|coding| coding == Coding::Identity);
        let as_it_is = |source| Variant { source, media, coding: Coding::Identity, by: By::Source };
        // What is packed already is only compressed again for a client that takes nothing else.
        if takes_identity && (media.packing == Packing::Packed || codings == Codings::IDENTITY) {
            return Ok(as_it_is(found));
        }
        let wanted = || codings.iter().take_while(|coding| *coding != Coding::Identity);
        for coding in wanted() {
            if let Some(sibling) = sibling(root, &found, coding)? {
                let source = Found { name: found.name, ..sibling };
                return Ok(Variant { source, media, coding, by: By::Source });
            }
        }
        if takes_identity && media.packing == Packing::Unknown {
            return Ok(as_it_is(found));
        }
        let (coding, by) = Wish::of(codings).choose(found.version.len(), compressor)?;
        Ok(Variant { source: found, media, coding, by })
    }
}

impl Variant {
    /// Whether it is still to be compressed.
    pub(super) fn takes_long(&self, compressor: Option<&Compressor>, now: SystemTime) -> bool {
        let version = self.source.version;
        let state = version.is_settled(now).then_some(version);
        self.by != By::Source
            && compressor.is_some_and(|compressor| !compressor.knows(state, self.coding, self.by))
    }
}

/// What a client takes, as far as that decides how it is sent what is in no coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wish {
    best: Option<Coding>,
    takes_identity: bool,
}

impl Wish {
    pub(super) fn of(codings: Codings) -> Self {
        let takes_identity = codings.iter().any(|coding| coding == Coding::Identity);
        Wish { best: codings.iter().next(), takes_identity }
    }

    /// The coding for content of this length, and how it comes to be in it.
    pub(super) fn choose(
        self,
        length: u64,
        compressor: Option<&Compressor>,
    ) -> Result<(Coding, By), Missing> {
        let by = if self.takes_identity { By::Compressing } else { By::Force };
        match (self.best, compressor) {
            (Some(coding), Some(compressor))
                if coding != Coding::Identity && compressor.takes(length, by) =>
            {
                Ok((coding, by))
            }
            _ if self.takes_identity => Ok((Coding::Identity, By::Source)),
            _ => Err(Missing::NotAcceptable),
        }
    }
}

/// The file beside another that has the same content in a coding: `page.html.br`. One that is older than the file itself
/// is out of date.
fn sibling(root: &Root, found: &Found, coding: Coding) -> Result<Option<Found>, Missing> {
    let ending: &[u8] = match coding {
        Coding::Zstd => b".zst",
        Coding::Brotli => b".br",
        Coding::Gzip => b".gz",
        Coding::Identity => return Ok(None),
    };
    let sibling = open_beside(root, [&found.name, ending].concat())?;
    Ok(sibling.filter(|sibling| sibling.version.modified() >= found.version.modified()))
}
