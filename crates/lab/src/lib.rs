//! Whole experiments: a declared plan goes in, results with intervals, a verdict and a report come out.
#![forbid(unsafe_code)]

mod campaign;
mod catalogue;
mod cell;
mod command;
pub mod compare;
mod cores;
#[cfg(test)]
mod coverage;
mod database;
mod engine;
mod environment;
mod error;
#[cfg(test)]
mod fake;
pub mod fit;
mod gates;
mod key;
mod noise;
#[cfg(test)]
mod one_round;
mod order;
mod plan;
pub mod predict;
mod process;
pub mod queue;
mod recovery;
mod replace;
pub mod report;
mod results;
mod resume;
mod run;
pub mod simulate;
mod stats;
mod store;
mod summary;
pub mod tune;
mod workers;

pub use campaign::Progress;
pub use catalogue::{Experiment, find, known};
pub use command::missing;
pub use error::Error;
pub use key::{CellKey, Levels};
pub use load::Verdict;
pub use load::sample::ServerUse;
pub use plan::{Beside, Claim, Level, Load, Metric, Plan, Search, Side, StopRule, Without, did_you_mean};
pub use replace::replace;
pub use results::{BudgetOutcome, Cell, ClaimOutcome, Estimate, Judgement, Results, Run, SCHEMA};
pub use run::{Options, Summary, run};
pub use store::csv;
pub use summary::{Slack, judge_again};
