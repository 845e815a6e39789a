//! The places of a driver's table: which are free, and how many sockets there may be.

use rustix::io::Errno;

use super::Limits;
use crate::op::Error;

/// The free places of a table, whose entries the driver has.
pub(super) struct Vacancies {
    free: Vec<u32>,
    /// Sockets that are attached, and how many may be.
    attached: usize,
    most: usize,
}

impl Vacancies {
    pub(super) fn new(limits: Limits) -> Self {
        Vacancies { free: (0..limits.sockets as u32).rev().collect(), attached: 0, most: limits.sockets }
    }

    /// One more socket is attached.
    pub(super) fn attach(&mut self) -> Result<(), Error> {
        if self.attached == self.most {
            return Err(Error::Os(Errno::NOBUFS));
        }
        self.attached += 1;
        Ok(())
    }

    /// One of them is not any more, though the kernel may still have something of it.
    pub(super) fn detach(&mut self) {
        self.attached -= 1;
    }

    /// A free place, for a socket or a sleep. The table grows where there are more sleeps, and sockets that the kernel has not
    /// let go of, than places are free: of sleeps there are no more than tasks, and the kernel lets go at the next wait.
    pub(super) fn take<E>(&mut self, entries: &mut Vec<E>, entry: fn() -> E) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            entries.push(entry());
            entries.len() as u32 - 1
        })
    }

    /// A place is free again.
    pub(super) fn give(&mut self, place: u32) {
        self.free.push(place);
    }
}
