//! The applications that come with the server.

pub mod admin;
mod cache;
pub mod classes;
mod media;
mod root;
pub mod site;
pub mod workload;

pub use admin::Admin;
pub use classes::Classes;
pub use root::{Beneath, Root};
pub use site::Site;
