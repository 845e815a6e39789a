//! Requests that the kernel has, each with the memory it uses: kept here until the kernel has let go.

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

/// All requests under way, by number.
#[derive(Default)]
pub(super) struct Flights {
    table: Vec<Option<Flight>>,
    free: Vec<u32>,
}

impl Flights {
    /// Takes a request's memory, and gives it a number.
    pub(super) fn add(&mut self, lane: Lane, freight: Freight) -> u32 {
        let flight = Some(Flight { lane, freight, orphan: false });
        if let Some(index) = self.free.pop() {
            self.table[index as usize] = flight;
            return index;
        }
        self.table.push(flight);
        (self.table.len() - 1) as u32
    }

    /// Nobody waits for the request any more; its memory stays until the kernel has let go.
    pub(super) fn orphan(&mut self, index: u32) {
        if let Some(flight) = &mut self.table[index as usize] {
            flight.orphan = true;
        }
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
