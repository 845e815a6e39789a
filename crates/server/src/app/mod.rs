//! The applications that come with the server.

mod cache;
mod media;
mod root;
pub mod site;
pub mod workload;

pub use root::{Beneath, Root};
pub use site::Site;
