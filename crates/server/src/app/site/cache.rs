//! What was sent last, in memory, each looked at again after half a second; a part of it for each thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use wire::{Codings, decode_path};

use super::bounded::Bounded;
use super::representation::Representation;
use super::settings::SiteSettings;
use super::variant::Variant;
use crate::striped::Striped;

/// How long an entry is believed before the file is looked at again. A changed file is to be served new within a second, and
/// a request's time may be late by what else its thread had to do.
pub(super) const FRESH: Duration = Duration::from_millis(500);

/// What an entry takes beside its representation and its path.
const ENTRY_BYTES: usize = 128;

/// A cache for each thread, so that nothing is shared when a request is answered from memory.
pub(super) struct Caches(Striped<Cache>);

impl Caches {
    /// Empty caches, for as many threads and as many bytes as are set.
    pub(super) fn new(settings: &SiteSettings) -> Self {
        Caches(Striped::new(settings.threads, |parts| Cache::new(settings.cache_bytes() / parts)))
    }

    /// The cache of the calling thread. It is not held while a file is read.
    pub(super) fn mine(&self) -> MutexGuard<'_, Cache> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        self.0.of(NUMBER.with(|number| *number))
    }
}

/// Small files that were served last, by request path and what the client takes.
pub(super) struct Cache {
    entries: Bounded<Box<[u8]>, Entry>,
    /// Where keys are put together, so that looking one up allocates nothing.
    key: Vec<u8>,
}

struct Entry {
    representation: Arc<Representation>,
    /// Until when it is believed.
    fresh_until: Instant,
}

impl Cache {
    /// An empty cache for so many bytes.
    fn new(room: usize) -> Self {
        Cache { entries: Bounded::new(room), key: Vec::new() }
    }

    /// Does something with what a path stands for, if that was looked at less than a second ago.
    pub(super) fn fresh<R>(
        &mut self,
        path: &str,
        codings: Codings,
        now: Instant,
        act: impl FnOnce(&Arc<Representation>) -> R,
    ) -> Option<R> {
        // Nearly all paths are written plainly, and need not be decoded to find that out.
        self.set_written_key(path, codings);
        let entry = match self.entries.get(&self.key[..]) {
            Some(entry) => entry,
            None => {
                if !self.set_decoded_key(path, codings) {
                    return None;
                }
                self.entries.get(&self.key[..])?
            }
        };
        (now < entry.fresh_until).then(|| act(&entry.representation))
    }

    /// What a path stands for, if it is still the same as the variant that would be made now.
    pub(super) fn still(
        &mut self,
        path: &str,
        codings: Codings,
        variant: &Variant,
        now: Instant,
    ) -> Option<Arc<Representation>> {
        self.set_key(path, codings);
        let entry = self.entries.get(&self.key[..])?;
        if !entry.representation.is_still(variant) {
            return None;
        }
        entry.fresh_until = now + FRESH;
        Some(entry.representation.clone())
    }

    /// Keeps what a path stands for, in place of what has gone unused the longest.
    pub(super) fn keep(
        &mut self,
        path: &str,
        codings: Codings,
        representation: &Arc<Representation>,
        now: Instant,
    ) {
        if !representation.is_lasting() {
            return;
        }
        self.set_key(path, codings);
        let bytes = representation.bytes() + self.key.len() + ENTRY_BYTES;
        let entry = Entry { representation: representation.clone(), fresh_until: now + FRESH };
        self.entries.keep(self.key[..].into(), entry, bytes);
    }

    /// The key under which a path is kept.
    fn set_key(&mut self, path: &str, codings: Codings) {
        if !self.set_decoded_key(path, codings) {
            self.set_written_key(path, codings);
        }
    }

    fn set_written_key(&mut self, path: &str, codings: Codings) {
        self.key.clear();
        self.key.extend_from_slice(path.as_bytes());
        self.key.extend_from_slice(&codings.to_bytes());
    }

    /// The key is the name that a path stands for; false where it is written as plainly as that. However many ways there are to
    /// write a name (`/%61`, `//a`, `/./a`), all others together have this one key. No path is taken for it: a name has no
    /// slash in front.
    fn set_decoded_key(&mut self, path: &str, codings: Codings) -> bool {
        self.key.clear();
        let is_decoded = decode_path(path, &mut self.key).is_ok();
        if !is_decoded || path.as_bytes().strip_prefix(b"/") == Some(&self.key[..]) {
            return false;
        }
        self.key.extend_from_slice(&codings.to_bytes());
        true
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
