//! The system calls of the epoll driver, each tried once on a socket that does not block.
//!
//! Each gives the operation back where it would have blocked. Where a transfer can leave the socket with nothing more to
//! give, the flag beside the answer says so: the next operation then waits for an edge instead of asking in vain (epoll(7),
//! question 9).

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SocketFlags};

use super::{FILE_TURN, accepted, retry, send_flags};
use crate::buf::{Buf, Pool};
use crate::op::{Done, Error, FileRange, More, Op, Socket};

pub(super) fn accept(listener: &OwnedFd, socket: Socket) -> Result<Done, Op> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    match retry(|| net::acceptfrom_with(listener, flags)) {
        Err(Errno::AGAIN) => Err(Op::Accept(socket)),
        Err(errno) => Ok(Done::Accepted(Err(errno.into()))),
        Ok(pair) => Ok(Done::Accepted(Ok(accepted(pair)))),
    }
}

pub(super) fn connect(fd: &OwnedFd, socket: Socket, address: SocketAddr, waited: bool) -> Result<Done, Op> {
    let result = if waited {
        // The attempt was made before; the socket has turned writable and tells how it went.
        net::sockopt::socket_error(fd).and_then(|outcome| outcome)
    } else {
        net::connect(fd, &address)
    };
    match result {
        Err(Errno::INPROGRESS | Errno::AGAIN) => Err(Op::Connect(socket, address)),
        result => Ok(Done::Connected(result.map_err(Error::from))),
    }
}

pub(super) fn receive(
    fd: &OwnedFd,
    socket: Socket,
    buf: Option<Buf>,
    pool: &mut Pool,
) -> (Result<Done, Op>, bool) {
    let mut buf = buf.unwrap_or_else(|| pool.take());
    match retry(|| net::recv(fd, buf.spare(), RecvFlags::empty()).map(|(_, n)| n)) {
        Err(Errno::AGAIN) if buf.is_empty() => {
            pool.give(buf);
            (Err(Op::Recv(socket, None)), true)
        }
        Err(Errno::AGAIN) => (Err(Op::Recv(socket, Some(buf))), true),
        Err(errno) => (Ok(Done::Received(Some(buf), Err(errno.into()))), false),
        Ok(n) => {
            let short = n < buf.room();
            buf.grow(n);
            (Ok(Done::Received(Some(buf), Ok(n))), short)
        }
    }
}

/// None where it would have blocked.
pub(super) fn send(fd: &OwnedFd, buf: &mut Buf, more: More) -> (Option<Result<usize, Error>>, bool) {
    match retry(|| net::send(fd, buf.bytes(), send_flags(more))) {
        Err(Errno::AGAIN) => (None, true),
        Err(errno) => (Some(Err(errno.into())), false),
        Ok(n) => {
            let short = n < buf.len();
            buf.consume(n);
            (Some(Ok(n)), short)
        }
    }
}

pub(super) fn send_file(fd: &OwnedFd, socket: Socket, range: FileRange) -> Result<Done, Op> {
    let mut offset = range.offset;
    let count = range.length.min(FILE_TURN) as usize;
    match retry(|| rustix::fs::sendfile(fd, &*range.file, Some(&mut offset), count)) {
        Err(Errno::AGAIN) => Err(Op::SendFile(socket, range)),
        result => Ok(Done::SentFile(result.map(|n| n as u64).map_err(Error::from))),
    }
}
