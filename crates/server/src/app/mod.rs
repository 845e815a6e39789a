//! The applications that come with the server.

mod cache;
pub mod classes;
mod media;
mod root;
pub mod site;
pub mod workload;

pub use classes::Classes;
pub use root::{Beneath, Root};
pub use site::Site;
