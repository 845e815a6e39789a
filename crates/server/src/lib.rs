//! The HTTP connection, written once for every architecture, and the applications it serves.
#![forbid(unsafe_code)]

mod admission;
pub mod app;
pub mod auto;
mod client;
mod conn;
mod delay;
mod file;
mod handler;
mod limits;
pub mod log;
pub mod metrics;
mod prefixes;
mod service;
mod striped;

pub use admission::{InFlight, Rate, Rules};
pub use engine::Class;
pub use file::FileVersion;
pub use handler::{Body, Handler, Pace, Place, Request, Response};
pub use limits::{Limits, RATE_GRACE};
pub use metrics::{Counters, Monitor, Totals};
pub use service::{Http, Pool};
pub use wire::{Limits as HeadLimits, Method, Status};
