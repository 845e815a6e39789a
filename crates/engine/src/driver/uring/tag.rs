//! What a completion is about, packed into the 64 bits that travel with its request.

/// What a request was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// Receiving on a socket, or accepting, until it is cancelled: the entry and its generation.
    Inbound(u32, u32),
    /// A request whose memory the kernel uses, or a wait for a socket to become writable: its place in the table.
    Flight(u32),
    /// The wait for another thread's wake-up.
    Wake,
    /// A cancellation; whether it found anything does not matter.
    Cancel,
}

const KIND: u32 = 62;
const GENERATION: u64 = (1 << 30) - 1;

impl Tag {
    pub(super) fn pack(self) -> u64 {
        match self {
            Tag::Inbound(entry, generation) => (u64::from(generation) & GENERATION) << 32 | u64::from(entry),
            Tag::Flight(index) => 1 << KIND | u64::from(index),
            Tag::Wake => 2 << KIND,
            Tag::Cancel => 3 << KIND,
        }
    }

    pub(super) fn unpack(bits: u64) -> Self {
        match bits >> KIND {
            0 => Tag::Inbound(bits as u32, (bits >> 32) as u32),
            1 => Tag::Flight(bits as u32),
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
            Tag::Flight(u32::MAX),
            Tag::Wake,
            Tag::Cancel,
        ] {
            assert_eq!(Tag::unpack(tag.pack()), tag);
        }
    }
}
