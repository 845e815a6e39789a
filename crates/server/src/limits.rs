//! The bounds of a connection, in bytes and in time; reaching one has an answer and is counted.

use std::time::Duration;

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
    /// Largest request body that a handler can have: 413.
    pub body_bytes: u64,
    /// Time for the whole body of a request: 408.
    pub body_time: Duration,
    /// A request body that nobody wants is read and dropped up to this many bytes, so that the connection can
    /// go on; past that it is closed.
    pub discard_bytes: u64,
    /// Time for reading such a body, and for a client to read an error before its connection is closed.
    pub discard_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            head: wire::Limits::default(),
            head_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(60),
            send_time: Duration::from_secs(30),
            body_bytes: 1024 * 1024,
            body_time: Duration::from_secs(30),
            discard_bytes: 64 * 1024,
            discard_time: Duration::from_secs(5),
        }
    }
}
