//! Why a request has no file for an answer, and how the client is told.

use rustix::io::Errno;
use wire::{RequestHead, Status};

use super::ALLOW;
use crate::handler::Response;

/// Why there is no representation for a request.
#[derive(Debug)]
pub(super) enum Missing {
    /// There is no file, or none that may be seen.
    NotFound,
    /// It is this directory, and it has no index.
    NoIndex(Vec<u8>),
    /// It is a directory, and the path lacks the slash at its end.
    NoSlash,
    /// The path cannot be the path of a file.
    Malformed,
    /// It is there, but may not be read.
    Forbidden,
    /// The client takes no coding that it can be sent in.
    NotAcceptable,
    /// The method is known, but not for files.
    MethodNotAllowed,
    /// The method is known to nobody here.
    UnknownMethod,
    /// It cannot be had now: for want of descriptors, memory or turns to compress, or since it changes all the time.
    NotNow,
    /// It takes longer than a reactor may be held up: it is left to a worker.
    TakesLong,
    /// Reading failed.
    Unreadable(Errno),
}

impl Missing {
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Missing::NotFound | Missing::NoIndex(_))
    }

    fn status(&self) -> Status {
        match self {
            Missing::NotFound | Missing::NoIndex(_) => Status::NOT_FOUND,
            Missing::NoSlash => Status::MOVED_PERMANENTLY,
            Missing::Malformed => Status::BAD_REQUEST,
            Missing::Forbidden => Status::FORBIDDEN,
            Missing::NotAcceptable => Status::NOT_ACCEPTABLE,
            Missing::MethodNotAllowed => Status::METHOD_NOT_ALLOWED,
            Missing::UnknownMethod => Status::NOT_IMPLEMENTED,
            Missing::NotNow | Missing::TakesLong => Status::SERVICE_UNAVAILABLE,
            Missing::Unreadable(_) => Status::INTERNAL_SERVER_ERROR,
        }
    }

    /// Puts the status into a response, and the fields that go with it; a body is still to come.
    pub(super) fn explain(&self, head: &RequestHead<'_>, response: &mut Response) {
        response.status(self.status());
        match self {
            Missing::NoSlash => response.field("Location", with_slash(head).as_bytes()),
            Missing::MethodNotAllowed => response.field("Allow", ALLOW),
            Missing::NotAcceptable => response.field("Vary", b"Accept-Encoding"),
            Missing::NotNow => response.field("Retry-After", b"1"),
            Missing::Unreadable(error) => {
                tracing::warn!(path = head.path(), %error, "a file cannot be read");
                response
            }
            _ => response,
        };
    }
}

impl From<Errno> for Missing {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::NAMETOOLONG | Errno::NXIO => {
                Missing::NotFound
            }
            Errno::ACCESS | Errno::PERM => Missing::Forbidden,
            // A 404 here would be wrong, and caches would keep it. AGAIN: it is held back by a lease, or renamed all the time.
            Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOMEM => Missing::NotNow,
            errno => Missing::Unreadable(errno),
        }
    }
}

/// Where a directory is to be found: its path with a slash behind, and its query.
fn with_slash(head: &RequestHead<'_>) -> String {
    let query = head.query().map(|query| format!("?{query}")).unwrap_or_default();
    // One leading slash only: "//host/" would send the client to another host.
    format!("/{}/{query}", head.path().trim_start_matches('/'))
}
