//! Mail for one thread: any thread may post, the owner takes everything at once, and only a sleeper is woken.

use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::task::{Poll, Waker};

/// A thread's mailbox.
#[derive(Debug)]
pub struct Inbox<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    mail: Vec<T>,
    /// Set while the owner waits.
    owner: Option<Waker>,
    closed: bool,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Inbox { state: Mutex::new(State { mail: Vec::new(), owner: None, closed: false }) }
    }
}

impl<T> Inbox<T> {
    fn state(&self) -> std::sync::MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts one piece of mail, or gives it back if the owner has closed the box.
    pub fn post(&self, mail: T) -> Result<(), T> {
        let mut state = self.state();
        if state.closed {
            return Err(mail);
        }
        state.mail.push(mail);
        let owner = state.owner.take();
        drop(state);
        if let Some(owner) = owner {
            owner.wake();
        }
        Ok(())
    }

    /// Waits for mail and moves all of it behind what is in `into`.
    pub async fn take(&self, into: &mut Vec<T>) {
        poll_fn(|context| {
            let mut state = self.state();
            if state.mail.is_empty() {
                state.owner = Some(context.waker().clone());
                return Poll::Pending;
            }
            into.append(&mut state.mail);
            Poll::Ready(())
        })
        .await
    }

    /// Takes no more mail; what is there can still be taken. The owner is woken.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        if let Some(owner) = state.owner.take() {
            owner.wake();
        }
    }

    /// Waits until the box is closed, and moves what is left in it behind what is in `into`.
    pub async fn wait_closed(&self, into: &mut Vec<T>) {
        poll_fn(|context| {
            let mut state = self.state();
            if !state.closed {
                state.owner = Some(context.waker().clone());
                return Poll::Pending;
            }
            into.append(&mut state.mail);
            Poll::Ready(())
        })
        .await
    }
}
