//! Plimsoll as a library: serve an application, load a server, run an experiment.
//!
//! An application is a plain function of a request and a response. Which threads run it is the model's affair:
//!
//! ```no_run
//! use plimsoll::{Body, Model, Request, Response, Server};
//!
//! let hello = |request: &Request<'_>, response: &mut Response| {
//!     response.body(Body::Owned(format!("you asked for {}\n", request.head.path()).into()));
//! };
//! Server::new(hello).model(Model::ReusePortPool).run()?;
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

mod application;
pub mod signals;

pub use application::{Server, Serving};
pub use engine::topology::Axis;
pub use engine::{Balance, Class, Kind, Model, Order, Pool, Queue, Settings, Spread, Topology, start};
pub use server::{Body, Handler, Http, Limits, Method, Place, Request, Response, Status, app, log};
pub use {lab, load};
