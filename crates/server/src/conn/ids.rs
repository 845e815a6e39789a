//! Ids of requests: the client's, or one that is made here.

use std::cell::Cell;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};

use wire::RequestHead;

/// The field that carries an id both ways.
pub(super) const FIELD: &str = "X-Request-Id";

/// Longest id that is taken from a client.
const LONGEST: usize = 64;

/// Makes ids on one thread: 64 bits, from a place that nobody can guess.
pub(crate) struct RequestIds(Cell<u64>);

impl RequestIds {
    pub(crate) fn new() -> Self {
        RequestIds(Cell::new(RandomState::new().hash_one(0)))
    }

    /// Puts the id of a request into `id`.
    pub(super) fn put(&self, head: Option<&RequestHead<'_>>, id: &mut String) {
        id.clear();
        let sent = head.and_then(|head| head.field(FIELD)).and_then(|value| std::str::from_utf8(value).ok());
        match sent.filter(|sent| is_id(sent)) {
            Some(sent) => id.push_str(sent),
            None => {
                let next = self.0.get();
                self.0.set(next.wrapping_add(1));
                let _ = write!(id, "{next:016x}");
            }
        }
    }
}

/// Whether a client's id can go into a field and a log as it is.
fn is_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_plain)
}
