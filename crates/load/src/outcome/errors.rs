//! Requests that got no complete response, by what went wrong.

use serde::{Deserialize, Serialize};

/// Requests without a complete response, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Errors {
    /// The connection was refused.
    pub connect_refused: u64,
    /// Connecting took longer than the time-out.
    pub connect_timeout: u64,
    /// Connecting failed otherwise (no route, no free port, no descriptor).
    pub connect_failed: u64,
    /// The request could not be sent within the time-out.
    pub send_timeout: u64,
    /// The first byte of the response did not come within the time-out.
    pub first_byte_timeout: u64,
    /// The response began within the time-out, and did not end.
    pub transfer_timeout: u64,
    /// The peer reset the connection.
    pub reset: u64,
    /// The connection ended inside a response.
    pub short_response: u64,
    /// The connection ended where a response was due, before its first byte.
    pub closed_early: u64,
    /// The response is not HTTP/1, or something came on an idle connection, where nothing was asked.
    pub malformed: u64,
    /// The response is complete, with a status that was not expected.
    pub bad_status: u64,
    /// The response is complete, and its content has another length or hash than was expected.
    pub bad_body: u64,
    /// Sending or receiving failed otherwise.
    pub other: u64,
}

impl Errors {
    /// Every kind with its name.
    pub fn named(&self) -> [(&'static str, u64); 13] {
        let mut errors = *self;
        errors.fields().map(|(name, count)| (name, *count))
    }

    fn fields(&mut self) -> [(&'static str, &mut u64); 13] {
        [
            ("connect_refused", &mut self.connect_refused),
            ("connect_timeout", &mut self.connect_timeout),
            ("connect_failed", &mut self.connect_failed),
            ("send_timeout", &mut self.send_timeout),
            ("first_byte_timeout", &mut self.first_byte_timeout),
            ("transfer_timeout", &mut self.transfer_timeout),
            ("reset", &mut self.reset),
            ("short_response", &mut self.short_response),
            ("closed_early", &mut self.closed_early),
            ("malformed", &mut self.malformed),
            ("bad_status", &mut self.bad_status),
            ("bad_body", &mut self.bad_body),
            ("other", &mut self.other),
        ]
    }

    pub(crate) fn add(&mut self, other: &Errors) {
        self.fields().into_iter().zip(other.named()).for_each(|((_, sum), (_, count))| *sum += count);
    }

    /// Those without a connection.
    pub(crate) fn connecting(&self) -> u64 {
        self.connect_refused + self.connect_timeout + self.connect_failed
    }

    /// Those that ran out of time.
    pub fn timeouts(&self) -> u64 {
        self.connect_timeout + self.send_timeout + self.first_byte_timeout + self.transfer_timeout
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, count)| count).sum()
    }
}
