//! Mail for one thread: any thread may post, the owner takes everything at once, and only a sleeper is woken.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use crate::sync::{Mutex, MutexGuard, lock};

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
    fn state(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
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

#[cfg(all(test, shuttle))]
mod models {
    use std::sync::Arc;

    use shuttle::{future::block_on, thread};

    use super::*;

    #[test]
    fn mail_is_never_slept_through() {
        let model = || {
            let inbox = Arc::new(Inbox::default());
            let posters: Vec<_> = (0..2)
                .map(|poster| {
                    let inbox = inbox.clone();
                    thread::spawn(move || (0..2).for_each(|n| inbox.post(poster * 2 + n).unwrap()))
                })
                .collect();
            let mut mail = Vec::new();
            // A wake-up that is lost leaves this waiting, which the checker reports as a deadlock.
            while mail.len() < 4 {
                block_on(inbox.take(&mut mail));
            }
            posters.into_iter().for_each(|poster| poster.join().unwrap());
            let closer = inbox.clone();
            let closing = thread::spawn(move || closer.close());
            block_on(inbox.wait_closed(&mut mail));
            closing.join().unwrap();
            assert!(inbox.post(9).is_err());
            mail.sort_unstable();
            assert_eq!(mail, [0, 1, 2, 3]);
        };
        shuttle::check_random(model, 3000);
        shuttle::check_pct(model, 3000, 3);
    }
}
