//! The bounds of a connection, in bytes and in time; reaching one has an answer and is counted.

use std::time::Duration;

use engine::Deadline;
use wire::Framing;

/// How long a transfer may go before its rate counts.
pub const RATE_GRACE: Duration = Duration::from_secs(10);

/// The bounds of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The head of a request: 431, or 414 where it is the target that is too long.
    pub head: wire::Limits,
    /// Time for the whole head of a request, from its first byte (or from the start of the connection): 408.
    pub head_time: Duration,
    /// How long a connection may stay open between requests: closed without a word.
    pub idle_time: Duration,
    /// How long the client may take none of a response: the connection is cut.
    pub send_time: Duration,
    /// Bytes in a second that a client must send of a body, and take of a response, on the average and after
    /// [`RATE_GRACE`]: 408, or the connection is cut. 0 for no such limit.
    pub least_rate: u64,
    /// Time for a whole request, from its first byte to the last one of its answer. What the client could still be told
    /// then is 503, also while a worker has the request; otherwise the connection is cut. A handler on the thread that owns the
    /// connection cannot be interrupted: its answer is replaced once it is there.
    pub request_time: Option<Duration>,
    /// How long requests may wait for a worker, in the long run: where the shortest wait of 100 ms is longer, those that have
    /// waited twice as long get 503. `None` for no such limit.
    pub queue_delay: Option<Duration>,
    /// Requests after which a connection is closed, in order; 0 for no limit.
    pub requests_per_connection: u32,
    /// Connections that one address may have at the same time (for IPv6, one /64 network): 503. 0 for no limit.
    pub connections_per_address: u32,
    /// Largest request body that a handler can have: 413.
    pub body_bytes: u64,
    /// Time for the whole body of a request: 408.
    pub body_time: Duration,
    /// A request body that nobody wants is read and dropped up to this many bytes, so that the connection can
    /// go on; past that it is closed after the answer.
    pub discard_bytes: u64,
    /// Time for reading such a body, and for a client to read the last answer before its connection is closed.
    pub discard_time: Duration,
}

impl Limits {
    /// By when a transfer that began at `begun` must go on, if so many bytes are through.
    pub(crate) fn at_least_rate(&self, begun: Deadline, bytes: u64) -> Deadline {
        match bytes.saturating_mul(1000).checked_div(self.least_rate) {
            // A day is as good as for ever, and does not overflow.
            Some(millis) => begun.later(RATE_GRACE + Duration::from_millis(millis.min(86_400_000))),
            None => Deadline::NEVER,
        }
    }

    /// Whether a body is known to be too long to be read over, if nobody wants it.
    pub(crate) fn is_too_long(&self, body: Framing) -> bool {
        matches!(body, Framing::Length(length) if length > self.discard_bytes)
    }

    /// By when a whole request that began at `begun` must be over.
    pub(crate) fn whole_request(&self, begun: Deadline) -> Deadline {
        self.request_time.map_or(Deadline::NEVER, |time| begun.later(time))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            head: wire::Limits::default(),
            head_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(60),
            send_time: Duration::from_secs(30),
            least_rate: 500,
            request_time: None,
            queue_delay: None,
            requests_per_connection: 0,
            connections_per_address: 0,
            body_bytes: 1024 * 1024,
            body_time: Duration::from_secs(30),
            discard_bytes: 64 * 1024,
            discard_time: Duration::from_secs(5),
        }
    }
}
