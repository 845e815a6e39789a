//! What came back: the result of a load, as a plain value with the units in its names.

mod errors;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::errors::Errors;

use crate::Plan;
use crate::sample::ServerUse;
use crate::verdict::Verdict;

/// Version of the JSON form of [`Outcome`]; it changes when a field changes its name or meaning.
pub const SCHEMA: &str = "plimsoll.bench/3";

/// The result of one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// [`SCHEMA`].
    pub schema: String,
    /// The load that was asked for.
    pub plan: Plan,
    /// Threads that were used.
    pub threads: u32,
    /// What they waited with: `io_uring` or `epoll`, or `blocking` for a thread per client.
    #[serde(default)]
    pub driver: String,
    /// Seconds measured (without warm-up).
    pub duration_s: f64,
    /// Complete responses received while measuring, whatever their status.
    pub requests: u64,
    /// In an open loop, complete responses received while measuring to requests that were due before. They are in no
    /// distribution, since not all of those were measured.
    #[serde(default)]
    pub carried_over: u64,
    /// `(requests + carried_over) / duration_s`.
    pub requests_per_second: f64,
    /// Complete responses that came after the end, to requests that were under way then. They are in
    /// `response_time_us` and `statuses`, so that slow ones are not lost, and not in `requests`.
    pub drained: u64,
    /// Connections that were made anew, since the server had ended them while they lay idle, before a request was sent on them;
    /// they are no errors.
    #[serde(default)]
    pub reconnects: u64,
    /// Times in `response_time_us` of requests that never got a complete response, and so are only known to have taken at
    /// least that long: those that timed out, and in an open loop those that were due and found no connection.
    #[serde(default)]
    pub censored: u64,
    /// What was due in an open loop; `None` for a closed one.
    #[serde(default)]
    pub offered: Option<Offered>,
    /// Bytes received while measuring, heads included.
    pub bytes_received: u64,
    /// Those of them that are content, as it was sent: in chunks with what frames them. 0 for a load of blocking clients.
    #[serde(default)]
    pub content_bytes: u64,
    /// `bytes_received / duration_s`.
    pub bytes_per_second: f64,
    /// Response time, in microseconds, to the last byte of a response. In a closed loop from the start of sending a request
    /// (or of connecting, when a connection is made for it), in an open one from when the request was due, so that a
    /// server that stalls cannot hide how many requests waited (coordinated omission).
    pub response_time_us: Distribution,
    /// The same as a histogram of three digits, in the text form of HdrHistogram, to be merged with others.
    #[serde(default)]
    pub response_time_histogram: String,
    /// What of it is in no second of `timeline`: the times of answers that came after the end (`drained`), and of requests that
    /// never got one (`censored`). Empty where there are none.
    #[serde(default)]
    pub late_histogram: String,
    /// Time to make a connection, for the requests that one was made for.
    #[serde(default)]
    pub connect_us: Distribution,
    /// From the start of sending (or connecting) to the first byte of the response.
    #[serde(default)]
    pub first_byte_us: Distribution,
    /// From the first byte of a response to its last.
    #[serde(default)]
    pub transfer_us: Distribution,
    /// From when the connection was there to the last byte of the response, where ab was the load; ours does not tell it apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processing_us: Option<Distribution>,
    /// From when the request was sent to the first byte of the response, where ab was the load: `first_byte_us` but for the
    /// time to connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_us: Option<Distribution>,
    /// From when a request that came to nothing was due (in a closed loop: was sent) to when that was known.
    #[serde(default)]
    pub failed_us: Distribution,
    /// Responses by status code.
    pub statuses: BTreeMap<u16, u64>,
    /// Answers that are errors since another status was expected, by status code.
    #[serde(default)]
    pub unexpected_statuses: BTreeMap<u16, u64>,
    /// Requests that got no complete response, by kind. A status of 400 or more is a response, and is
    /// counted in `statuses`.
    pub errors: Errors,
    /// What the load generator itself used.
    pub client: Client,
    /// What happened on this host meanwhile.
    #[serde(default)]
    pub host: Host,
    /// What the server's processes used, where they were looked at.
    #[serde(default)]
    pub server: Option<ServerUse>,
    /// From when on the rate was steady; `None` for a load of less than 5 seconds, or one whose rate is meant to change.
    #[serde(default)]
    pub steady: Option<Steady>,
    /// Whether the load generator measured itself, where that was looked into.
    #[serde(default)]
    pub check: Option<Check>,
    /// Whether the figures can be trusted.
    #[serde(default)]
    pub verdict: Verdict,
    /// One entry per whole second of measuring.
    pub timeline: Vec<Second>,
}

impl Outcome {
    /// Complete responses received while measuring.
    pub fn answered(&self) -> u64 {
        self.requests + self.carried_over
    }

    /// The result of a load that has not measured anything.
    pub fn empty(plan: &Plan) -> Self {
        Outcome {
            schema: SCHEMA.into(),
            plan: plan.clone(),
            threads: 0,
            driver: String::new(),
            duration_s: 0.0,
            requests: 0,
            carried_over: 0,
            requests_per_second: 0.0,
            drained: 0,
            reconnects: 0,
            censored: 0,
            offered: None,
            bytes_received: 0,
            content_bytes: 0,
            bytes_per_second: 0.0,
            response_time_us: Distribution::default(),
            response_time_histogram: String::new(),
            late_histogram: String::new(),
            connect_us: Distribution::default(),
            first_byte_us: Distribution::default(),
            transfer_us: Distribution::default(),
            processing_us: None,
            waiting_us: None,
            failed_us: Distribution::default(),
            statuses: BTreeMap::new(),
            unexpected_statuses: BTreeMap::new(),
            errors: Errors::default(),
            client: Client::default(),
            host: Host::default(),
            server: None,
            steady: None,
            check: None,
            verdict: Verdict::default(),
            timeline: Vec::new(),
        }
    }
}

/// What happened on this host while a load was measured, whoever caused it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Connections that the kernel dropped since the backlog of a listening socket was full.
    pub listen_drops: u64,
    /// Closed connections that the kernel forgot early, since too many waited.
    pub time_wait_overflows: u64,
    /// TCP segments that were sent again.
    pub retransmitted_segments: u64,
    /// Share of the processor time that the host of this virtual machine took away, 0 to 1.
    pub stolen_share: f64,
    /// Processor time of all processes of this host, the load's and the server's own too, in seconds.
    #[serde(default)]
    pub processes_s: f64,
    /// Processor time that there was to be had, on all processors together, in seconds; 0 where that is not known.
    #[serde(default)]
    pub processors_s: f64,
}

/// From when on a load was steady, by the rule MSER-5 on its rate over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Seconds since measuring began that the rule would cut off: warm-up that was measured.
    pub from_s: f64,
    /// The same as a share of the measurement; the rule cuts at most half.
    pub share: f64,
    /// Complete responses per second from then on.
    pub requests_per_second: f64,
    /// How far the rate of the first half of that is from the rate of the second, relative.
    pub change: f64,
}

impl Steady {
    /// The rate does not settle: it changes even in what the rule leaves.
    pub fn never(&self) -> bool {
        self.change.abs() > 0.05
    }
}

/// Whether a load generator measured the server or itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The rate that the same load reaches against a server that does next to nothing, per second.
    pub ceiling_per_second: f64,
    /// Requests that failed while that was measured; where there are any, it is not known how high the ceiling is.
    #[serde(default)]
    pub ceiling_errors: u64,
    /// How many times the rate two load generators reach with as many connections between them; only for closed loops.
    pub second_client: Option<f64>,
}

/// What was due in an open loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// Requests that were due while measuring.
    pub due: u64,
    /// `due / duration_s`.
    pub due_per_second: f64,
    /// Those of them that were never sent, since every connection was busy to the end.
    pub unsent: u64,
    /// Requests that were due in the second half of the measuring; 0 where its end was not known before.
    #[serde(default)]
    pub due_in_second_half: u64,
    /// Requests that ended in the second half, with an answer or without, whenever they were due. A server that keeps up ends
    /// as many as are due.
    #[serde(default)]
    pub ended_in_second_half: u64,
    /// Service time: from sending a request to the last byte of its response; of one that timed out, what it had taken by then.
    pub service_time_us: Distribution,
    /// From when a request was due to when it was sent: lateness of the load itself, and waiting for a free connection.
    pub send_lag_us: Distribution,
}

/// A distribution of times in microseconds, read from a high dynamic range histogram (3 digits).
///
/// A percentile is `None` (`null` in JSON) where fewer than 100 samples lie beyond it, since it would then
/// be read from a handful of samples; the maximum is always exact (of logs that were merged: to the digits that they have).
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

impl Distribution {
    /// Every percentile, the lowest first.
    pub(crate) fn percentiles_mut(&mut self) -> [Option<&mut u64>; 8] {
        let Distribution { p50, p75, p90, p95, p99, p99_9, p99_99, p99_999, .. } = self;
        [p50, p75, p90, p95, p99, p99_9, p99_99, p99_999].map(Option::as_mut)
    }

    /// Every percentile with its name, the lowest first.
    pub fn percentiles(&self) -> [(&'static str, Option<u64>); 8] {
        [
            ("p50", self.p50),
            ("p75", self.p75),
            ("p90", self.p90),
            ("p95", self.p95),
            ("p99", self.p99),
            ("p99.9", self.p99_9),
            ("p99.99", self.p99_99),
            ("p99.999", self.p99_999),
        ]
    }
}

/// What the load generator itself used while measuring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Processor time of the load's own threads, user and system, in seconds: of those that send, that which follows them, and
    /// that of an emulated link. What else is in the process, such as a load beside, is not in it.
    pub cpu_s: f64,
    /// `cpu_s / requests`, in microseconds; 0 where there was no request.
    pub cpu_us_per_request: f64,
    /// Share of one core that the busiest load thread used, 0 to 1. Above 0.8 the figures show the client.
    pub busiest_thread_share: f64,
}

fn one() -> u64 {
    1
}

/// One second of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Seconds since measuring started, at the start of this one.
    pub at_s: u64,
    /// Seconds that this entry is of: 1, and more only in loads of more than two hours.
    #[serde(default = "one")]
    pub length_s: u64,
    /// Complete responses in this second.
    pub requests: u64,
    /// Errors in this second.
    pub errors: u64,
    /// Median response time in this second, in microseconds; 0 where there was none.
    pub p50_us: u64,
    /// 99th percentile of the response time in this second, in microseconds; 0 where there was none.
    pub p99_us: u64,
    /// Longest response time in this second, in microseconds.
    #[serde(default)]
    pub max_us: u64,
    /// The response times of this second as a histogram of two digits, in the text form of HdrHistogram; see [`crate::hdr`].
    #[serde(default)]
    pub histogram: String,
}
