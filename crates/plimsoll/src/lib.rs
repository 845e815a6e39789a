//! Plimsoll as a library: serve an application, load a server, run an experiment.
#![forbid(unsafe_code)]

pub use engine::{Balance, Model, Settings, Spread, Topology, start};
pub use server::{Body, Handler, Http, Limits, Request, Response, app};
pub use {lab, load};
