//! What came back: the result of a load, as a plain value with the units in its names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Plan;

/// Version of the JSON form of [`Outcome`]; it changes when a field changes its name or meaning.
pub const SCHEMA: &str = "plimsoll.bench/1";

/// The result of one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// [`SCHEMA`].
    pub schema: String,
    /// The load that was asked for.
    pub plan: Plan,
    /// Threads that were used.
    pub threads: u32,
    /// Seconds measured (without warm-up).
    pub duration_s: f64,
    /// Complete responses received while measuring, whatever their status.
    pub requests: u64,
    /// `requests / duration_s`.
    pub requests_per_second: f64,
    /// Complete responses that came after the end, to requests that were under way then. They are in
    /// `response_time_us` and `statuses`, so that slow ones are not lost, and not in `requests`.
    pub drained: u64,
    /// Bytes received while measuring, heads included.
    pub bytes_received: u64,
    /// `bytes_received / duration_s`.
    pub bytes_per_second: f64,
    /// Response time: from the start of sending a request (or of connecting, when a connection is made for
    /// it) to the last byte of its response, in microseconds.
    pub response_time_us: Distribution,
    /// Responses by status code.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests that got no complete response, by kind. A status of 400 or more is a response, and is
    /// counted in `statuses`.
    pub errors: Errors,
    /// What the load generator itself used.
    pub client: Client,
    /// One entry per whole second of measuring.
    pub timeline: Vec<Second>,
}

/// A distribution of times in microseconds, read from a high dynamic range histogram (3 digits).
///
/// A percentile is `None` (`null` in JSON) where fewer than 100 samples lie beyond it, since it would then
/// be read from a handful of samples; the maximum is always exact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Samples.
    pub count: u64,
    /// Smallest.
    pub min: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// Largest.
    pub max: u64,
    /// 50th percentile.
    pub p50: Option<u64>,
    /// 75th percentile.
    pub p75: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 95th percentile.
    pub p95: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    #[serde(rename = "p99.9")]
    pub p99_9: Option<u64>,
    /// 99.99th percentile.
    #[serde(rename = "p99.99")]
    pub p99_99: Option<u64>,
    /// 99.999th percentile.
    #[serde(rename = "p99.999")]
    pub p99_999: Option<u64>,
}

/// Requests without a complete response, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// The connection was refused.
    pub connect_refused: u64,
    /// Connecting took longer than the time-out.
    pub connect_timeout: u64,
    /// Connecting failed otherwise (no route, no free port, no descriptor).
    pub connect_failed: u64,
    /// The peer reset the connection.
    pub reset: u64,
    /// The response took longer than the time-out.
    pub response_timeout: u64,
    /// The connection ended inside a response.
    pub short_response: u64,
    /// The connection ended where a response was due, before its first byte.
    pub closed_early: u64,
    /// The response is not HTTP/1.
    pub malformed: u64,
    /// Sending or receiving failed otherwise.
    pub other: u64,
}

impl Errors {
    /// Every kind with its name.
    pub fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("connect_refused", self.connect_refused),
            ("connect_timeout", self.connect_timeout),
            ("connect_failed", self.connect_failed),
            ("reset", self.reset),
            ("response_timeout", self.response_timeout),
            ("short_response", self.short_response),
            ("closed_early", self.closed_early),
            ("malformed", self.malformed),
            ("other", self.other),
        ]
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, count)| count).sum()
    }
}

/// What the load generator itself used while measuring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Processor time of the whole process, user and system, in seconds.
    pub cpu_s: f64,
    /// `cpu_s / requests`, in microseconds; 0 where there was no request.
    pub cpu_us_per_request: f64,
    /// Share of one core that the busiest load thread used, 0 to 1. Above 0.8 the figures show the client.
    pub busiest_thread_share: f64,
}

/// One second of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Seconds since measuring started, at the start of this one.
    pub at_s: u64,
    /// Complete responses in this second.
    pub requests: u64,
    /// Errors in this second.
    pub errors: u64,
    /// Median response time in this second, in microseconds; 0 where there was none.
    pub p50_us: u64,
    /// 99th percentile of the response time in this second, in microseconds; 0 where there was none.
    pub p99_us: u64,
}
