//! Who a request or a connection comes from, as far as bounds for each client go.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A host, or what is as good as one: whoever has an IPv6 address mostly has the /64 around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    V4(u32),
    V6(u64),
    /// Those that cannot be told apart for want of room.
    Others,
}

impl Client {
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Client::V4(address.to_bits()),
            IpAddr::V6(address) => Client::V6((address.to_bits() >> 64) as u64),
        }
    }
}

/// Parts of the table, so that threads seldom wait for each other.
pub(crate) const PARTS: usize = 16;

/// A value for each client.
#[derive(Debug)]
pub(crate) struct Clients<T> {
    hasher: RandomState,
    parts: [Mutex<HashMap<Client, T>>; PARTS],
}

impl<T> Default for Clients<T> {
    fn default() -> Self {
        Clients { hasher: RandomState::new(), parts: Default::default() }
    }
}

impl<T> Clients<T> {
    /// The part of the table that a client is in. Its hash is random, so that nobody can choose addresses that are all in one.
    pub(crate) fn part(&self, client: Client) -> MutexGuard<'_, HashMap<Client, T>> {
        self.nth_part(self.index(client))
    }

    /// The number of that part.
    pub(crate) fn index(&self, client: Client) -> usize {
        self.hasher.hash_one(client) as usize % PARTS
    }

    /// The part with a number.
    pub(crate) fn nth_part(&self, index: usize) -> MutexGuard<'_, HashMap<Client, T>> {
        self.parts[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }
}
