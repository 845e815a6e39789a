//! The ring of buffers that the kernel takes from when bytes arrive, so that an idle connection holds none.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

use crate::block::Block;
use crate::buf::{BUF_BYTES, Buf, Pool};

/// Buffers in the ring, a power of two. It is filled up after every batch of completions, so it has to do for one
/// batch only; where it does not, the receives that found it empty are started again.
pub(super) const COUNT: u16 = 256;

/// The group that receives name to take from this ring.
pub(super) const GROUP: u16 = 0;

/// The ring, and the buffers that are in it.
pub(super) struct Provided {
    /// What the kernel reads: `COUNT` entries on a page boundary.
    entries: NonNull<BufRingEntry>,
    /// The memory behind each entry, by buffer id.
    blocks: Vec<Option<Block>>,
    tail: u16,
}

fn layout() -> Layout {
    // The kernel wants the ring on a page boundary (io_uring_register_buf_ring(3)).
    Layout::array::<BufRingEntry>(COUNT.into()).and_then(|l| l.align_to(4096)).expect("a constant that fits")
}

impl Provided {
    /// Registers a full ring.
    pub(super) fn register(submitter: &Submitter<'_>, pool: &mut Pool) -> io::Result<Self> {
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout()) }.cast::<BufRingEntry>();
        let Some(entries) = NonNull::new(memory) else { handle_alloc_error(layout()) };
        let blocks = (0..COUNT).map(|_| None).collect();
        let mut provided = Provided { entries, blocks, tail: 0 };
        // SAFETY: the entries are of that number and stay where they are until `self` is dropped, which its owner does
        // after the ring has been unregistered or closed with nothing under way.
        unsafe { submitter.register_buf_ring_with_flags(entries.as_ptr() as u64, COUNT, GROUP, 0)? };
        for id in 0..COUNT {
            provided.put(id, pool.take().into_block());
        }
        provided.publish();
        Ok(provided)
    }

    /// Takes the buffer that the kernel put `length` bytes in, and puts an empty one in its place.
    pub(super) fn take(&mut self, id: u16, length: usize, pool: &mut Pool) -> Option<Buf> {
        let block = self.blocks.get_mut(usize::from(id))?.take()?;
        if length == 0 {
            self.put(id, block);
            return None;
        }
        self.put(id, pool.take().into_block());
        Some(Buf::of_block(block, length))
    }

    /// Puts an entry behind the last; the kernel sees it after [`publish`](Self::publish).
    fn put(&mut self, id: u16, mut block: Block) {
        let slot = usize::from(self.tail & (COUNT - 1));
        // SAFETY: the slot is within the allocation, whose bytes were zeroed, and the kernel does not read it until the
        // tail has passed it. The reserved field of the first entry is the tail and is not written here.
        let entry = unsafe { self.entries.add(slot).as_mut() };
        entry.set_addr(block.as_mut_ptr() as u64);
        entry.set_len(BUF_BYTES as u32);
        entry.set_bid(id);
        self.blocks[usize::from(id)] = Some(block);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel what was put in.
    pub(super) fn publish(&mut self) {
        // SAFETY: the address of the first entry; its tail field is a u16 that the kernel reads atomically, and nothing
        // else in this process holds a reference to it.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries.as_ptr()).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for Provided {
    fn drop(&mut self) {
        // SAFETY: allocated in `register` with this layout; see there for the kernel.
        unsafe { dealloc(self.entries.as_ptr().cast(), layout()) };
    }
}
