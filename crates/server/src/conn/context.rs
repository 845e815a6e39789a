//! What the connections of one reactor share: the handler, the limits, the counters and spare responses.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::histogram::Histogram;
use engine::{Class, Error};
use rustix::io::Errno;
use wire::{DateField, Framing, RequestHead, Status};

use super::Close;
use super::addresses::{Addresses, Entered};
use super::delegate::Ticket;
use super::errand::Errand;
use super::ids::RequestIds;
use super::shed::Denial;
use crate::admission::Admission;
use crate::auto::{RouteId, Routes, Stopwatch, Took};
use crate::handler::{Handler, Place, Request, Response};
use crate::limits::Limits;
use crate::log::Logger;
use crate::metrics::{Counters, SAMPLED};
use crate::service::Pool;

/// Most responses and errands kept for the next requests: no more than were in use at once, each from its request's head to the
/// end of its answer.
const SPARE: usize = 1024;

/// A response whose field lines, or whose line of the log, took more memory than this gives it back rather than keep it.
const LINES_KEPT: usize = 4096;

/// How long a connection is left alone between two requests though slots are scarce: one that is closed sooner is likely to be
/// in use, and a request could be on its way.
const NOT_LONG: Duration = Duration::from_secs(1);

/// What the connections of one reactor share.
pub(crate) struct Context<H> {
    pub(crate) handler: Arc<H>,
    pub(crate) limits: Limits,
    pub(crate) counters: Arc<Counters>,
    /// How long handlers took on this reactor, of some of its requests, and how many it has handled.
    handled: Arc<Histogram>,
    calls: Cell<u32>,
    /// Connections of each address, where they are limited.
    pub(super) addresses: Option<Arc<Addresses>>,
    log: Option<Logger>,
    ids: Option<RequestIds>,
    #[expect(clippy::vec_box, reason = "a response travels between owners as one pointer")]
    spare: RefCell<Vec<Box<Response>>>,
    /// Where requests are handled; without workers, on the reactor.
    workers: Option<Pool>,
    /// What was learned of routes, where that says which requests are for workers.
    routes: Option<Arc<Routes>>,
    admission: Arc<Admission>,
    errands: RefCell<Vec<Arc<Errand>>>,
    /// Requests handed to workers for which none was woken yet.
    handed_over: Cell<usize>,
    /// Idle connections that are still to make room.
    leaving: Cell<usize>,
    /// The line, and when it has to be made anew.
    date: RefCell<(DateField, Instant)>,
}

/// Where a request is handled.
pub(super) enum Way {
    /// On the reactor; its route, where those are told apart.
    Here(Option<RouteId>),
    /// On a worker, with what it takes along.
    Worker(Ticket),
}

/// What a context is made of.
pub(crate) struct Setup<H> {
    pub(crate) handler: Arc<H>,
    pub(crate) limits: Limits,
    pub(crate) counters: Arc<Counters>,
    pub(crate) handled: Arc<Histogram>,
    pub(crate) workers: Option<Pool>,
    pub(crate) routes: Option<Arc<Routes>>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) addresses: Option<Arc<Addresses>>,
    pub(crate) log: Option<Logger>,
    pub(crate) ids: Option<RequestIds>,
}

impl<H: Handler> Context<H> {
    pub(crate) fn new(setup: Setup<H>) -> Self {
        let Setup { handler, limits, counters, handled, workers, routes, admission, addresses, log, ids } =
            setup;
        Context {
            handler,
            limits,
            counters,
            handled,
            calls: Cell::new(0),
            addresses,
            log,
            ids,
            spare: RefCell::default(),
            workers,
            routes,
            admission,
            errands: RefCell::default(),
            handed_over: Cell::new(0),
            leaving: Cell::new(0),
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

    /// Whether the handler wants the body of a request, if it has one and its client may make it.
    pub(super) fn admit(&self, request: &Request<'_>) -> Result<bool, Denial> {
        if self.admission.has_rates() {
            let class = self.ask(|handler| handler.class(request))?;
            let rate = self.admission.rate(request.head.path(), class, request.peer.ip(), request.now);
            rate.map_err(Denial::TooMany)?;
        }
        if request.head.framing == Framing::None {
            return Ok(false);
        }
        self.ask(|handler| handler.wants_body(request))
    }

    /// Where a request is handled, if there is room for it there.
    pub(super) fn way(&self, request: &Request<'_>) -> Result<Way, Denial> {
        if self.workers.is_none() {
            return Ok(Way::Here(None));
        }
        let route = self.routes.as_ref().and_then(|routes| routes.of(request.head, request.now));
        let learned = self.routes.as_ref().zip(route).and_then(|(routes, route)| routes.place(route));
        let place = learned.map_or_else(|| self.ask(|handler| handler.place(request)), Ok)?;
        match place {
            Place::Reactor => Ok(Way::Here(route)),
            Place::Worker => self.ticket(request, route).map(Way::Worker),
        }
    }

    /// What a request takes along to a worker, if it is let in.
    fn ticket(&self, request: &Request<'_>, route: Option<RouteId>) -> Result<Ticket, Denial> {
        let class = self.ask(|handler| handler.class(request))?;
        let permit = match class {
            // What is urgent always is let in.
            Class::High => None,
            _ => {
                let permit = self.admission.enter(request.head.path(), request.peer.ip(), request.now);
                permit.ok_or(Denial::Full)?
            }
        };
        Ok(Ticket { class, route, permit })
    }

    /// Has a request answered, if that is done here; what it takes along if it is for a worker, or its handler leaves it to one.
    pub(super) fn handle(
        &self,
        way: Way,
        request: &Request<'_>,
        response: &mut Response,
    ) -> Result<Option<Ticket>, Denial> {
        let route = match way {
            Way::Here(route) => route,
            Way::Worker(ticket) => return Ok(Some(ticket)),
        };
        self.call(request, response, route);
        if !std::mem::take(&mut response.is_left) {
            return Ok(None);
        }
        // What is learned of its route is how long the reactor takes for it, so what the worker takes does not count.
        self.ticket(request, None).map(Some)
    }

    /// Whether there are workers.
    pub(super) fn has_workers(&self) -> bool {
        self.workers.is_some()
    }

    /// Asks the handler about a request. Where it panics its own state is its own affair, as in [`call`].
    fn ask<T>(&self, question: impl FnOnce(&H) -> T) -> Result<T, Denial> {
        catch_unwind(AssertUnwindSafe(|| question(&*self.handler))).map_err(|_| Denial::Panicked)
    }

    /// Lets the handler answer. If it panics the request is answered with 500; the thread and the
    /// connection live on.
    pub(super) fn call(&self, request: &Request<'_>, response: &mut Response, route: Option<RouteId>) {
        let watch = self.routes.as_ref().zip(route).map(|(routes, route)| {
            let now = Instant::now();
            routes.begin(route, now);
            (routes, route, Stopwatch::start(now, routes.is_measured(route)))
        });
        // A look at the clock costs about as much as all that a small page needs else, so few are timed for this.
        let calls = self.calls.replace(self.calls.get().wrapping_add(1));
        let sampled = calls.is_multiple_of(SAMPLED).then(Instant::now);
        if !call(&*self.handler, request, response) {
            Counters::count(&self.counters.handler_panics);
        }
        if let Some(begun) = sampled {
            self.handled.record(begun.elapsed());
        }
        if let Some((routes, route, watch)) = watch {
            routes.end(route, watch.stop());
        }
    }

    /// Whether a worker is to time a route's handler, and its computing.
    pub(super) fn timed(&self, route: Option<RouteId>) -> Option<bool> {
        self.routes.as_ref().zip(route).map(|(routes, route)| routes.is_measured(route))
    }

    /// A worker has run a route's handler.
    pub(super) fn came_home(&self, route: RouteId, took: Took) {
        if let Some(routes) = &self.routes {
            routes.came_home(route, took);
        }
    }

    /// Hands a request over to the workers; false if their queue is full, or there are none. They are woken at the end of
    /// the turn, once for all that were handed over in it.
    pub(super) fn hand_over(&self, errand: &Arc<Errand>, class: Class) -> bool {
        let Some(workers) = &self.workers else { return false };
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

    /// Slots are scarce: so many idle connections are to end.
    pub(crate) fn make_room(&self, connections: usize) {
        self.leaving.set(connections);
    }

    /// Whether a connection that has been idle since then is to make room.
    pub(super) fn gives_way(&self, idle_since: Instant) -> bool {
        let leaving = self.leaving.get();
        if leaving == 0 || idle_since.elapsed() < NOT_LONG {
            return false;
        }
        self.leaving.set(leaving - 1);
        Counters::count(&self.counters.idle_made_room);
        true
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

    /// An empty response to a request, by its head, or by what has come of one that cannot be read. What the log will say is
    /// noted.
    pub(super) fn begin(
        &self,
        head: Result<&RequestHead<'_>, &[u8]>,
        peer: SocketAddr,
        now: Instant,
    ) -> Box<Response> {
        let mut response = self.spare.borrow_mut().pop().unwrap_or_default();
        if let Some(ids) = &self.ids {
            ids.put(head.ok(), &mut response.id);
        }
        if let Some(log) = &self.log {
            let Response { note, id, .. } = &mut *response;
            log.note(note, head, peer, (!id.is_empty()).then_some(id.as_str()), now);
        }
        response
    }

    /// A response to the same request, for when the one that is given away does not come back.
    pub(super) fn stand_in(&self, response: &Response) -> Box<Response> {
        let mut other = self.spare.borrow_mut().pop().unwrap_or_default();
        other.note.copy(&response.note);
        other.id.clone_from(&response.id);
        other
    }

    /// Counts an answer that is complete, or waits in the output to be sent.
    pub(super) fn count(&self, response: &Response) {
        self.counters.answered(response.status);
    }

    /// Whether there is an access log.
    pub(super) fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// Writes an answer down: how much of its body was sent, and whether that was all of it.
    pub(super) fn record(&self, response: &Response, sent: u64, complete: bool) {
        if let Some(log) = &self.log {
            log.record(&response.note, response.status, sent, complete);
        }
    }

    /// Writes a request down that is not answered any more, since its client left or the connection broke.
    #[cold]
    pub(super) fn forgo(&self, mut response: Box<Response>) {
        response.status = Status::CLIENT_LEFT;
        self.record(&response, 0, false);
        self.give_response(response);
    }

    pub(super) fn give_response(&self, mut response: Box<Response>) {
        let mut spare = self.spare.borrow_mut();
        let kept = response.fields.capacity().max(response.note.capacity());
        if spare.len() < SPARE && kept <= LINES_KEPT {
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
            // The kernel has given up on what it was given for a client that took none of it.
            Close::Broken(Error::Os(Errno::TIMEDOUT)) => &counters.send_timeouts,
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
