//! The one buffer type: a fixed block of bytes that travels to the driver and comes home in its answer.

use crate::block::{BLOCK_BYTES, Block};

/// Bytes of one buffer. A request's head must fit in it, and a response that fits goes out in one send.
pub const BUF_BYTES: usize = BLOCK_BYTES;

/// A fixed block of [`BUF_BYTES`] with unread bytes in the middle: `start..end` is content, `end..` is room.
#[derive(Debug)]
pub struct Buf {
    block: Block,
    start: u32,
    end: u32,
}

impl Buf {
    /// A new, empty buffer. Drivers take buffers from a [`Pool`] instead.
    pub fn new() -> Self {
        Buf { block: Block::new(), start: 0, end: 0 }
    }

    /// A buffer of a block whose first `length` bytes are content.
    pub(crate) fn of_block(block: Block, length: usize) -> Self {
        let end = length.min(block.len()) as u32;
        Buf { block, start: 0, end }
    }

    /// The block alone; the content is dropped.
    pub(crate) fn into_block(self) -> Block {
        self.block
    }

    /// The content.
    pub fn bytes(&self) -> &[u8] {
        &self.block[self.start as usize..self.end as usize]
    }

    /// Length of the content.
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether there is no content.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Bytes that can still be appended.
    pub fn room(&self) -> usize {
        self.block.len() - self.end as usize
    }

    /// The free bytes behind the content; [`grow`](Self::grow) makes what was written there content.
    pub fn spare(&mut self) -> &mut [u8] {
        &mut self.block[self.end as usize..]
    }

    /// Makes the first `n` bytes of [`spare`](Self::spare) content.
    ///
    /// # Panics
    /// If `n` is more than [`room`](Self::room): the caller counted wrongly.
    pub fn grow(&mut self, n: usize) {
        assert!(n <= self.room(), "grow({n}) past the end of a buffer with {} bytes free", self.room());
        self.end += n as u32;
    }

    /// Drops the first `n` bytes of the content.
    ///
    /// # Panics
    /// If `n` is more than [`len`](Self::len): the caller counted wrongly.
    pub fn consume(&mut self, n: usize) {
        assert!(n <= self.len(), "consume({n}) of {} bytes", self.len());
        self.start += n as u32;
        if self.start == self.end {
            self.clear();
        }
    }

    /// Drops all content.
    pub fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    /// Appends as much of `bytes` as there is room for, and says how much that was.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.room());
        let end = self.end as usize;
        self.block[end..end + n].copy_from_slice(&bytes[..n]);
        self.end += n as u32;
        n
    }

    /// Moves the content to the front, so that all free bytes are room.
    pub fn compact(&mut self) {
        if self.start > 0 {
            self.block.copy_within(self.start as usize..self.end as usize, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }
}

impl Default for Buf {
    fn default() -> Self {
        Self::new()
    }
}

/// Empty buffers of one thread, last in first out so that the next one is still in the cache.
///
/// A connection holds a buffer only while it has bytes in it, so the pool follows the requests under way
/// and not the connections. At most `keep` idle buffers are kept; more are freed.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Buf>,
    keep: usize,
}

impl Pool {
    /// A pool that keeps at most `keep` idle buffers.
    pub fn new(keep: usize) -> Self {
        Pool { free: Vec::with_capacity(keep), keep }
    }

    /// An empty buffer.
    pub fn take(&mut self) -> Buf {
        self.free.pop().unwrap_or_default()
    }

    /// Takes a buffer back; its content is dropped.
    pub fn give(&mut self, mut buf: Buf) {
        if self.free.len() < self.keep {
            buf.clear();
            self.free.push(buf);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_moves_through_a_buffer() {
        let mut buf = Buf::new();
        assert_eq!(buf.append(b"hello world"), 11);
        buf.consume(6);
        assert_eq!(buf.bytes(), b"world");
        buf.compact();
        assert_eq!((buf.bytes(), buf.room()), (&b"world"[..], BUF_BYTES - 5));
        buf.consume(5);
        assert_eq!(buf.room(), BUF_BYTES);
    }

    #[test]
    fn append_stops_at_the_end() {
        let mut buf = Buf::new();
        assert_eq!(buf.append(&vec![7; BUF_BYTES - 1]), BUF_BYTES - 1);
        assert_eq!(buf.append(b"abc"), 1);
        assert_eq!(buf.room(), 0);
    }

    #[test]
    fn the_pool_is_bounded_and_hands_out_empty_buffers() {
        let mut pool = Pool::new(1);
        let (mut a, b) = (pool.take(), pool.take());
        a.append(b"x");
        pool.give(a);
        pool.give(b);
        assert_eq!(pool.free.len(), 1);
        assert!(pool.take().is_empty());
    }
}
