//! A cache within a bound of memory: what has gone unused the longest gives way.

use std::borrow::Borrow;
use std::hash::Hash;

use lru::LruCache;

/// The largest entry that is kept is this part of the room. One that takes more leaves too little of the others, and one that
/// takes more than there is would leave nothing of them and not stay either.
const LARGEST: usize = 2;

/// Values by their keys, within a bound of memory.
pub(super) struct Bounded<K, V> {
    entries: LruCache<K, Entry<V>>,
    /// Memory that the entries take, in bytes, and the most that they may.
    bytes: usize,
    room: usize,
}

struct Entry<V> {
    value: V,
    bytes: usize,
}

impl<K: Hash + Eq, V> Bounded<K, V> {
    /// Room for so many bytes.
    pub(super) fn new(room: usize) -> Self {
        Bounded { entries: LruCache::unbounded(), bytes: 0, room }
    }

    /// The value of a key, which is used by that.
    pub(super) fn get<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// Keeps a value, which takes so many bytes with its key, in place of the one that the key had, and of those that have gone
    /// unused the longest; but for one that would take too much of the room.
    pub(super) fn keep(&mut self, key: K, value: V, bytes: usize) {
        self.remove(&key);
        if bytes > self.room / LARGEST {
            return;
        }
        self.bytes += bytes;
        self.entries.put(key, Entry { value, bytes });
        while self.bytes > self.room
            && let Some((_, old)) = self.entries.pop_lru()
        {
            self.bytes -= old.bytes;
        }
    }

    /// Forgets the value of a key.
    pub(super) fn remove<Q>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if let Some(old) = self.entries.pop(key) {
            self.bytes -= old.bytes;
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of these are there.
    fn there(cache: &mut Bounded<u32, &'static str>, keys: [u32; 4]) -> [bool; 4] {
        keys.map(|key| cache.get(&key).is_some())
    }

    #[test]
    fn what_has_gone_unused_the_longest_gives_way() {
        let mut cache = Bounded::new(100);
        for key in [1, 2, 3] {
            cache.keep(key, "old", 30);
        }
        assert_eq!(cache.get(&1), Some(&mut "old"));
        // In its own place, and then in that of 2.
        cache.keep(3, "new", 40);
        cache.keep(4, "new", 30);
        assert_eq!(there(&mut cache, [1, 2, 3, 4]), [true, false, true, true]);
        assert_eq!((cache.get(&3).copied(), cache.bytes), (Some("new"), 100));
        cache.remove(&3);
        assert_eq!((cache.get(&3).copied(), cache.bytes, cache.len()), (None, 60, 2));
    }

    #[test]
    fn what_would_take_too_much_of_the_room_is_not_kept_and_costs_the_others_nothing() {
        let mut cache = Bounded::new(100);
        cache.keep(1, "small", 20);
        cache.keep(2, "small", 20);
        for bytes in [51, 100, 101, usize::MAX] {
            cache.keep(3, "large", bytes);
            assert_eq!(there(&mut cache, [1, 2, 3, 4]), [true, true, false, false]);
        }
        // Nor does what was there under its key stay, which is of an older state.
        cache.keep(2, "large", 101);
        assert_eq!((there(&mut cache, [1, 2, 3, 4]), cache.bytes), ([true, false, false, false], 20));
    }
}
