//! The memory of a buffer: pages of its own, which the kernel supplies only where something is written.
//!
//! A connection that stalls in the middle of a request holds a buffer of which it has filled some bytes. From the heap that
//! would take two pages for each, since the allocator clears what it has used before; so it takes one.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Bytes of a block: whole pages.
pub(crate) const BLOCK_BYTES: usize = 16 * 1024;

/// [`BLOCK_BYTES`] bytes, zero at first.
pub(crate) struct Block {
    start: NonNull<u8>,
    /// From the heap, where the kernel gives no more mappings (`vm.max_map_count`).
    heap: bool,
}

// SAFETY: it owns its memory alone, as a box does.
unsafe impl Send for Block {}

// SAFETY: shared it can only be read.
unsafe impl Sync for Block {}

impl Block {
    /// A new block.
    pub(crate) fn new() -> Self {
        // SAFETY: a new mapping, at an address of the kernel's choice, touches no other memory.
        let memory = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                BLOCK_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        match memory.ok().and_then(|memory| NonNull::new(memory.cast())) {
            Some(start) => Block { start, heap: false },
            None => Block::on_heap(),
        }
    }

    fn on_heap() -> Self {
        let block = Box::leak(vec![0u8; BLOCK_BYTES].into_boxed_slice());
        Block { start: NonNull::from(block).cast(), heap: true }
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory has that many readable bytes, all initialized, until it is dropped.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), BLOCK_BYTES) }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the same, and it is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), BLOCK_BYTES) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.heap {
            let block = ptr::slice_from_raw_parts_mut(self.start.as_ptr(), BLOCK_BYTES);
            // SAFETY: it was leaked from a box of this length, and nothing refers to it any more.
            drop(unsafe { Box::from_raw(block) });
            return;
        }
        // SAFETY: the mapping was made with this length, and nothing refers to it any more. Where the kernel would have to split
        // a mapping and may not, it stays: memory lost, and nothing else.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), BLOCK_BYTES) };
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{BLOCK_BYTES} bytes at {:p}", self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_zero_and_keeps_what_is_written() {
        let (mut a, mut b) = (Block::new(), Block::on_heap());
        assert!(a.len() == BLOCK_BYTES && a.iter().all(|byte| *byte == 0));
        (a[0], a[BLOCK_BYTES - 1], b[0]) = (1, 2, 3);
        let a = std::thread::spawn(move || a).join().unwrap();
        assert_eq!((a[0], a[BLOCK_BYTES - 1], b[0]), (1, 2, 3));
    }
}
