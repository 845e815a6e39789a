//! The listings that were made last, so that a large directory is not read again for every request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Form;
use crate::app::site::bounded::Bounded;
use crate::app::site::cache::FRESH;
use crate::app::site::representation::Representation;

/// What a listing takes beside its page and its path.
const ENTRY_BYTES: usize = 128;

/// Listings of the last half second, within a bound.
pub(in crate::app::site) struct Kept(Mutex<Pages>);

/// By the directory, and the form in which it is listed.
type Pages = Bounded<(Vec<u8>, Form), Page>;

struct Page {
    representation: Arc<Representation>,
    fresh_until: Instant,
}

impl Kept {
    /// Keeps so many bytes of listings.
    pub(in crate::app::site) fn new(room: usize) -> Self {
        Kept(Mutex::new(Bounded::new(room)))
    }

    /// The listing of a directory that was made a moment ago.
    pub(super) fn fresh(&self, directory: &[u8], form: Form, now: Instant) -> Option<Arc<Representation>> {
        let mut pages = self.pages();
        let page = pages.get(&(directory.to_vec(), form))?;
        (now < page.fresh_until).then(|| page.representation.clone())
    }

    /// Keeps one, in place of those that have gone unused the longest.
    pub(super) fn keep(
        &self,
        directory: Vec<u8>,
        form: Form,
        representation: &Arc<Representation>,
        now: Instant,
    ) {
        if !representation.is_lasting() {
            return;
        }
        let bytes = representation.bytes() + directory.len() + ENTRY_BYTES;
        let page = Page { representation: representation.clone(), fresh_until: now + FRESH };
        self.pages().keep((directory, form), page, bytes);
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use wire::Codings;

    use super::*;
    use crate::app::site::SiteSettings;
    use crate::app::site::variant::Wish;

    #[test]
    fn a_listing_is_kept_for_a_moment_and_within_the_bound() {
        let (now, wish) = (Instant::now(), Wish::of(Codings::IDENTITY));
        let [html, json] = [false, true].map(|is_json| Form { is_json, wish });
        let settings = SiteSettings::default();
        let page = Representation::of_page(vec![b'x'; 8_000], "text/html", wish, &settings, None);
        let page = page.map(Arc::new).unwrap_or_else(|missing| panic!("{missing:?}"));
        // Two of them.
        let kept = Kept::new(20_000);
        kept.keep(b"a/".to_vec(), html, &page, now);
        assert!(kept.fresh(b"a/", html, now).is_some());
        assert!(kept.fresh(b"a/", json, now).is_none() && kept.fresh(b"", html, now).is_none());
        assert!(kept.fresh(b"a/", html, now + FRESH).is_none());
        for name in [b"b/", b"c/", b"c/"] {
            kept.keep(name.to_vec(), html, &page, now);
        }
        let there = [b"a/", b"b/", b"c/"].map(|name| kept.fresh(name, html, now).is_some());
        assert_eq!(there, [false, true, true]);
    }
}
