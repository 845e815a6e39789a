//! Taking the kernel's answers: bytes and connections that came in, and requests that are over.

use std::os::fd::{FromRawFd, OwnedFd};

use io_uring::cqueue;
use rustix::io::Errno;

use super::Uring;
use super::entry::{Arrived, Inbound};
use super::flight::Freight;
use super::tag::Tag;
use crate::driver::Side;
use crate::op::{Done, Error};

/// Buffers kept for a connection before it asks for them.
const MOST_INBOUND: usize = 4;

/// Connections kept for a listener before it asks for them.
const MOST_ACCEPTED: usize = 256;

impl Uring {
    /// Takes the kernel's answers to where they belong.
    pub(super) fn take_completions(&mut self) {
        while let Some(completion) = self.ring.next() {
            let more = cqueue::more(completion.flags());
            if !more {
                self.in_kernel -= 1;
            }
            let result = completion.result();
            match Tag::unpack(completion.user_data()) {
                Tag::Inbound(index, _) => {
                    let buffer = cqueue::buffer_select(completion.flags());
                    self.arrived(index, result, buffer, more);
                }
                Tag::Flight(index, _) => self.landed(index, result),
                Tag::Wake => {
                    let _ = self.unpark.eventfd().map(|fd| rustix::io::read(fd, &mut [0u8; 8]));
                    if !more && result != -Errno::CANCELED.raw_os_error() {
                        let _ = self.watch_wake_ups();
                    }
                }
                Tag::Cancel => {}
            }
        }
        self.provided.publish();
    }

    /// Something came in on a socket. It cannot be a former socket's: an entry is not used again before the kernel has
    /// let go of it.
    fn arrived(&mut self, index: u32, result: i32, buffer: Option<u16>, more: bool) {
        let length = result.max(0) as usize;
        let bytes = buffer.and_then(|id| self.provided.take(id, length, &mut self.pool));
        let entry = &mut self.entries[index as usize];
        if !more {
            entry.inbound = Inbound::Idle;
            entry.in_kernel -= 1;
        }
        match (bytes, errno(result)) {
            (Some(bytes), _) => entry.arrived.push_back(Arrived::Bytes(bytes)),
            // It is started again when somebody waits for it.
            (None, Some(Errno::CANCELED | Errno::INTR)) => {}
            // The ring of buffers was empty; it is full again by then.
            (None, Some(Errno::NOBUFS)) if !entry.listening => {}
            (None, Some(errno)) => entry.end = Some(Err(errno)),
            (None, None) if !entry.listening => entry.end = Some(Ok(())),
            (None, None) => {
                // SAFETY: the kernel has just made this descriptor for us, and it is nobody else's.
                let fd = unsafe { OwnedFd::from_raw_fd(result) };
                entry.arrived.push_back(Arrived::Connection(fd));
            }
        }
        if entry.closing {
            return self.let_go(index);
        }
        let most = if entry.listening { MOST_ACCEPTED } else { MOST_INBOUND };
        let stop = entry.arrived.len() >= most;
        entry.waits[Side::Read as usize].wake();
        if stop {
            self.stop_inbound(index);
        }
    }

    /// The kernel is done with a flight.
    fn landed(&mut self, index: u32, result: i32) {
        let flight = self.flights.remove(index);
        let socket = flight.lane.socket;
        self.entries[socket as usize].in_kernel -= 1;
        let now = self.now_nanos;
        let wait = self.wait(flight.lane);
        let done = match flight.freight {
            Freight::Bytes(buf) if flight.orphan => {
                self.pool.give(buf);
                None
            }
            Freight::Bytes(mut buf) => Some(match errno(result) {
                None => {
                    buf.consume(result as usize);
                    Done::Sent(buf, Ok(result as usize))
                }
                Some(Errno::CANCELED | Errno::INTR) => {
                    Done::Sent(buf, Err(wait.given_up(now).unwrap_or(Error::Canceled)))
                }
                Some(errno) => Done::Sent(buf, Err(errno.into())),
            }),
            Freight::Nothing => None,
        };
        if !flight.orphan {
            let wait = self.wait(flight.lane);
            wait.flight = None;
            wait.done = done;
            wait.wake();
        }
        self.let_go(socket);
    }
}

/// The error in a completion's result.
fn errno(result: i32) -> Option<Errno> {
    (result < 0).then(|| Errno::from_raw_os_error(-result))
}
