//! The load generator: a declared load ([`Plan`]) goes in, a measured result ([`Outcome`]) comes out.
#![forbid(unsafe_code)]

pub mod capacity;
mod client;
mod error;
pub mod hdr;
mod host;
mod mix;
mod notation;
mod outcome;
mod pace;
mod plan;
mod record;
pub mod report;
mod run;
pub mod sample;
mod schedule;
mod sum;
mod target;
mod threshold;
mod timeline;
pub mod verdict;

pub use engine::Stop as Switch;
pub use error::Error;
pub use notation::BadRate;
pub use outcome::{Client, Distribution, Errors, Host, Offered, Outcome, SCHEMA, Second};
pub use plan::{Arrivals, Plan, Rate, Session, Spacing, Stop, Wanted};
pub use run::{Phase, Progress, run, run_until};
pub use threshold::{BadThreshold, Threshold};
pub use verdict::Verdict;
