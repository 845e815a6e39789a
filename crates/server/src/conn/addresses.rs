//! How many connections each address has, where that is limited.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Parts of the table, so that reactors seldom wait for each other.
const PARTS: usize = 16;

/// How many connections each address has. It has an entry for each address with a connection, and no more.
pub(crate) struct Addresses {
    most: u32,
    hasher: RandomState,
    parts: [Mutex<HashMap<Key, u32>>; PARTS],
}

/// A host, or what is as good as one: whoever has an IPv6 address mostly has the /64 around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    V4(u32),
    V6(u64),
}

impl Key {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Key::V4(address.to_bits()),
            IpAddr::V6(address) => Key::V6((address.to_bits() >> 64) as u64),
        }
    }
}

impl Addresses {
    /// A table for at most so many connections of each address; none where 0 says that there is no limit.
    pub(crate) fn at_most(most: u32) -> Option<Arc<Self>> {
        let table = || Addresses { most, hasher: RandomState::new(), parts: Default::default() };
        (most > 0).then(|| Arc::new(table()))
    }

    /// Counts a connection for as long as the guard lives; `None` if its address has as many as it may.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Entered> {
        let key = Key::of(address);
        let mut part = self.part(key);
        let count = part.entry(key).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        drop(part);
        Some(Entered { addresses: self.clone(), key, counts: true })
    }

    /// The guard of a connection that is counted already: another one [stays](Entered::stay) for it.
    pub(super) fn entered(self: &Arc<Self>, address: IpAddr) -> Entered {
        Entered { addresses: self.clone(), key: Key::of(address), counts: true }
    }

    fn part(&self, key: Key) -> MutexGuard<'_, HashMap<Key, u32>> {
        let part = self.hasher.hash_one(key) as usize % PARTS;
        self.parts[part].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is counted.
pub(super) struct Entered {
    addresses: Arc<Addresses>,
    key: Key,
    /// It gives its place back.
    counts: bool,
}

impl Entered {
    /// Lets the connection stay counted, for a guard that is made elsewhere.
    pub(super) fn stay(mut self) {
        self.counts = false;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if !self.counts {
            return;
        }
        let mut part = self.addresses.part(self.key);
        let Some(count) = part.get_mut(&self.key) else { return };
        *count -= 1;
        if *count == 0 {
            part.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_count_and_leaves_nothing_behind() {
        let table = Addresses::at_most(2).unwrap();
        let enter = |address: &str| table.enter(address.parse().unwrap());
        let first = enter("10.0.0.1").unwrap();
        let _second = enter("::ffff:10.0.0.1").unwrap();
        assert!(enter("10.0.0.1").is_none());
        let _other = enter("10.0.0.2").unwrap();
        drop(first);
        let first = enter("10.0.0.1").unwrap();
        // One network of IPv6 is one client.
        let _six = (enter("2001:db8::1").unwrap(), enter("2001:db8::ffff:2").unwrap());
        assert!(enter("2001:db8::3").is_none());
        assert!(enter("2001:db8:0:1::1").is_some());
        // One that moves keeps its place while nobody holds it.
        first.stay();
        assert!(enter("10.0.0.1").is_none());
        let first = table.entered("10.0.0.1".parse().unwrap());
        drop((first, _second, _other, _six));
        assert!(table.parts.iter().all(|part| part.lock().unwrap().is_empty()));
        assert!(Addresses::at_most(0).is_none());
    }
}
