//! Results as people read them: a page that needs nothing but itself, Markdown, and a table for the terminal.

mod chart;
mod charts;
mod conditions;
mod detail;
mod experiment;
mod floor;
mod forest;
mod format;
mod grid;
mod held;
mod isometric;
mod knee;
mod optimum;
mod page;
mod server;
mod settings;
mod single;
mod slice;
mod surface;
mod tables;
mod text;

pub use experiment::{html, html_with_surfaces};
pub(crate) use format::{
    clients, columns, counted, estimate as with_interval, held_by, if_brief, interval, number,
};
pub use knee::knee;
pub use single::single;
pub use text::{markdown, text_table};
