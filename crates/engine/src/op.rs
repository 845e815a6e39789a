//! The closed list of operations that a driver can be asked for, and the answers it gives.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

use crate::buf::Buf;

/// A socket that a driver holds, as its index in that driver. Only the [`Stream`](crate::Stream) or
/// [`Listener`](crate::Listener) that owns it uses it, so it is never stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket(pub(crate) u32);

/// Something to be done. The driver owns the buffer from the start of the operation to its completion.
#[derive(Debug)]
pub enum Op {
    /// Take the next connection of a listening socket.
    Accept(Socket),
    /// Connect a new socket.
    Connect(Socket, SocketAddr),
    /// Receive at least one byte, behind the content of the buffer given. Without one the driver supplies
    /// it when there are bytes to put in, so that an idle connection holds none.
    Recv(Socket, Option<Buf>),
    /// Send at least one byte of the buffer's content and drop what was sent. With `more` the kernel may
    /// wait for what follows before it sends a short packet.
    Send(Socket, Buf, More),
    /// Send at least one byte of a file straight from the page cache.
    SendFile(Socket, FileRange),
    /// Tell the peer that nothing more will be sent; receiving goes on.
    Shutdown(Socket),
    /// Wait for the deadline.
    Sleep,
}

/// Whether more bytes follow at once behind those being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// This is all; send it now.
    No,
    /// The next operation sends more; a short packet may wait for it.
    Follows,
}

/// A part of an open file.
#[derive(Clone, Debug)]
pub struct FileRange {
    /// The file; shared, since many connections may send it at once.
    pub file: Arc<OwnedFd>,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// The answer to an [`Op`], with its buffer.
#[derive(Debug)]
pub enum Done {
    /// A connection: its socket (non-blocking, not yet attached to any driver) and the peer's address.
    Accepted(Result<(OwnedFd, SocketAddr), Error>),
    /// Connected, or not.
    Connected(Result<(), Error>),
    /// Bytes received, 0 at the end of the stream. The buffer is there whenever one was given or filled.
    Received(Option<Buf>, Result<usize, Error>),
    /// Bytes sent; the buffer holds the rest.
    Sent(Buf, Result<usize, Error>),
    /// Bytes of the file sent; 0 means that the file ends before the range does.
    SentFile(Result<u64, Error>),
    /// The sending side is closed, or not.
    ShutDown(Result<(), Error>),
    /// The deadline has come, or the sleep was cancelled.
    Slept,
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Its deadline passed first.
    TimedOut,
    /// It was cancelled, and had not happened.
    Canceled,
    /// The kernel refused.
    Os(Errno),
}

impl Error {
    /// Whether this is just the other side going away, which happens to every server and is no fault.
    pub fn is_departure(self) -> bool {
        matches!(self, Error::Os(Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED | Errno::TIMEDOUT))
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Error::Os(errno)
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::TimedOut => std::io::ErrorKind::TimedOut.into(),
            Error::Canceled => std::io::Error::other("cancelled"),
            Error::Os(errno) => errno.into(),
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::TimedOut => f.write_str("timed out"),
            Error::Canceled => f.write_str("cancelled"),
            Error::Os(errno) => errno.fmt(f),
        }
    }
}

impl std::error::Error for Error {}
