//! What was sent last, in memory, each looked at again after half a second; a part of it for each thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use wire::Codings;

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
    entries: Bounded<Box<str>, Entry>,
    /// Where keys are put together, so that looking one up allocates nothing.
    key: String,
}

struct Entry {
    representation: Arc<Representation>,
    /// Until when it is believed.
    fresh_until: Instant,
}

impl Cache {
    /// An empty cache for so many bytes.
    fn new(room: usize) -> Self {
        Cache { entries: Bounded::new(room), key: String::new() }
    }

    /// What a path stands for, if that was looked at less than a second ago.
    pub(super) fn fresh(
        &mut self,
        path: &str,
        codings: Codings,
        now: Instant,
    ) -> Option<&Arc<Representation>> {
        self.set_key(path, codings);
        let entry = self.entries.get(self.key.as_str())?;
        (now < entry.fresh_until).then_some(&entry.representation)
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
        let entry = self.entries.get(self.key.as_str())?;
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
        self.entries.keep(self.key.as_str().into(), entry, bytes);
    }

    fn set_key(&mut self, path: &str, codings: Codings) {
        self.key.clear();
        self.key.push_str(path);
        self.key.push(codings.as_char());
    }
}
