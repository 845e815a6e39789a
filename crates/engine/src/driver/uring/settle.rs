//! The end of the ring: all that is under way is cancelled, and memory stays until the kernel has let go of it.

use std::io;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use io_uring::types::CancelBuilder;

use super::Uring;
use super::ring::Wait;

/// How long the end waits for the kernel to let go of memory; past it the memory is leaked.
const PATIENCE: Duration = Duration::from_secs(10);

impl Uring {
    /// Cancels all that is under way, and waits until the kernel has let go of it.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        self.push_cancel(CancelBuilder::any().all());
        let start = Instant::now();
        while self.in_kernel > 0 {
            if start.elapsed() > PATIENCE {
                return Err(io::Error::other("the kernel has not let go of its requests"));
            }
            self.ring.enter(Wait::AtMost(Duration::from_millis(100)))?;
            self.take_completions();
        }
        Ok(())
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if self.settle().is_err() {
            // What the kernel may still write to must not be used for anything else: better lost than corrupted.
            return;
        }
        // SAFETY: dropped once, here, and not used after; the ring first, which the kernel then no longer looks at.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            ManuallyDrop::drop(&mut self.provided);
            ManuallyDrop::drop(&mut self.flights);
        }
    }
}
