//! A directory as a web site: static files with all that RFC 9110 says about them.

mod bounded;
mod cache;
mod compress;
mod etag;
mod find;
mod listing;
mod made;
mod media;
mod missing;
mod present;
mod representation;
mod root;
mod settings;
mod variant;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use wire::{Codings, Method, RequestHead, Status, decode_path};

use crate::handler::{Handler, Request, Response};
use cache::Caches;
use compress::Compressor;
use find::find;
use missing::Missing;
use present::present;
use representation::Representation;
use variant::Variant;

pub use root::{Beneath, Links, Root};
pub use settings::{
    BadSetting, CacheRule, Compression, ErrorPage, ExtraField, SiteSettings, charset, site_path,
};

/// What a resource of a site allows.
const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// A directory served as a web site: GET and HEAD of its regular files, an index for its directories.
pub struct Site {
    root: Root,
    settings: SiteSettings,
    compressor: Option<Compressor>,
    caches: Caches,
    listings: listing::Kept,
}

impl Site {
    /// Serves a directory, as it is done where nothing is set.
    ///
    /// # Errors
    /// It is not there, not a directory, or not readable.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Site::new(Root::open(path, Links::default())?, SiteSettings::default()))
    }

    /// Serves a root.
    pub fn new(root: Root, settings: SiteSettings) -> Self {
        let compressor =
            settings.compression.map(|bounds| Compressor::new(bounds, settings.compressed_bytes()));
        let listings = listing::Kept::new(settings.listing_bytes());
        Site { root, caches: Caches::new(&settings), settings, compressor, listings }
    }

    /// The directory behind the site.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// What a path stands for, as it is sent to a client that takes these codings.
    fn representation(
        &self,
        path: &str,
        codings: Codings,
        now: Instant,
    ) -> Result<Arc<Representation>, Missing> {
        if let Some(representation) = self.caches.mine().fresh(path, codings, now, Arc::clone) {
            return Ok(representation);
        }
        self.look_again(path, codings, now, false)
    }

    /// The same where the cache has nothing fresh: the file is looked at, and read unless it is as it was. What takes long may
    /// be left to a worker.
    fn look_again(
        &self,
        path: &str,
        codings: Codings,
        now: Instant,
        may_be_left: bool,
    ) -> Result<Arc<Representation>, Missing> {
        let found = find(&self.root, &self.settings, path)?;
        let variant = Variant::choose(&self.root, found, codings, self.compressor.as_ref())?;
        if let Some(representation) = self.caches.mine().still(path, codings, &variant, now) {
            return Ok(representation);
        }
        if may_be_left && variant.takes_long(self.compressor.as_ref(), SystemTime::now()) {
            return Err(Missing::TakesLong);
        }
        let built =
            Representation::build(variant, &self.settings, self.compressor.as_ref(), SystemTime::now())?;
        let representation = Arc::new(built);
        self.caches.mine().keep(path, codings, &representation, now);
        Ok(representation)
    }

    fn get(&self, request: &Request<'_>, response: &mut Response) -> Result<(), Missing> {
        let head = request.head;
        let codings = codings_of(head);
        // Nearly always it is there, and answered from where it is.
        let answer = |representation: &Arc<_>| present(head, representation, response);
        if self.caches.mine().fresh(head.path(), codings, request.now, answer).is_some() {
            return Ok(());
        }
        match self.look_again(head.path(), codings, request.now, request.may_be_left) {
            Ok(representation) => present(head, &representation, response),
            Err(Missing::NoIndex(directory)) if self.settings.listing => {
                self.list(directory, request, response)?;
            }
            Err(missing) => match self.fallback(request, codings, &missing) {
                Some(representation) => {
                    present(head, &representation, response);
                    response.field("Vary", b"Accept");
                }
                None => return Err(missing),
            },
        }
        Ok(())
    }

    /// The page that stands in for every path of an application that runs in the browser, if the client takes pages at all.
    fn fallback(
        &self,
        request: &Request<'_>,
        codings: Codings,
        missing: &Missing,
    ) -> Option<Arc<Representation>> {
        let page = self.stand_in(request.head, missing)?;
        let is_wanted = wire::accepts(request.head, "text/html") > 0;
        is_wanted.then(|| self.representation(page, codings, request.now).ok()).flatten()
    }

    /// The path of that page, if it stands in for this one: it is not there and does not look like a file.
    fn stand_in(&self, head: &RequestHead<'_>, missing: &Missing) -> Option<&str> {
        let page = self.settings.fallback.as_deref()?;
        let last = head.path().rsplit('/').next().unwrap_or_default();
        (missing.is_not_found() && !last.contains('.')).then_some(page)
    }

    /// Says why there is no answer.
    fn explain(&self, missing: &Missing, request: &Request<'_>, response: &mut Response) {
        response.clear();
        missing.explain(request.head, response);
        if self.stand_in(request.head, missing).is_some() {
            response.field("Vary", b"Accept");
        }
        response.field_lines(&self.settings.extra_fields);
        self.put_error_page(request, response);
    }

    /// Gives an error its body: the page that was set for it, otherwise a line.
    fn put_error_page(&self, request: &Request<'_>, response: &mut Response) {
        if let Some(page) = self.settings.error_page(response.status) {
            match self.representation(page, codings_of(request.head), request.now) {
                Ok(representation) => return representation.put_as_error(response),
                // Said quietly: whoever asks for what is not there could fill the log.
                Err(_) => tracing::debug!(page, "the page for errors is not there"),
            }
        }
        response.plain(response.status);
    }
}

/// Whether a target can be that of anything here: the server as a whole, or a path that a file could have.
fn names_something(head: &RequestHead<'_>) -> bool {
    head.path() == "*" || decode_path(head.path(), &mut Vec::new()).is_ok()
}

/// The codings that a client takes.
fn codings_of(head: &RequestHead<'_>) -> Codings {
    // Most say nothing of them, and their fields need not be looked through.
    if head.asks.coding { Codings::of(head) } else { Codings::IDENTITY }
}

impl Handler for Site {
    fn handle(&self, request: &Request<'_>, response: &mut Response) {
        match request.head.method {
            Method::Get | Method::Head => match self.get(request, response) {
                Ok(()) if response.status.code() < 400 => {}
                Ok(()) => self.put_error_page(request, response),
                Err(Missing::TakesLong) => response.leave_to_a_worker(),
                Err(missing) => self.explain(&missing, request, response),
            },
            Method::Options if !names_something(request.head) => {
                self.explain(&Missing::Malformed, request, response);
            }
            Method::Options => {
                response
                    .status(Status::NO_CONTENT)
                    .field("Allow", ALLOW)
                    .field_lines(&self.settings.extra_fields);
            }
            Method::Other => self.explain(&Missing::UnknownMethod, request, response),
            _ => self.explain(&Missing::MethodNotAllowed, request, response),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::representation::Content;
    use super::*;

    #[test]
    fn however_many_ways_a_path_is_written_it_takes_two_places_in_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in [("a", "plain"), ("%61", "escaped"), ("a b", "spaced")] {
            fs::write(dir.path().join(name), content).unwrap();
        }
        let (site, now) = (Site::open(dir.path()).unwrap(), Instant::now());
        let get = |path: &str| match &site.representation(path, Codings::IDENTITY, now).unwrap().content {
            Content::Memory(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            Content::File(..) => panic!("{path} is not in memory"),
        };
        for _ in 0..2 {
            for (path, content) in [("/a", "plain"), ("/%61", "plain"), ("/%2561", "escaped")] {
                assert_eq!(get(path), content, "{path}");
            }
        }
        assert_eq!(site.caches.mine().len(), 3);
        for at in 0..500 {
            for path in [format!("/{}a", "/".repeat(at)), format!("/{}%61", "./".repeat(at))] {
                assert_eq!(get(&path), "plain", "{path}");
            }
        }
        assert_eq!(site.caches.mine().len(), 3);
        // What cannot be written otherwise is kept as well, and found again.
        for path in ["/a%20b", "/a%20%62", "//a%20b"] {
            assert_eq!(get(path), "spaced", "{path}");
            let found = site.caches.mine().fresh(path, Codings::IDENTITY, now, |_| ());
            assert_eq!((found, site.caches.mine().len()), (Some(()), 4), "{path}");
        }
    }
}
