//! Requests that take time on purpose: business time for every request, and routes to experiment with.

mod sleep;

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use engine::histogram::{Distribution, Histogram};
use engine::{Class, clock};
use thread_local::ThreadLocal;
use wire::{Method, Status};

use crate::handler::{Body, Handler, Pace, Place, Request, Response};

/// Longest business time of one request.
pub const MOST_WORK: Duration = Duration::from_secs(60);

/// Most bytes that a route makes up for one answer.
const MOST_BYTES: usize = 64 << 20;

/// Most bytes per second of a stream.
const MOST_RATE: u64 = 1 << 30;

/// Business time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Time in which the thread waits, as for a database.
    pub sleep: Duration,
    /// Time in which the thread computes: processor time.
    pub spin: Duration,
}

/// Turns of a loop between two looks at the clock, which is a system call.
const LOOPS: usize = 64;

impl Work {
    /// No business time.
    pub const NONE: Work = Work { sleep: Duration::ZERO, spin: Duration::ZERO };

    /// Takes the time, on the calling thread.
    pub fn take(self) {
        if !self.sleep.is_zero() {
            sleep::on_average(self.sleep);
        }
        if !self.spin.is_zero() {
            // The thread's own time: one that has lost its processor for a while has not computed meanwhile.
            let end = clock::of_thread() + self.spin;
            while clock::of_thread() < end {
                (0..LOOPS).for_each(|_| std::hint::spin_loop());
            }
        }
    }
}

/// An application with business time added to every request, and with the workload routes if they are wanted.
pub struct Workloads<H> {
    inner: H,
    each: Work,
    /// Business time of `/slow`; without it there are no routes.
    slow: Option<Duration>,
    /// How long the business time of each request really took, by thread.
    achieved: ThreadLocal<Histogram>,
    /// Requests so far of which only some have business time.
    mixed: AtomicU64,
}

impl<H> Workloads<H> {
    /// Adds `each` to every request of `inner`; with `slow` the routes are served before it.
    pub fn new(inner: H, each: Work, slow: Option<Duration>) -> Self {
        Workloads { inner, each, slow, achieved: ThreadLocal::new(), mixed: AtomicU64::new(0) }
    }

    /// How long the business time of the requests so far really took. A sleep ends late on a machine that is busy.
    pub fn achieved(&self) -> Distribution {
        Distribution::of(&self.achieved)
    }

    fn take(&self, work: Work) {
        if work != Work::NONE {
            let start = Instant::now();
            work.take();
            self.achieved.get_or_default().record(start.elapsed());
        }
    }

    /// Whether the next of requests of which one in so many has business time is that one: the first is, and every so many
    /// after it.
    fn is_its_turn(&self, one_in: NonZeroU64) -> bool {
        one_in == ALWAYS || self.mixed.fetch_add(1, Relaxed) % one_in == 0
    }

    /// The route for a request, if it is one.
    fn route(&self, request: &Request<'_>) -> Option<Route> {
        let slow = self.slow?;
        let query = request.head.query().unwrap_or_default();
        match request.head.path() {
            "/fast" => Some(Route::Fast),
            "/slow" => Some(Route::Work(Work { sleep: slow, ..Work::NONE }, ALWAYS, None)),
            "/work" => Some(parse_work(query)),
            "/bytes" => Some(parse_bytes(query)),
            "/stream" => Some(parse_stream(query)),
            "/echo" => Some(Route::Echo),
            _ => None,
        }
    }
}

/// A workload route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// Answered at once, on the reactor: source C's fast request.
    Fast,
    /// Business time for one request in so many, and then as many bytes as were asked for.
    Work(Work, NonZeroU64, Option<usize>),
    /// Bytes at a rate.
    Stream(Pace),
    /// What came comes back.
    Echo,
    /// The query makes no sense; what would.
    Bad(&'static str),
}

/// Every request has business time.
const ALWAYS: NonZeroU64 = NonZeroU64::MIN;

/// Most requests of which only one has business time.
const MOST_IN: u64 = 1_000_000;

const WORK_QUERY: &str = "expected /work?sleep=200us&spin=50us&one_in=10&bytes=1024, times up to 60s, at most 64 MiB, one \
                          request in up to 1000000 with its times\n";
const STREAM_QUERY: &str =
    "expected /stream?rate=65536&for=10s, bytes per second up to 1 GiB, times up to 60s\n";
const BYTES_QUERY: &str = "expected /bytes?n=1024, at most 64 MiB\n";

fn parse_work(query: &str) -> Route {
    let (mut work, mut one_in, mut bytes) = (Work::NONE, ALWAYS, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let parsed = match pair.split_once('=') {
            Some(("sleep", value)) => parse_time(value).map(|time| work.sleep = time),
            Some(("spin", value)) => parse_time(value).map(|time| work.spin = time),
            Some(("one_in", value)) => parse_share(value).map(|share| one_in = share),
            Some(("bytes", value)) => parse_size(value).map(|size| bytes = Some(size)),
            _ => None,
        };
        if parsed.is_none() {
            return Route::Bad(WORK_QUERY);
        }
    }
    Route::Work(work, one_in, bytes)
}

fn parse_stream(query: &str) -> Route {
    let (mut rate, mut time) = (None, None);
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("rate", value)) => {
                rate = value.parse::<u64>().ok().filter(|rate| (1..=MOST_RATE).contains(rate))
            }
            Some(("for", value)) => time = parse_time(value),
            _ => return Route::Bad(STREAM_QUERY),
        }
    }
    let (Some(bytes_per_second), Some(time)) = (rate, time) else { return Route::Bad(STREAM_QUERY) };
    let length = u128::from(bytes_per_second) * time.as_micros() / 1_000_000;
    Route::Stream(Pace { length: length as u64, bytes_per_second })
}

fn parse_bytes(query: &str) -> Route {
    match query.strip_prefix("n=").and_then(parse_size) {
        Some(size) => Route::Work(Work::NONE, ALWAYS, Some(size)),
        None => Route::Bad(BYTES_QUERY),
    }
}

/// A number with its unit: ns, us, ms or s.
fn parse_time(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let ns = match unit {
        "ns" => Some(number),
        "us" => number.checked_mul(1_000),
        "ms" => number.checked_mul(1_000_000),
        "s" => number.checked_mul(1_000_000_000),
        _ => None,
    }?;
    Some(Duration::from_nanos(ns)).filter(|time| *time <= MOST_WORK)
}

fn parse_share(text: &str) -> Option<NonZeroU64> {
    text.parse().ok().filter(|share: &NonZeroU64| share.get() <= MOST_IN)
}

fn parse_size(text: &str) -> Option<usize> {
    text.parse().ok().filter(|size| *size <= MOST_BYTES)
}

impl<H: Handler> Handler for Workloads<H> {
    fn handle(&self, request: &Request<'_>, response: &mut Response) {
        let Some(route) = self.route(request) else {
            self.take(self.each);
            // Business time is not taken twice.
            let may_be_left = request.may_be_left && self.each == Work::NONE;
            return self.inner.handle(&Request { may_be_left, ..*request }, response);
        };
        let allowed = match (route, request.head.method) {
            (Route::Echo, Method::Post | Method::Put) => true,
            (Route::Echo, _) => false,
            (_, method) => matches!(method, Method::Get | Method::Head),
        };
        if !allowed {
            let allow: &[u8] = if route == Route::Echo { b"POST, PUT" } else { b"GET, HEAD" };
            response.plain(Status::METHOD_NOT_ALLOWED).field("Allow", allow);
            return;
        }
        let media: &[u8] = match route {
            Route::Echo => b"application/octet-stream",
            _ => b"text/plain; charset=utf-8",
        };
        response.field("Content-Type", media);
        match route {
            Route::Fast => response.body(Body::Static(b"fast\n")),
            Route::Bad(expected) => {
                response.status(Status::BAD_REQUEST).body(Body::Static(expected.as_bytes()))
            }
            Route::Stream(pace) => response.body(Body::Paced(pace)),
            Route::Echo => response.body(Body::Owned(request.body.to_vec())),
            Route::Work(work, one_in, bytes) => {
                if self.is_its_turn(one_in) {
                    self.take(work);
                }
                response.body(bytes.map_or(Body::Static(b"done\n"), |n| Body::Owned(vec![b'x'; n])))
            }
        };
    }

    fn wants_body(&self, request: &Request<'_>) -> bool {
        self.slow.is_some() && request.head.path() == "/echo" || self.inner.wants_body(request)
    }

    fn class(&self, request: &Request<'_>) -> Class {
        self.inner.class(request)
    }

    fn place(&self, request: &Request<'_>) -> Place {
        match self.route(request) {
            Some(Route::Fast | Route::Bad(_) | Route::Stream(_) | Route::Echo) => Place::Reactor,
            Some(Route::Work(..)) => Place::Worker,
            None if self.each == Work::NONE => self.inner.place(request),
            None => Place::Worker,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_of_routes() {
        let ms = Duration::from_millis;
        let work = Work { sleep: ms(2), spin: Duration::from_micros(50) };
        assert_eq!(parse_work("sleep=2ms&spin=50us&bytes=10"), Route::Work(work, ALWAYS, Some(10)));
        let one_in_ten = NonZeroU64::new(10).unwrap();
        assert_eq!(parse_work("one_in=10"), Route::Work(Work::NONE, one_in_ten, None));
        assert_eq!(parse_work(""), Route::Work(Work::NONE, ALWAYS, None));
        assert_eq!(parse_bytes("n=0"), Route::Work(Work::NONE, ALWAYS, Some(0)));
        for query in [
            "sleep=1",
            "sleep=1h",
            "sleep=-1ms",
            "sleep=61s",
            "bytes=67108865",
            "x=1",
            "sleep",
            "one_in=0",
            "one_in=1000001",
            "spin=99999999999999999999s",
        ] {
            assert_eq!(parse_work(query), Route::Bad(WORK_QUERY), "{query}");
        }
        assert_eq!(parse_bytes("n="), Route::Bad(BYTES_QUERY));
        let pace = Pace { length: 32_768, bytes_per_second: 65_536 };
        assert_eq!(parse_stream("rate=65536&for=500ms"), Route::Stream(pace));
        for query in
            ["", "rate=1", "for=1s", "rate=0&for=1s", "rate=9999999999&for=1s", "rate=1&for=61s", "x=1"]
        {
            assert_eq!(parse_stream(query), Route::Bad(STREAM_QUERY), "{query}");
        }
    }

    #[test]
    fn one_request_in_so_many_has_its_turn_and_those_without_a_share_do_not_count() {
        let workloads = Workloads::new((), Work::NONE, None);
        let ten = NonZeroU64::new(10).unwrap();
        let turns: Vec<usize> = (0..35).filter(|_| workloads.is_its_turn(ten)).collect();
        assert_eq!(turns, [0, 10, 20, 30]);
        assert!((0..5).all(|_| workloads.is_its_turn(ALWAYS)));
        let next = (35..50).find(|_| workloads.is_its_turn(ten));
        assert_eq!(next, Some(40));
    }

    #[test]
    fn work_takes_at_least_its_time() {
        for work in [
            Work { sleep: Duration::from_millis(3), ..Work::NONE },
            Work { spin: Duration::from_millis(3), ..Work::NONE },
        ] {
            let start = Instant::now();
            work.take();
            assert!(start.elapsed() >= Duration::from_millis(3));
        }
    }
}
