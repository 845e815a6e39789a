//! Answering a request without its handler: at once, cheaply, and where it is turned away with word when to come again.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use wire::Status;

use crate::handler::Response;
use crate::metrics::Counters;

/// When a request may come again that was turned away for want of something that others have now.
const SOON: Duration = Duration::from_secs(1);

/// Why a request is answered without its handler.
#[derive(Debug)]
pub(super) enum Denial {
    /// Its client has made too many, and has to wait so long.
    TooMany(Duration),
    /// As many requests as may be are with the workers.
    Full,
    /// The handler panicked when it was asked what is to be done about it.
    Panicked,
}

impl Denial {
    /// Says so, and counts it.
    #[cold]
    pub(super) fn answer(self, response: &mut Response, counters: &Counters) {
        match self {
            Denial::TooMany(wait) => too_many(response, wait, &counters.rate_limited),
            Denial::Full => unavailable(response, &counters.in_flight_refused),
            Denial::Panicked => {
                Counters::count(&counters.handler_panics);
                response.plain(Status::INTERNAL_SERVER_ERROR);
            }
        }
    }
}

/// Answers that there is no room for a request just now (503), and counts it.
pub(super) fn unavailable(response: &mut Response, counter: &AtomicU64) {
    shed(response, Status::SERVICE_UNAVAILABLE, SOON, counter);
}

/// Answers that a client has asked too often (429), and counts it.
fn too_many(response: &mut Response, wait: Duration, counter: &AtomicU64) {
    shed(response, Status::TOO_MANY_REQUESTS, wait, counter);
}

/// The client is to come again after `wait` or a little later: not all at the same moment again.
fn shed(response: &mut Response, status: Status, wait: Duration, counter: &AtomicU64) {
    Counters::count(counter);
    let seconds = wait.as_secs_f64().ceil().max(1.0) as u64 + Counters::read(counter) % 3;
    response.plain(status).field("Retry-After", seconds.to_string().as_bytes());
}
