//! Turning a request away: at once, cheaply, and with word when to come again.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use wire::Status;

use crate::handler::Response;
use crate::metrics::Counters;

/// Answers that a request is turned away, and counts it. The client is to come again after `wait` or a little later: not all at
/// the same moment again.
pub(super) fn shed(response: &mut Response, status: Status, wait: Duration, counter: &AtomicU64) {
    Counters::count(counter);
    let seconds = wait.as_secs_f64().ceil().max(1.0) as u64 + Counters::read(counter) % 3;
    response.plain(status).field("Retry-After", seconds.to_string().as_bytes());
}
