//! What a completion is about, packed into the 64 bits that travel with its request.

/// What a request was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// Receiving on a socket, or accepting, until it is cancelled: the entry and its generation.
    Inbound(u32, u32),
    /// A request whose memory the kernel uses, or a wait for a socket to become writable: its place in the table, and a
    /// serial number.
    Flight(u32, u32),
    /// The wait for another thread's wake-up.
    Wake,
    /// A cancellation; whether it found anything does not matter.
    Cancel,
}

const KIND: u32 = 62;
const GENERATION: u64 = (1 << 30) - 1;

/// A place in a table, and whose turn it is there; of that, as much as there is room for.
fn place(index: u32, turn: u32) -> u64 {
    (u64::from(turn) & GENERATION) << 32 | u64::from(index)
}

impl Tag {
    pub(super) fn pack(self) -> u64 {
        match self {
            Tag::Inbound(entry, generation) => place(entry, generation),
            Tag::Flight(index, serial) => 1 << KIND | place(index, serial),
            Tag::Wake => 2 << KIND,
            Tag::Cancel => 3 << KIND,
        }
    }

    pub(super) fn unpack(bits: u64) -> Self {
        let turn = (bits >> 32 & GENERATION) as u32;
        match bits >> KIND {
            0 => Tag::Inbound(bits as u32, turn),
            1 => Tag::Flight(bits as u32, turn),
            2 => Tag::Wake,
            _ => Tag::Cancel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_survives_its_journey() {
        for tag in [
            Tag::Inbound(0, 0),
            Tag::Inbound(u32::MAX, GENERATION as u32),
            Tag::Flight(u32::MAX, GENERATION as u32),
            Tag::Wake,
            Tag::Cancel,
        ] {
            assert_eq!(Tag::unpack(tag.pack()), tag);
        }
    }
}
