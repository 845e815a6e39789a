//! The load generator: a declared load ([`Plan`]) goes in, a measured result ([`Outcome`]) comes out.
#![forbid(unsafe_code)]

pub mod capacity;
pub mod check;
mod client;
mod error;
mod exchange;
mod expect;
mod fault;
pub mod fleet;
pub mod hdr;
mod host;
pub mod link;
mod mix;
mod notation;
mod outcome;
mod pace;
mod plan;
mod preflight;
mod record;
mod replay;
pub mod report;
mod run;
pub mod sample;
mod schedule;
mod steady;
mod sum;
mod target;
mod template;
mod thread;
mod threshold;
mod timeline;
pub mod verdict;
mod watch;

pub use engine::Stop as Switch;
pub use error::Error;
pub use notation::BadRate;
pub use outcome::{Check, Client, Distribution, Errors, Host, Offered, Outcome, SCHEMA, Second, Steady};
pub use plan::processes_for;
pub use plan::{Arrivals, Expect, Plan, Rate, Session, Spacing, Stop, Wanted};
pub use preflight::preflight;
pub use replay::Log;
pub use run::{Latest, Phase, Progress, run, run_until};
pub use threshold::{BadThreshold, Threshold};
pub use verdict::Verdict;
