//! Bytes to HTTP/1.1 and back: pure functions over slices, with no sockets and no allocation.
//!
//! A server reads with [`parse_request`], [`decode_path`] and [`ChunkedDecoder`], and writes with the `put_`
//! functions; a client reads with [`parse_answer`]. Whoever calls them owns the bytes and does the waiting.
#![forbid(unsafe_code)]

mod accept;
mod answer;
mod authority;
mod chunked;
mod date;
mod fields;
mod lines;
mod parse_date;
mod precondition;
mod range;
mod request;
mod request_line;
mod response;
mod status;
mod target;

pub use accept::{Coding, Codings, accepts};
pub use answer::{AnswerError, AnswerFraming, AnswerHead, parse_answer};
pub use chunked::{ChunkError, ChunkedDecoder, Step};
pub use date::{DateField, HttpDate};
pub use parse_date::parse_date;
pub use precondition::{Validators, Verdict, judge_conditions, range_applies};
pub use range::{Ranges, resolve_ranges};
pub use request::{Asks, Framing, Limits, MOST_FIELDS, Method, Reject, RequestHead, Version, parse_request};
pub use response::{
    BadField, Sink, is_token, put_content_length, put_date, put_decimal, put_field, put_status_line,
};
pub use status::Status;
pub use target::{PathError, decode_path, normal_path};
