//! Results as people read them: a page that needs nothing but itself, Markdown, and a table for the terminal.

mod charts;
mod format;
mod page;
mod tables;
mod text;

pub(crate) use format::number;
pub use page::html;
pub use text::{markdown, text_table};
