//! Waking a thread that sleeps in its driver, at the cost of a system call only if it does sleep.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// Wakes one driver's thread; cheap to clone and usable from any thread.
#[derive(Clone, Debug)]
pub struct Unpark(Arc<Signal>);

#[derive(Debug)]
struct Signal {
    state: AtomicU8,
    /// What a sleeping driver watches; the in-memory driver never sleeps and has none.
    eventfd: Option<OwnedFd>,
}

/// Awake, with nothing new for it to see.
const AWAKE: u8 = 0;
/// Awake, and must look once more before it sleeps.
const NOTIFIED: u8 = 1;
/// Asleep in the kernel, or about to be.
const PARKED: u8 = 2;

impl Unpark {
    /// For a driver that sleeps in the kernel and watches [`eventfd`](Self::eventfd).
    pub fn with_eventfd() -> rustix::io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Unpark(Arc::new(Signal { state: AtomicU8::new(AWAKE), eventfd: Some(fd) })))
    }

    /// For a driver that never sleeps in the kernel.
    pub fn without_eventfd() -> Self {
        Unpark(Arc::new(Signal { state: AtomicU8::new(AWAKE), eventfd: None }))
    }

    /// What the driver watches while it sleeps.
    pub fn eventfd(&self) -> Option<BorrowedFd<'_>> {
        self.0.eventfd.as_ref().map(AsFd::as_fd)
    }

    /// Makes the thread look at its queues once more: now if it sleeps, before it next sleeps otherwise.
    pub fn unpark(&self) {
        if self.0.state.swap(NOTIFIED, Ordering::SeqCst) == PARKED
            && let Some(fd) = &self.0.eventfd
        {
            // The counter cannot overflow: one write per sleep, read when the sleep ends.
            let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
        }
    }

    /// Called by the thread itself just before it takes what is in its queues: whoever adds to them later
    /// must notify again.
    pub fn looked(&self) {
        self.0.state.store(AWAKE, Ordering::SeqCst);
    }

    /// Called by the driver just before it sleeps: false if there is something to look at first.
    pub(crate) fn may_sleep(&self) -> bool {
        self.0.state.compare_exchange(AWAKE, PARKED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Called by the driver when its sleep is over.
    pub(crate) fn woke(&self) {
        // Keeps a notification that came while asleep: the thread looks at its queues next anyway.
        let _ = self.0.state.compare_exchange(PARKED, AWAKE, Ordering::SeqCst, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_before_sleeping_prevents_the_sleep() {
        let unpark = Unpark::without_eventfd();
        unpark.looked();
        unpark.unpark();
        assert!(!unpark.may_sleep());
        unpark.looked();
        assert!(unpark.may_sleep());
    }

    #[test]
    fn only_a_sleeper_costs_a_write() {
        let unpark = Unpark::with_eventfd().unwrap();
        let written = |unpark: &Unpark| rustix::io::read(unpark.eventfd().unwrap(), &mut [0u8; 8]).is_ok();
        unpark.unpark();
        assert!(!written(&unpark));
        unpark.looked();
        assert!(unpark.may_sleep());
        unpark.unpark();
        unpark.unpark();
        assert!(written(&unpark));
        assert!(!written(&unpark));
    }
}
