//! The kernel boundary of Plimsoll: drivers, executor and reactors; it knows nothing of HTTP.

mod balance;
pub mod buf;
pub mod driver;
pub mod executor;
pub mod histogram;
pub mod host;
pub mod inbox;
mod interrupt;
pub mod listen;
pub mod meter;
pub mod op;
pub mod reactor;
pub mod run;
pub mod service;
pub mod stop;
pub mod stream;
mod sync;
mod threads;
pub mod timer;
pub mod topology;
pub mod transport;
pub mod unpark;
pub mod workers;

pub use buf::{BUF_BYTES, Buf};
pub use driver::{Driver, Limits};
pub use executor::Executor;
pub use op::{Error, FileRange, More};
pub use run::{Running, Settings, start};
pub use service::{Connections, Service};
pub use stop::Stop;
pub use stream::{Io, Listener, Stream, yield_now};
pub use timer::Deadline;
pub use topology::{Balance, Kind, Model, Order, Pool, Queue, Spread, Topology};
pub use transport::{Tcp, Transport};
pub use unpark::Unpark;
pub use workers::{Class, Workers};
