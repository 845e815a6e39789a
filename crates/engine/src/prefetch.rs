//! Memory that is about to be needed, asked for early: with thousands of connections a task's own is no longer in the nearest
//! cache when its turn comes, and it can be on its way while another task runs.

/// Has the processor bring a value nearer, without waiting for it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn prefetch<T>(value: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    /// Bytes of a line of the cache.
    const LINE: usize = 64;
    let start = std::ptr::from_ref(value).cast::<i8>();
    for offset in (0..size_of::<T>()).step_by(LINE) {
        // SAFETY: the instruction reads nothing that the program sees, and the address is within the value.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(offset)) };
    }
}

/// There is no such instruction.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn prefetch<T>(_: &T) {}
