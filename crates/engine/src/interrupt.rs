//! Ending the waits of a thread that blocks in the kernel, from another thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::Shutdown;

use crate::sync::{Mutex, MutexGuard, lock};

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
        lock(&self.0)
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

    /// Lets every connection end as soon as it is idle: this one, and those to come.
    fn close(&self) {
        let mut state = self.state();
        state.closing = true;
        if state.idle.is_some() {
            close(&state, Shutdown::Read);
        }
    }

    /// Ends the connection if it has been idle for so long; says whether it was.
    fn ring(&self, idle: Duration) -> bool {
        let mut state = self.state();
        if state.rung || state.idle.is_none_or(|since| since.elapsed() < idle) {
            return false;
        }
        state.rung = true;
        close(&state, Shutdown::Read);
        true
    }

    /// Makes everything on the thread's connection fail.
    fn cut(&self) -> bool {
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

/// The threads of a crew, each in its place, as far as they can be reached.
pub(crate) struct Interrupts {
    places: Vec<Mutex<Option<Arc<Interrupt>>>>,
    closing: AtomicBool,
    cut: AtomicBool,
}

impl Interrupts {
    pub(crate) fn new(places: usize) -> Self {
        Interrupts {
            places: (0..places).map(|_| Mutex::default()).collect(),
            closing: AtomicBool::new(false),
            cut: AtomicBool::new(false),
        }
    }

    /// The thread of a place can be reached from now on.
    pub(crate) fn register(&self, place: usize, interrupt: Arc<Interrupt>) {
        *lock(&self.places[place]) = Some(interrupt.clone());
        // After it can be reached, so that one of the two sees the other.
        if self.closing.load(Ordering::SeqCst) {
            interrupt.close();
        }
        if self.are_cut() {
            interrupt.cut();
        }
    }

    /// The thread of a place has ended.
    pub(crate) fn forget(&self, place: usize) {
        *lock(&self.places[place]) = None;
    }

    /// Lets every connection end as soon as it is idle, from now on.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.all().for_each(|interrupt| interrupt.close());
    }

    /// Makes everything fail; says how many connections that struck.
    pub(crate) fn cut(&self) -> usize {
        self.cut.store(true, Ordering::SeqCst);
        self.all().filter(|interrupt| interrupt.cut()).count()
    }

    /// Whether everything is to fail, also what no thread has begun with.
    pub(crate) fn are_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    /// Ends the connection of the thread in one place, if there is one that has been idle for so long; says whether there was.
    pub(crate) fn ring(&self, place: usize, idle: Duration) -> bool {
        self.at(place).is_some_and(|interrupt| interrupt.ring(idle))
    }

    /// How many threads there can be.
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    fn at(&self, place: usize) -> Option<Arc<Interrupt>> {
        lock(&self.places[place]).clone()
    }

    fn all(&self) -> impl Iterator<Item = Arc<Interrupt>> {
        (0..self.places.len()).filter_map(|place| self.at(place))
    }
}
