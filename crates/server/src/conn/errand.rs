//! A request on its way to a worker and back: one small piece of memory that both sides hold.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Instant;

use engine::Buf;
use wire::parse_request;

use super::context::call;
use crate::admission::Permit;
use crate::auto::{Stopwatch, Took};
use crate::handler::{Handler, Request, Response};

/// What the queue of a pool holds for each request: a pointer.
///
/// The connection and the worker share it, so that whichever of them ends first leaves the other's memory valid:
/// a connection may be gone when its answer comes, which is then dropped.
pub struct Errand(Mutex<State>);

struct State {
    cargo: Option<Cargo>,
    /// The worker has brought the cargo back.
    done: bool,
    /// The connection has ended, and waits no more.
    abandoned: bool,
    waker: Option<Waker>,
}

/// What travels: the input with the request's head at its front, and the response to fill in.
pub(crate) struct Cargo {
    pub(crate) input: Buf,
    /// The request's body, if the handler wanted it.
    pub(crate) body: Vec<u8>,
    pub(crate) response: Box<Response>,
    pub(crate) peer: SocketAddr,
    /// The handler panicked.
    pub(crate) panicked: bool,
    /// It has waited too long, and nobody has looked at it.
    pub(crate) turned_away: bool,
    /// Whether the handler is to be timed, and whether that goes for its computing too.
    pub(crate) timed: Option<bool>,
    /// How long the handler took, if it was timed.
    pub(crate) took: Option<Took>,
    /// What it was let in with.
    pub(crate) permit: Option<Permit>,
}

impl Cargo {
    /// A request on its way to a worker.
    pub(super) fn new(input: Buf, body: Vec<u8>, response: Box<Response>, peer: SocketAddr) -> Self {
        Cargo {
            input,
            body,
            response,
            peer,
            panicked: false,
            turned_away: false,
            timed: None,
            took: None,
            permit: None,
        }
    }
}

impl Errand {
    /// An errand that is not under way.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Errand(Mutex::new(State { cargo: None, done: false, abandoned: false, waker: None })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the cargo; before it is handed to a worker.
    pub(super) fn load(&self, cargo: Cargo) {
        *self.state() = State { cargo: Some(cargo), done: false, abandoned: false, waker: None };
    }

    /// Takes the cargo back that no worker took.
    pub(super) fn unload(&self) -> Option<Cargo> {
        self.state().cargo.take()
    }

    /// Takes the cargo, on a worker; `None` if nobody waits for it any more, whose work need not be done.
    fn begin(&self) -> Option<Cargo> {
        let (cargo, abandoned) = {
            let mut state = self.state();
            (state.cargo.take(), state.abandoned)
        };
        cargo.filter(|_| !abandoned)
    }

    /// Brings the cargo back; the worker's last act. False if nobody waits for it any more: it is dropped.
    pub(crate) fn complete(&self, cargo: Cargo) -> bool {
        let mut state = self.state();
        if state.abandoned {
            return false;
        }
        state.cargo = Some(cargo);
        state.done = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Waits until the cargo is back, on the connection's side. Dropping the wait abandons the errand.
    pub(super) async fn returned(&self) -> Option<Cargo> {
        let wait = Wait(self);
        let cargo = poll_fn(|context| {
            let mut state = wait.0.state();
            if state.done {
                return Poll::Ready(state.cargo.take());
            }
            match &mut state.waker {
                Some(waker) => waker.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            Poll::Pending
        })
        .await;
        std::mem::forget(wait);
        cargo
    }

    /// Lets the handler answer one request, on a worker. False if its connection was gone by then.
    pub(crate) fn run<H: Handler>(&self, handler: &H, limits: &wire::Limits) -> bool {
        let Some(mut cargo) = self.begin() else { return false };
        // The connection has found a whole head there before it sent the errand off.
        if let Ok(Some((head, _))) = parse_request(cargo.input.bytes(), limits) {
            let now = Instant::now();
            let request =
                Request { head: &head, peer: cargo.peer, body: &cargo.body, now, may_be_left: false };
            let watch = cargo.timed.map(|computing| Stopwatch::start(now, computing));
            cargo.panicked = !call(handler, &request, &mut cargo.response);
            cargo.took = watch.map(Stopwatch::stop);
        }
        self.complete(cargo)
    }

    /// Sends an errand back that has waited too long. False if its connection was gone by then.
    pub(crate) fn turn_away(&self) -> bool {
        let Some(cargo) = self.begin() else { return false };
        self.complete(Cargo { turned_away: true, ..cargo })
    }
}

/// A wait for an errand.
struct Wait<'a>(&'a Errand);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.state().abandoned = true;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn cargo() -> Cargo {
        let mut input = Buf::new();
        input.append(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        let peer = ([127, 0, 0, 1], 1).into();
        Cargo::new(input, Vec::new(), Box::default(), peer)
    }

    fn poll<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> Poll<T> {
        future.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()))
    }

    #[test]
    fn what_travels_through_the_queue_is_small() {
        assert!(size_of::<Arc<Errand>>() <= 96);
    }

    #[test]
    fn an_answer_comes_home() {
        let errand = Errand::new();
        errand.load(cargo());
        let mut wait = Box::pin(errand.returned());
        assert!(poll(&mut wait).is_pending());
        let handler = |request: &Request<'_>, response: &mut Response| {
            response.field("X-Path", request.head.path().as_bytes());
        };
        assert!(errand.run(&handler, &wire::Limits::default()));
        let Poll::Ready(Some(cargo)) = poll(&mut wait) else { panic!("the cargo is not back") };
        assert_eq!(cargo.response.fields, b"X-Path: /x\r\n");
    }

    #[test]
    fn an_answer_whose_connection_is_gone_is_dropped_safely() {
        let errand = Errand::new();
        errand.load(cargo());
        let mut wait = Box::pin(errand.returned());
        assert!(poll(&mut wait).is_pending());
        drop(wait);
        let (ran, runs) = mpsc::channel();
        let handler = move |_: &Request<'_>, _: &mut Response| ran.send(()).unwrap();
        assert!(!errand.run(&handler, &wire::Limits::default()));
        assert!(runs.try_recv().is_err(), "nobody waits for it");
    }
}
