//! The listings that were made last, so that a large directory is not read again for every request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::app::site::bounded::Bounded;
use crate::app::site::cache::FRESH;

/// What a listing takes beside its page and its path.
const ENTRY_BYTES: usize = 128;

/// Listings of the last half second, within a bound.
pub(in crate::app::site) struct Kept(Mutex<Pages>);

/// By the directory, and whether it is JSON.
type Pages = Bounded<(Vec<u8>, bool), Page>;

struct Page {
    content: Arc<[u8]>,
    fresh_until: Instant,
}

impl Kept {
    /// Keeps so many bytes of listings.
    pub(in crate::app::site) fn new(room: usize) -> Self {
        Kept(Mutex::new(Bounded::new(room)))
    }

    /// The listing of a directory that was made a moment ago.
    pub(super) fn fresh(&self, directory: &[u8], is_json: bool, now: Instant) -> Option<Arc<[u8]>> {
        let mut pages = self.pages();
        let page = pages.get(&(directory.to_vec(), is_json))?;
        (now < page.fresh_until).then(|| page.content.clone())
    }

    /// Keeps one, in place of those that have gone unused the longest.
    pub(super) fn keep(&self, directory: Vec<u8>, is_json: bool, content: &Arc<[u8]>, now: Instant) {
        let page = Page { content: content.clone(), fresh_until: now + FRESH };
        let bytes = content.len() + directory.len() + ENTRY_BYTES;
        self.pages().keep((directory, is_json), page, bytes);
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_kept_for_a_moment_and_within_the_bound() {
        let (kept, now) = (Kept::new(2_000), Instant::now());
        let page: Arc<[u8]> = vec![b'x'; 800].into();
        kept.keep(b"a/".to_vec(), false, &page, now);
        assert!(kept.fresh(b"a/", false, now).is_some());
        assert!(kept.fresh(b"a/", true, now).is_none() && kept.fresh(b"", false, now).is_none());
        assert!(kept.fresh(b"a/", false, now + FRESH).is_none());
        for name in [b"b/", b"c/", b"c/"] {
            kept.keep(name.to_vec(), false, &page, now);
        }
        let there = [b"a/", b"b/", b"c/"].map(|name| kept.fresh(name, false, now).is_some());
        assert_eq!(there, [false, true, true]);
    }
}
