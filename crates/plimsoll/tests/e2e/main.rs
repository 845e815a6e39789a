//! The program from outside: real sockets, real processes, real clients, on every model.

mod admin;
mod auto;
mod background;
mod bench;
mod browser;
mod calls;
mod capacity;
mod changes;
mod cli;
mod clients;
mod common;
mod experiments;
mod family;
mod faults;
mod lab;
mod lifecycle;
mod load;
mod log;
mod overload;
mod predict;
mod pressure;
mod quota;
mod rebalance;
mod requests;
mod study;
mod workloads;
