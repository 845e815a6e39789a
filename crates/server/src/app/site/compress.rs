//! Compression on the fly: each state of a file once, a few at the same time, the results kept within a bound.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::Coding;

use super::bounded::Bounded;
use super::etag::sum;
use super::settings::Compression;
use super::variant::By;
use crate::file::FileVersion;

/// What an entry takes beside its bytes.
const ENTRY_BYTES: usize = 256;

/// Compresses content, within bounds.
pub(super) struct Compressor {
    bounds: Compression,
    kept: Mutex<Kept>,
    /// Compressions that may still begin now.
    permits: AtomicUsize,
}

type Kept = Bounded<Key, Kind>;

/// A state of a file, a coding, and whether it was to be in that coding whatever comes of it.
type Key = (FileVersion, Coding, bool);

#[derive(Clone)]
enum Kind {
    /// Another thread is at it.
    UnderWay,
    /// It does not get smaller.
    NotSmaller,
    Smaller(Encoded),
}

/// Content in a coding.
#[derive(Clone, Debug)]
pub(super) struct Encoded {
    pub(super) bytes: Arc<[u8]>,
    /// What tells these bytes from others.
    pub(super) sum: u64,
}

/// What became of compressing.
#[derive(Debug)]
pub(super) enum Compressed {
    /// Here it is.
    Smaller(Encoded),
    /// It does not get smaller: send it as it is.
    NotSmaller,
    /// There is too much to do: send it as it is for now, to those who take that.
    Busy,
}

impl From<Kind> for Compressed {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::UnderWay => Compressed::Busy,
            Kind::NotSmaller => Compressed::NotSmaller,
            Kind::Smaller(encoded) => Compressed::Smaller(encoded),
        }
    }
}

impl Compressor {
    /// A compressor that keeps results of so many bytes.
    pub(super) fn new(bounds: Compression, room: usize) -> Self {
        let kept = Mutex::new(Bounded::new(room));
        Compressor { permits: AtomicUsize::new(bounds.at_once), bounds, kept }
    }

    /// Whether content of this length is compressed at all.
    pub(super) fn takes(&self, length: u64, by: By) -> bool {
        (self.bounds.min..=self.bounds.max).contains(&length) || (by == By::Force && length < self.bounds.min)
    }

    /// Whether there is nothing left to do for the content of this state, or it is being done.
    pub(super) fn knows(&self, state: Option<FileVersion>, coding: Coding, by: By) -> bool {
        state.is_some_and(|state| self.kept().get(&(state, coding, by == By::Force)).is_some())
    }

    /// Compresses the content of a file, or a page made here, unless that was done before with the content of this state. It is
    /// only read if it is to be compressed now. Without a state, one that stands for no other content, nothing is kept.
    ///
    /// # Errors
    /// Those of reading it.
    pub(super) fn compress<C: AsRef<[u8]>, E>(
        &self,
        state: Option<FileVersion>,
        coding: Coding,
        by: By,
        read: impl FnOnce() -> Result<C, E>,
    ) -> Result<Compressed, E> {
        let force = by == By::Force;
        let turn = match self.begin(state.map(|state| (state, coding, force))) {
            Ok(turn) => turn,
            Err(instead) => return Ok(instead),
        };
        let content = read()?;
        let content = content.as_ref();
        let encoded = encode(content, coding);
        let result = match force || encoded.len() < content.len() {
            true => Kind::Smaller(Encoded { sum: sum(&encoded), bytes: encoded.into() }),
            false => Kind::NotSmaller,
        };
        turn.ends_with(result.clone());
        Ok(result.into())
    }

    /// The right to compress now; or what to do instead.
    fn begin(&self, key: Option<Key>) -> Result<Turn<'_>, Compressed> {
        let mut kept = self.kept();
        if let Some(known) = key.and_then(|key| kept.get(&key).cloned()) {
            return Err(known.into());
        }
        let permit = self.permits.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        permit.map_err(|_| Compressed::Busy)?;
        if let Some(key) = key {
            kept.keep(key, Kind::UnderWay, Kind::UnderWay.bytes());
        }
        Ok(Turn { compressor: self, key })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kind {
    fn bytes(&self) -> usize {
        match self {
            Kind::Smaller(encoded) => encoded.bytes.len() + ENTRY_BYTES,
            Kind::NotSmaller | Kind::UnderWay => ENTRY_BYTES,
        }
    }
}

/// A compression under way, which others can see by its key. Its end gives its permit back, however it ends.
struct Turn<'a> {
    compressor: &'a Compressor,
    key: Option<Key>,
}

impl Turn<'_> {
    fn ends_with(self, result: Kind) {
        if let Some(key) = self.key {
            let bytes = result.bytes();
            self.compressor.kept().keep(key, result, bytes);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.compressor.permits.fetch_add(1, Relaxed);
        let Some(key) = self.key else { return };
        let mut kept = self.compressor.kept();
        // It was not read, or compressing it panicked: it is for the next one to try again.
        if matches!(kept.get(&key), Some(Kind::UnderWay)) {
            kept.remove(&key);
        }
    }
}

/// Content in a coding, at levels that take some 10 ms for a MiB of text.
fn encode(content: &[u8], coding: Coding) -> Vec<u8> {
    let encoded = match coding {
        Coding::Zstd => zstd::bulk::compress(content, 3),
        Coding::Brotli => {
            let params = brotli::enc::BrotliEncoderParams { quality: 5, ..Default::default() };
            let mut encoded = Vec::with_capacity(content.len() / 2);
            brotli::BrotliCompress(&mut &content[..], &mut encoded, &params).map(|_| encoded)
        }
        Coding::Gzip => {
            let room = Vec::with_capacity(content.len() / 2);
            let mut encoder = flate2::write::GzEncoder::new(room, flate2::Compression::default());
            encoder.write_all(content).and_then(|()| encoder.finish())
        }
        Coding::Identity => Ok(content.to_vec()),
    };
    // Writing to memory does not fail; if it did, the content as it is would not be in the coding that is announced.
    encoded.expect("compressing from memory to memory has nothing to fail of")
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// A state of a file.
    fn state() -> FileVersion {
        let file = OwnedFd::from(tempfile::tempfile().unwrap());
        FileVersion::of(&rustix::fs::fstat(&file).unwrap())
    }

    /// Compresses content, if it is read.
    fn compress(compressor: &Compressor, state: Option<FileVersion>, content: &[u8]) -> Compressed {
        let read = || Ok::<_, ()>(content.to_vec());
        compressor.compress(state, Coding::Zstd, By::Compressing, read).unwrap()
    }

    /// What was compressed, as it was before.
    fn plain(compressed: Compressed) -> String {
        let Compressed::Smaller(encoded) = compressed else { panic!("{compressed:?}") };
        assert_eq!(encoded.sum, sum(&encoded.bytes));
        String::from_utf8(zstd::decode_all(&encoded.bytes[..]).unwrap()).unwrap()
    }

    fn many(letter: &str) -> String {
        letter.repeat(2_000)
    }

    #[test]
    fn only_what_belongs_to_one_content_is_kept() {
        let (compressor, state) = (Compressor::new(Compression::default(), 1 << 20), state());
        for letter in ["a", "b"] {
            assert_eq!(plain(compress(&compressor, None, many(letter).as_bytes())), many(letter));
        }
        assert_eq!(compressor.kept().len(), 0);
        // Nobody compresses again what is known by its state.
        for letter in ["c", "d"] {
            assert_eq!(plain(compress(&compressor, Some(state), many(letter).as_bytes())), many("c"));
        }
    }

    #[test]
    fn nothing_is_read_that_is_known_or_cannot_be_compressed_now() {
        let unread = |compressor: &Compressor, state| {
            let read = || -> Result<Vec<u8>, ()> { panic!("it is read") };
            compressor.compress(state, Coding::Zstd, By::Compressing, read).unwrap()
        };
        let (compressor, state) = (Compressor::new(Compression::default(), 1 << 20), state());
        compress(&compressor, Some(state), many("a").as_bytes());
        assert_eq!(plain(unread(&compressor, Some(state))), many("a"));
        let busy = Compressor::new(Compression { at_once: 0, ..Compression::default() }, 1 << 20);
        for state in [None, Some(state)] {
            assert!(matches!(unread(&busy, state), Compressed::Busy));
        }
    }

    #[test]
    fn what_fails_is_tried_again() {
        let (compressor, state) = (Compressor::new(Compression::default(), 1 << 20), state());
        let fails = |read: fn() -> Result<Vec<u8>, ()>| {
            let compress = || compressor.compress(Some(state), Coding::Gzip, By::Compressing, read);
            catch_unwind(AssertUnwindSafe(compress))
        };
        assert!(matches!(fails(|| Err(())), Ok(Err(()))));
        assert!(fails(|| panic!("as the test wants it")).is_err());
        // While it is under way, it is not begun again.
        let within = compressor.compress(Some(state), Coding::Zstd, By::Compressing, || {
            assert!(matches!(compress(&compressor, Some(state), b""), Compressed::Busy));
            Ok::<_, ()>(many("a").into_bytes())
        });
        assert_eq!(plain(within.unwrap()), many("a"));
        assert_eq!(compressor.permits.load(Relaxed), 1);
    }
}
