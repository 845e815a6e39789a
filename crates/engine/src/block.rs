//! The memory of a buffer: pages of its own, which the kernel supplies only where something is written.
//!
//! A connection that stalls in the middle of a request holds a buffer of which it has filled some bytes. From the heap that
//! would take two pages for each, since the allocator clears what it has used before; so it takes one.

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::buf::BUF_BYTES;

/// [`BUF_BYTES`] bytes, zero at first.
pub(crate) struct Block(NonNull<u8>);

// SAFETY: it owns its memory alone, as a box does.
unsafe impl Send for Block {}

// SAFETY: shared it can only be read.
unsafe impl Sync for Block {}

impl Block {
    /// A new block. Ends the process where there is no memory, as every allocation does.
    pub(crate) fn new() -> Self {
        // SAFETY: a new mapping, at an address of the kernel's choice, touches no other memory.
        let memory = unsafe {
            mmap_anonymous(ptr::null_mut(), BUF_BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let Some(start) = memory.ok().and_then(|memory| NonNull::new(memory.cast())) else {
            handle_alloc_error(Layout::new::<[u8; BUF_BYTES]>());
        };
        Block(start)
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has that many readable bytes, all initialized, until it is dropped.
        unsafe { slice::from_raw_parts(self.0.as_ptr(), BUF_BYTES) }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the same, and it is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.0.as_ptr(), BUF_BYTES) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nothing refers to it any more.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), BUF_BYTES) };
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{BUF_BYTES} bytes at {:p}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_zero_and_keeps_what_is_written() {
        let (mut a, mut b) = (Block::new(), Block::new());
        assert!(a.len() == BUF_BYTES && a.iter().all(|byte| *byte == 0));
        (a[0], a[BUF_BYTES - 1], b[0]) = (1, 2, 3);
        let a = std::thread::spawn(move || a).join().unwrap();
        assert_eq!((a[0], a[BUF_BYTES - 1], b[0]), (1, 2, 3));
    }
}
