//! Tests of the connection and the static site, without sockets wherever they are not the point.

mod allocations;
mod bounds;
mod common;
mod connection;
mod endings;
mod leaving;
mod log;
mod pages;
mod semantics;
mod site;
mod sockets;
mod splits;
mod states;
