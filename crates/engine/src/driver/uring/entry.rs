//! What the driver knows of one socket, and of the operation under way in each of its directions.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::task::Waker;

use rustix::io::Errno;

use super::super::given_up;
use super::tag::Tag;
use crate::buf::Buf;
use crate::op::{Done, Error, Op};
use crate::timer::{Nanos, Timer};

/// What the driver knows of one socket, or of one sleep.
pub(super) struct Entry {
    pub(super) fd: Option<OwnedFd>,
    /// Changes when the entry is used again, so that a late cancellation does not hit a new socket's request.
    pub(super) generation: u32,
    /// The socket is given up, and closes when the kernel has let go of it.
    pub(super) closing: bool,
    /// Requests on this socket that the kernel has.
    pub(super) in_kernel: u32,
    /// It is for accepting, and not for receiving.
    pub(super) listening: bool,
    /// The receive, or the accept, that goes on until it is cancelled.
    pub(super) inbound: Inbound,
    /// What came and was not asked for yet.
    pub(super) arrived: VecDeque<Arrived>,
    /// Nothing more comes, for this reason; `Ok` is the end of the stream.
    pub(super) end: Option<Result<(), Errno>>,
    pub(super) waits: [Wait; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inbound {
    Idle,
    UnderWay,
    /// Cancelled, because more came than was asked for or the socket is to leave.
    Stopping,
}

pub(super) enum Arrived {
    Bytes(Buf),
    Connection(OwnedFd),
}

/// An operation under way in one direction.
pub(super) struct Wait {
    pub(super) op: Option<Op>,
    /// Its answer, once there is one.
    pub(super) done: Option<Done>,
    /// The request that stands for it in the kernel.
    pub(super) flight: Option<Tag>,
    pub(super) waker: Option<Waker>,
    pub(super) canceled: bool,
    pub(super) timer: Timer,
}

impl Wait {
    pub(super) const IDLE: Wait =
        Wait { op: None, done: None, flight: None, waker: None, canceled: false, timer: Timer::IDLE };

    pub(super) fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

impl Entry {
    /// A place for a socket, or for a sleep, that is free.
    pub(super) fn free() -> Self {
        Entry {
            fd: None,
            generation: 0,
            closing: false,
            in_kernel: 0,
            listening: false,
            inbound: Inbound::Idle,
            arrived: VecDeque::new(),
            end: None,
            waits: [Wait::IDLE, Wait::IDLE],
        }
    }
}

impl Wait {
    /// Why the operation should end without having happened, if it should.
    pub(super) fn given_up(&self, now: Nanos) -> Option<Error> {
        given_up(self.canceled, &self.timer, now)
    }
}
