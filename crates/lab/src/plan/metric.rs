//! The figures of a run that budgets and claims can be about.

use serde::Deserialize;

use super::Plan;

/// A figure of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Processor time of the server per request, in microseconds. Less is better.
    ServerCpuUsPerRequest,
    /// Requests per second of the server's processor time. More is better.
    RequestsPerCpuSecond,
    /// Requests per second. More is better.
    #[default]
    RequestsPerSecond,
    /// Bytes of answers per second. More is better.
    BytesPerSecond,
    /// Mean response time, in microseconds. Less is better.
    MeanUs,
    /// Median response time, in microseconds. Less is better.
    P50Us,
    /// 99th percentile of the response time, in microseconds. Less is better.
    P99Us,
    /// Most resident memory of the server's processes together, in bytes. Less is better.
    PeakRssBytes,
    /// Requests per second of the load beside. More is better.
    BesideRequestsPerSecond,
    /// 99th percentile of the response time of the load beside, in microseconds. Less is better.
    BesideP99Us,
    /// Seconds from when the load drops until the server is as it was before the load rose. Less is better.
    RecoveryS,
    /// Coefficient of variation of the number of the server's workers over time. Less is better.
    WorkersVariation,
    /// The most simultaneous clients that a search found. More is better.
    ClientsHeld,
}

impl Metric {
    /// Whether the better of two is the larger one.
    pub(crate) fn more_is_better(self) -> bool {
        use Metric::{
            BesideRequestsPerSecond, BytesPerSecond, ClientsHeld, RequestsPerCpuSecond, RequestsPerSecond,
        };
        matches!(
            self,
            RequestsPerSecond | RequestsPerCpuSecond | BytesPerSecond | BesideRequestsPerSecond | ClientsHeld
        )
    }

    /// What it is called in a report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Metric::ServerCpuUsPerRequest => "CPU per request",
            Metric::RequestsPerCpuSecond => "requests per CPU second",
            Metric::RequestsPerSecond => "requests per second",
            Metric::BytesPerSecond => "bytes per second",
            Metric::MeanUs => "mean response time",
            Metric::P50Us => "median response time",
            Metric::P99Us => "p99",
            Metric::PeakRssBytes => "peak resident memory",
            Metric::BesideRequestsPerSecond => "requests per second of the load beside",
            Metric::BesideP99Us => "p99 of the load beside",
            Metric::RecoveryS => "seconds until recovery",
            Metric::WorkersVariation => "variation of the workers",
            Metric::ClientsHeld => "clients held",
        }
    }

    /// Whether no run of a plan will have it, and why.
    pub(super) fn is_missing_in(self, plan: &Plan) -> Option<&'static str> {
        (self == Metric::ClientsHeld && plan.search.is_none())
            .then_some("clients_held is what a search finds: put [search] in place of connections")
    }
}
