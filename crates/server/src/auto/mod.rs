//! A server that finds its own settings while it runs: how many workers, and which requests are for them.

mod pool_size;
mod processors;
mod routes;
mod stopwatch;
mod tuner;

pub use pool_size::{Observation, PoolSize, Reason};
pub use routes::{LONGEST_STALL, Route, Routes, Stall};
pub(crate) use routes::{RouteId, Took};
pub(crate) use stopwatch::Stopwatch;
pub use tuner::Decision;
pub(crate) use tuner::{Tuner, Watch};
