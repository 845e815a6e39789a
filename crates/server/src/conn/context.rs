//! What the connections of one reactor share: the handler, the limits, the counters and spare responses.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::Class;
use wire::{DateField, RequestHead, Status};

use super::Close;
use super::addresses::{Addresses, Entered};
use super::errand::Errand;
use super::ids::RequestIds;
use crate::handler::{Handler, Request, Response};
use crate::limits::Limits;
use crate::log::Logger;
use crate::metrics::Counters;
use crate::service::Pool;

/// Responses kept for the next request; one is in use from a request's head to the end of its answer.
const SPARE: usize = 64;

/// A response whose field lines took more memory than this gives it back rather than keep it.
const FIELDS_KEPT: usize = 4096;

/// What the connections of one reactor share.
pub(crate) struct Context<H> {
    pub(crate) handler: Arc<H>,
    pub(crate) limits: Limits,
    pub(crate) counters: Arc<Counters>,
    /// Connections of each address, where they are limited.
    pub(super) addresses: Option<Arc<Addresses>>,
    log: Option<Logger>,
    ids: Option<RequestIds>,
    #[expect(clippy::vec_box, reason = "a response travels between owners as one pointer")]
    spare: RefCell<Vec<Box<Response>>>,
    /// Where requests are handled; without workers, on the reactor.
    pub(super) workers: Option<Pool>,
    errands: RefCell<Vec<Arc<Errand>>>,
    /// Requests handed to workers for which none was woken yet.
    handed_over: Cell<usize>,
    /// The line, and when it has to be made anew.
    date: RefCell<(DateField, Instant)>,
}

/// What a context is made of.
pub(crate) struct Setup<H> {
    pub(crate) handler: Arc<H>,
    pub(crate) limits: Limits,
    pub(crate) counters: Arc<Counters>,
    pub(crate) workers: Option<Pool>,
    pub(crate) addresses: Option<Arc<Addresses>>,
    pub(crate) log: Option<Logger>,
    pub(crate) ids: Option<RequestIds>,
}

impl<H: Handler> Context<H> {
    pub(crate) fn new(setup: Setup<H>) -> Self {
        let Setup { handler, limits, counters, workers, addresses, log, ids } = setup;
        Context {
            handler,
            limits,
            counters,
            addresses,
            log,
            ids,
            spare: RefCell::new(Vec::with_capacity(SPARE)),
            workers,
            errands: RefCell::new(Vec::with_capacity(SPARE)),
            handed_over: Cell::new(0),
            date: RefCell::new((DateField::new(SystemTime::now()), Instant::now())),
        }
    }

    /// Counts a connection with those of its address, where they are limited; `Some(None)` if they are too many. One that
    /// has moved here is counted already.
    pub(super) fn enter(&self, peer: SocketAddr, has_moved: bool) -> Option<Option<Entered>> {
        let addresses = self.addresses.as_ref()?;
        let again = || Some(addresses.entered(peer.ip()));
        Some(if has_moved { again() } else { addresses.enter(peer.ip()) })
    }

    /// Lets the handler answer. If it panics the request is answered with 500; the thread and the
    /// connection live on.
    pub(super) fn call(&self, request: &Request<'_>, response: &mut Response) {
        if !call(&*self.handler, request, response) {
            Counters::count(&self.counters.handler_panics);
        }
    }

    /// Hands a request over to the workers; false if their queue is full. They are woken at the end of the turn, once
    /// for all that were handed over in it.
    pub(super) fn hand_over(&self, workers: &Pool, errand: &Arc<Errand>, class: Class) -> bool {
        let taken = workers.submit_quietly(errand.clone(), class).is_ok();
        self.handed_over.set(self.handed_over.get() + usize::from(taken));
        taken
    }

    /// Wakes workers for what was handed over since the last time.
    pub(crate) fn wake_workers(&self) {
        if let (jobs @ 1.., Some(workers)) = (self.handed_over.take(), &self.workers) {
            workers.wake(jobs);
        }
    }

    /// An errand that is not under way.
    pub(super) fn take_errand(&self) -> Arc<Errand> {
        self.errands.borrow_mut().pop().unwrap_or_else(Errand::new)
    }

    /// Takes an errand back that has returned.
    pub(super) fn give_errand(&self, errand: Arc<Errand>) {
        let mut errands = self.errands.borrow_mut();
        if errands.len() < SPARE {
            errands.push(errand);
        }
    }

    /// An empty response to a request; without a head, to one that could not be read. What the log will say is noted.
    pub(super) fn begin(
        &self,
        head: Option<&RequestHead<'_, '_>>,
        peer: SocketAddr,
        now: Instant,
    ) -> Box<Response> {
        let mut response = self.spare.borrow_mut().pop().unwrap_or_default();
        if let Some(ids) = &self.ids {
            ids.put(head, &mut response.id);
        }
        if let Some(log) = &self.log {
            let Response { note, id, .. } = &mut *response;
            log.note(note, head, peer, (!id.is_empty()).then_some(id.as_str()), now);
        }
        response
    }

    /// Counts an answer, and writes it down; `complete` if all of it was sent.
    pub(super) fn answered(&self, response: &Response, body_bytes: u64, complete: bool) {
        if complete {
            self.counters.answered(response.status);
        }
        if let Some(log) = &self.log {
            log.record(&response.note, response.status, body_bytes, complete);
        }
    }

    pub(super) fn give_response(&self, mut response: Box<Response>) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE && response.fields.capacity() <= FIELDS_KEPT {
            response.clear();
            spare.push(response);
        }
    }

    /// The `Date` field line of this second. The system's clock is read once a second; in between, `now` tells that the
    /// second is not over.
    pub(super) fn with_date<R>(&self, now: Instant, put: impl FnOnce(&DateField) -> R) -> R {
        let (date, until) = &mut *self.date.borrow_mut();
        if now >= *until {
            let time = SystemTime::now();
            date.refresh(time);
            let into_the_second = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
            *until = now + Duration::from_secs(1) - Duration::from_nanos(into_the_second.into());
        }
        put(date)
    }

    /// Counts the end of a connection.
    pub(super) fn ended(&self, close: Close) {
        let counters = &self.counters;
        Counters::count(match close {
            Close::Done | Close::Moved => return,
            Close::CutShort => &counters.requests_cut_short,
            Close::Idle => &counters.idle_timeouts,
            Close::HeadTimeout => &counters.head_timeouts,
            Close::SendTimeout => &counters.send_timeouts,
            Close::RequestTimeout => &counters.request_timeouts,
            Close::AddressFull => &counters.address_refused,
            Close::NotDiscarded => &counters.bodies_not_discarded,
            Close::FileChanged => &counters.files_changed,
            Close::Broken(error) if error.is_departure() => &counters.departures,
            Close::Broken(error) => {
                tracing::debug!(%error, "a connection broke");
                &counters.faults
            }
        });
    }
}

/// Lets a handler answer. False if it panicked: the request is then answered with 500.
pub(super) fn call<H: Handler>(handler: &H, request: &Request<'_>, response: &mut Response) -> bool {
    // The response is cleared before anyone sees it again, and a handler's own state is its own affair, as it is
    // after a panic in any thread.
    let calm = catch_unwind(AssertUnwindSafe(|| handler.handle(request, response))).is_ok();
    if !calm {
        response.clear();
        response.plain(Status::INTERNAL_SERVER_ERROR);
    }
    calm
}
