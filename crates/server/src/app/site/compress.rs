//! Compression on the fly: each state of a file once, a few at the same time, the results kept within a bound.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::Coding;

use super::bounded::Bounded;
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
    Smaller(Arc<[u8]>),
}

/// What became of compressing.
pub(super) enum Compressed {
    /// Here it is.
    Smaller(Arc<[u8]>),
    /// It does not get smaller: send it as it is.
    NotSmaller,
    /// There is too much to do: send it as it is for now, to those who take that.
    Busy,
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

    /// Compresses the content of a file, unless that was done before with the content of this state. Without a state, one that
    /// stands for no other content, nothing is kept.
    pub(super) fn compress(
        &self,
        content: &[u8],
        state: Option<FileVersion>,
        coding: Coding,
        by: By,
    ) -> Compressed {
        let force = by == By::Force;
        let key = state.map(|state| (state, coding, force));
        match key.and_then(|key| self.kept().get(&key).cloned()) {
            Some(Kind::Smaller(bytes)) => return Compressed::Smaller(bytes),
            Some(Kind::NotSmaller) => return Compressed::NotSmaller,
            Some(Kind::UnderWay) => return Compressed::Busy,
            None => {}
        }
        let Some(_permit) = Permit::take(&self.permits) else { return Compressed::Busy };
        let keep = |kind: Kind| {
            if let Some(key) = key {
                let bytes = kind.bytes();
                self.kept().keep(key, kind, bytes);
            }
        };
        keep(Kind::UnderWay);
        let encoded = encode(content, coding);
        let is_wanted = force || encoded.len() < content.len();
        let result = if is_wanted { Kind::Smaller(encoded.into()) } else { Kind::NotSmaller };
        keep(result.clone());
        match result {
            Kind::Smaller(bytes) => Compressed::Smaller(bytes),
            Kind::NotSmaller | Kind::UnderWay => Compressed::NotSmaller,
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kind {
    fn bytes(&self) -> usize {
        match self {
            Kind::Smaller(bytes) => bytes.len() + ENTRY_BYTES,
            Kind::NotSmaller | Kind::UnderWay => ENTRY_BYTES,
        }
    }
}

/// The right to compress now.
struct Permit<'a>(&'a AtomicUsize);

impl<'a> Permit<'a> {
    fn take(permits: &'a AtomicUsize) -> Option<Self> {
        let took = permits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        took.is_ok().then_some(Permit(permits))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
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

    use super::*;

    #[test]
    fn only_what_belongs_to_one_content_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = OwnedFd::from(std::fs::File::create(dir.path().join("file")).unwrap());
        let state = FileVersion::of(&rustix::fs::fstat(&file).unwrap());
        let compressor = Compressor::new(Compression::default(), 1 << 20);
        let compress = |letter: &str, state| match compressor.compress(
            letter.repeat(2_000).as_bytes(),
            state,
            Coding::Zstd,
            By::Compressing,
        ) {
            Compressed::Smaller(bytes) => String::from_utf8(zstd::decode_all(&bytes[..]).unwrap()).unwrap(),
            _ => panic!("{letter} does not get smaller"),
        };
        for letter in ["a", "b"] {
            assert_eq!(compress(letter, None), letter.repeat(2_000));
        }
        assert_eq!(compressor.kept().len(), 0);
        // Nobody compresses again what is known by its state.
        for letter in ["c", "d"] {
            assert_eq!(compress(letter, Some(state)), "c".repeat(2_000));
        }
    }
}
