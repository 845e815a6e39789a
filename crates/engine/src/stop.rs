//! Stopping: one switch that every thread of a server watches.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// A switch that goes from off to on once.
#[derive(Clone, Default)]
pub struct Stop(Arc<State>);

#[derive(Default)]
struct State {
    set: AtomicBool,
    watchers: Mutex<Vec<Waker>>,
    /// Another reason to say that it is on, for as long as it holds.
    hint: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Stop").field(&self.is_set()).finish()
    }
}

impl Stop {
    /// Lets the switch seem on while `hint` holds too: those who look at it finish what they are at and end, as they
    /// do after a stop. Once only.
    pub(crate) fn follow(&self, hint: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.0.hint.set(Box::new(hint));
    }

    /// Wakes this waker when the switch turns on.
    fn tell(&self, waker: Waker) {
        self.0.watchers.lock().unwrap_or_else(PoisonError::into_inner).push(waker);
    }

    /// Lets so much time pass between two turns of `work` on the calling thread, until the switch turns on.
    pub(crate) fn every(&self, pause: Duration, mut work: impl FnMut()) {
        self.tell(Arc::new(Parked(thread::current())).into());
        while !self.is_set() {
            thread::park_timeout(pause);
            if !self.is_set() {
                work();
            }
        }
    }

    /// Turns the switch on and wakes all who watch it.
    pub fn set(&self) {
        self.0.set.store(true, Ordering::SeqCst);
        for watcher in self.0.watchers.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            watcher.wake();
        }
    }

    /// Whether the switch is on.
    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::Relaxed) || self.0.hint.get().is_some_and(|hint| hint())
    }

    /// Wakes the calling task when the switch turns on. Once per task is enough.
    pub async fn watch(&self) {
        poll_fn(|context| {
            self.tell(context.waker().clone());
            Poll::Ready(())
        })
        .await
    }

    /// The output of `future`, or `None` if the switch turns on first. The task must [`watch`](Self::watch).
    pub async fn or<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|context| {
            // In the order in which `set` acts, so that a stop between the two is not missed.
            if self.0.set.load(Ordering::SeqCst) {
                return Poll::Ready(None);
            }
            future.as_mut().poll(context).map(Some)
        })
        .await
    }
}

/// A thread that is woken in its sleep.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits until both futures have ended, or the first has failed.
pub(crate) async fn both<E>(
    a: impl Future<Output = Result<(), E>>,
    b: impl Future<Output = ()>,
) -> Result<(), E> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let mut over = (false, false);
    poll_fn(|context| {
        if !over.0
            && let Poll::Ready(result) = a.as_mut().poll(context)
        {
            result?;
            over.0 = true;
        }
        over.1 = over.1 || b.as_mut().poll(context).is_ready();
        if over == (true, true) { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

/// Waits until either future ends; the other is dropped.
pub async fn either(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|context| match a.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => b.as_mut().poll(context),
    })
    .await
}
