//! Requests that the kernel has, each with the memory it uses: kept here until the kernel has let go.

use super::tag::Tag;
use crate::buf::Buf;
use crate::driver::Lane;

/// One request under way.
pub(super) struct Flight {
    /// The direction of the socket it is for.
    pub(super) lane: Lane,
    /// The memory that the kernel uses.
    pub(super) freight: Freight,
    /// Nobody waits for it any more.
    pub(super) orphan: bool,
}

/// Memory that is with the kernel.
pub(super) enum Freight {
    /// A buffer that is being sent.
    Bytes(Buf),
    /// None; the request is a wait.
    Nothing,
}

/// All requests under way, by place.
#[derive(Default)]
pub(super) struct Flights {
    table: Vec<Option<Flight>>,
    free: Vec<u32>,
    /// Requests so far.
    serial: u32,
}

impl Flights {
    /// Takes a request's memory, and gives it a tag that no other request had lately: a late cancellation of one that
    /// is over must not hit another.
    pub(super) fn add(&mut self, lane: Lane, freight: Freight) -> Tag {
        let index = self.free.pop().unwrap_or_else(|| {
            self.table.push(None);
            (self.table.len() - 1) as u32
        });
        self.table[index as usize] = Some(Flight { lane, freight, orphan: false });
        self.serial = self.serial.wrapping_add(1);
        Tag::Flight(index, self.serial)
    }

    /// Nobody waits for the request any more; its memory stays until the kernel has let go.
    pub(super) fn orphan(&mut self, tag: Tag) {
        if let Tag::Flight(index, _) = tag
            && let Some(flight) = &mut self.table[index as usize]
        {
            flight.orphan = true;
        }
    }

    /// Gives the memory back of a request that the kernel was never given.
    pub(super) fn take_back(&mut self, tag: Tag) -> Option<Freight> {
        let Tag::Flight(index, _) = tag else { return None };
        Some(self.remove(index).freight)
    }

    /// Gives the memory back: the kernel has let go.
    ///
    /// # Panics
    /// If there is no such request: the kernel answered one twice.
    pub(super) fn remove(&mut self, index: u32) -> Flight {
        self.free.push(index);
        self.table[index as usize].take().expect("the kernel answers each request once")
    }
}
