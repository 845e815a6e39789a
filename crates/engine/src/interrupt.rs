//! Ending the waits of a thread that blocks in the kernel, from another thread.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::{Duration, Instant};

use rustix::net::Shutdown;

/// How to reach one blocked thread: by closing directions of the socket that it waits on.
///
/// A thread that serves one connection has nothing else to wait for. Closing the receiving side makes a receive
/// return what has come already, and then the end of the stream.
#[derive(Debug, Default)]
pub(crate) struct Interrupt(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The connection that the thread serves.
    socket: Option<Arc<OwnedFd>>,
    /// Since when it waits for a request, with nothing of one received.
    idle: Option<Instant>,
    /// Its present connection is to end as soon as it is idle.
    rung: bool,
    /// Every connection is.
    closing: bool,
    /// Everything is to fail.
    cut: bool,
}

impl Interrupt {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread takes a connection in, or has let go of it.
    pub(crate) fn serve(&self, socket: Option<Arc<OwnedFd>>) {
        let mut state = self.state();
        if let Some(socket) = socket.as_ref().filter(|_| state.cut) {
            let _ = rustix::net::shutdown(socket, Shutdown::Both);
        }
        *state = State { socket, idle: None, rung: false, ..*state };
    }

    /// The thread is about to wait for a request. False if it should not, as its connection is to end.
    pub(crate) fn begin_idle(&self) -> bool {
        let mut state = self.state();
        let wait = !(state.rung || state.closing);
        state.idle = wait.then(Instant::now);
        wait
    }

    /// That wait is over. True if it was ended from outside.
    pub(crate) fn end_idle(&self) -> bool {
        let mut state = self.state();
        state.idle = None;
        state.rung || state.closing
    }

    /// Ends the connection if it has been idle for so long; says whether it was.
    pub(crate) fn ring(&self, idle: Duration) -> bool {
        let mut state = self.state();
        if state.rung || state.idle.is_none_or(|since| since.elapsed() < idle) {
            return false;
        }
        state.rung = true;
        close(&state, Shutdown::Read);
        true
    }

    /// Makes everything on the thread's connection fail.
    pub(crate) fn cut(&self) -> bool {
        let mut state = self.state();
        state.cut = true;
        close(&state, Shutdown::Both);
        state.socket.is_some()
    }
}

fn close(state: &State, how: Shutdown) {
    if let Some(socket) = &state.socket {
        // It fails where the client has closed the connection itself, and then there is nothing left to end.
        let _ = rustix::net::shutdown(socket, how);
    }
}

/// As the waker of a [`Stop`](crate::Stop): the connections end when they are idle.
impl Wake for Interrupt {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state();
        state.closing = true;
        if state.idle.is_some() {
            close(&state, Shutdown::Read);
        }
    }
}
