//! The applications that come with the server.

pub mod admin;
pub mod classes;
pub mod site;
pub mod workload;

pub use admin::Admin;
pub use classes::Classes;
pub use site::{Beneath, Links, Root, Site, SiteSettings};
