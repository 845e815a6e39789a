//! The load generator: a declared load ([`Plan`]) goes in, a measured result ([`Outcome`]) comes out.
#![forbid(unsafe_code)]

mod client;
mod error;
mod outcome;
mod plan;
mod record;
pub mod report;
mod run;
mod target;
mod timeline;

pub use engine::Stop as Switch;
pub use error::Error;
pub use outcome::{Client, Distribution, Errors, Outcome, SCHEMA, Second};
pub use plan::{Plan, Stop};
pub use run::{Phase, Progress, run, run_until};
