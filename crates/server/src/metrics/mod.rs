//! What the connections of one reactor count: one thread writes, any may read and sum.

mod headroom;
mod process;
mod prometheus;
mod snapshot;
mod times;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::Status;

pub use headroom::Headroom;
pub use process::Process;
pub use prometheus::prometheus;
pub use snapshot::{Monitor, Pool, RouteMoves, Snapshot, Thread};

/// Of so many requests that a thread which owns connections handles itself, the handler of one is timed.
pub const SAMPLED: u32 = 64;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one reactor.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        /// Counters at one moment, summed over reactors.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Totals {
            /// Sums the counters of all reactors.
            pub fn of<'a>(counters: impl IntoIterator<Item = &'a Arc<Counters>>) -> Self {
                let mut totals = Totals::default();
                for counters in counters {
                    $(totals.$name += counters.$name.load(Ordering::Relaxed);)*
                }
                totals
            }

            /// Every counter with its name.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Requests answered, whatever the status. The answers may still wait to be sent.
    requests,
    /// Answers with status 2xx.
    responses_2xx,
    /// Answers with status 3xx.
    responses_3xx,
    /// Answers with status 4xx.
    responses_4xx,
    /// Answers with status 5xx.
    responses_5xx,
    /// Requests whose head was refused: malformed, ambiguous or too large.
    heads_refused,
    /// Connections whose request head did not come in time.
    head_timeouts,
    /// Connections closed after being idle for too long.
    idle_timeouts,
    /// Connections that were idle and closed to make room for others.
    idle_made_room,
    /// Connections cut because the client took too long to take its response.
    send_timeouts,
    /// Connections that ended in the middle of a request.
    requests_cut_short,
    /// Connections that the client reset, or left while an answer was on its way.
    departures,
    /// Connections closed because a request body that nobody wanted was too large or too slow to be read over.
    bodies_not_discarded,
    /// Connections closed since they had as many requests as they may.
    last_requests,
    /// Requests that took too long as a whole.
    request_timeouts,
    /// Connections refused because their address had as many as it may.
    address_refused,
    /// Connections cut because a file was changed or cut short while it was being sent.
    files_changed,
    /// Requests whose body was refused: too large, too slow or malformed.
    bodies_refused,
    /// Handlers that panicked; each was answered with 500.
    handler_panics,
    /// Requests answered with 503 because the queue of the workers was full.
    queue_refused,
    /// Requests answered with 503 because they had waited too long for a worker.
    queue_late,
    /// Requests turned away since their client made too many (429).
    rate_limited,
    /// Requests turned away since as many as may be were with the workers (503).
    in_flight_refused,
    /// Bytes of requests.
    bytes_received,
    /// Bytes of answers that were handed to the kernel.
    bytes_sent,
    /// Connections that ended for a fault of the kernel.
    faults,
}

impl Totals {
    /// Requests that were answered and not turned away: an overloaded server carries these, and not what is asked of it.
    pub(crate) fn carried(&self) -> u64 {
        let away = self.queue_refused + self.queue_late + self.in_flight_refused + self.rate_limited;
        // A reader may see one of them counted before the other.
        self.requests.saturating_sub(away)
    }
}

impl Counters {
    /// Adds one.
    pub(crate) fn count(counter: &AtomicU64) {
        Self::add(counter, 1);
    }

    /// Adds a number.
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        engine::counter::add(counter, n);
    }

    /// Reads a counter.
    pub(crate) fn read(counter: &AtomicU64) -> u64 {
        counter.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, status: Status) {
        Self::count(&self.requests);
        Self::count(match status.code() {
            ..300 => &self.responses_2xx,
            300..400 => &self.responses_3xx,
            400..500 => &self.responses_4xx,
            _ => &self.responses_5xx,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_turned_away_is_not_carried() {
        let counters = Arc::new(Counters::default());
        for (status, reason) in [
            (Status::OK, None),
            (Status::NOT_FOUND, None),
            (Status::SERVICE_UNAVAILABLE, Some(&counters.queue_refused)),
            (Status::SERVICE_UNAVAILABLE, Some(&counters.queue_late)),
            (Status::SERVICE_UNAVAILABLE, Some(&counters.in_flight_refused)),
            (Status::TOO_MANY_REQUESTS, Some(&counters.rate_limited)),
        ] {
            reason.into_iter().for_each(Counters::count);
            counters.answered(status);
        }
        let totals = Totals::of([&counters]);
        assert_eq!((totals.requests, totals.carried()), (6, 2));
    }
}
