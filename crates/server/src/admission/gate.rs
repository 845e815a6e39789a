//! How many requests are with the workers at once, and who goes first where there are too many: clients that have few.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::client::{Client, Clients};

/// How long others are held to their share after a client with less than its share was turned away: time for it to come again.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the last places are kept for clients that have none, after one of them came while all others were taken: who asks
/// seldom, and does not come again when it is turned away, finds one when it asks next.
const RESERVED: Duration = Duration::from_secs(60);

/// One place in so many is kept, and one at least.
const RESERVE: usize = 16;

/// A bound on requests under way, shared fairly between clients.
#[derive(Debug)]
pub(crate) struct Gate {
    limit: AtomicUsize,
    under_way: AtomicUsize,
    /// Clients with requests under way.
    active: AtomicUsize,
    each: Clients<usize>,
    epoch: Instant,
    /// Until when clients are held to their share, in milliseconds since the epoch.
    shared_until: AtomicU64,
    /// Until when the last places are for clients that have none.
    reserved_until: AtomicU64,
}

/// A request that was let in, until it is over.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<Gate>,
    client: Client,
}

impl Gate {
    /// Lets in at most so many requests at once.
    pub(super) fn new(limit: usize) -> Self {
        Gate {
            limit: AtomicUsize::new(limit),
            under_way: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            each: Clients::default(),
            epoch: Instant::now(),
            shared_until: AtomicU64::new(0),
            reserved_until: AtomicU64::new(0),
        }
    }

    /// The bound as it is now.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// Changes the bound; who is in stays in.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit.max(1), Relaxed);
    }

    /// Requests under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Relaxed)
    }

    /// Lets a client's request in, or does not. A client may use all of the bound while nobody else wants any of it. Once one
    /// with less than its share was turned away, the others get no more than theirs for a while, so that it finds room when it
    /// comes again. After that the last places are kept for clients that have none, as long as there are such.
    pub(super) fn enter(self: &Arc<Self>, client: Client, now: Instant) -> Option<Permit> {
        let limit = self.limit();
        let now = now.saturating_duration_since(self.epoch).as_millis() as u64;
        let is_shared = now < self.shared_until.load(Relaxed);
        let mut part = self.each.part(client);
        let mine = part.get(&client).copied().unwrap_or(0);
        let room = self.room(limit, mine, now);
        // One of those who wait outside is not among the active.
        let clients = self.active.load(Relaxed) + usize::from(mine == 0 || is_shared);
        let below_share = mine < room.div_ceil(clients.max(1));
        if is_shared && !below_share || !self.take_place(room) {
            if below_share {
                self.shared_until.store(now + PATIENCE.as_millis() as u64, Relaxed);
            }
            return None;
        }
        if mine == 0 {
            self.active.fetch_add(1, Relaxed);
        }
        part.insert(client, mine + 1);
        drop(part);
        Some(Permit { gate: self.clone(), client })
    }

    /// How many places may be taken once a client with so many is let in.
    fn room(&self, limit: usize, mine: usize, now: u64) -> usize {
        let others = limit.saturating_sub((limit / RESERVE).max(1));
        if mine == 0 && self.under_way() >= others {
            self.reserved_until.store(now + RESERVED.as_millis() as u64, Relaxed);
        }
        if mine > 0 && now < self.reserved_until.load(Relaxed) { others } else { limit }
    }

    /// Takes one of the places, if there is one among so many.
    fn take_place(&self, room: usize) -> bool {
        self.under_way.fetch_update(Relaxed, Relaxed, |taken| (taken < room).then_some(taken + 1)).is_ok()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.under_way.fetch_sub(1, Relaxed);
        let mut part = self.gate.each.part(self.client);
        let Some(mine) = part.get_mut(&self.client) else { return };
        *mine -= 1;
        if *mine == 0 {
            part.remove(&self.client);
            self.gate.active.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(gate: &Arc<Gate>, client: u32, times: usize) -> Vec<Permit> {
        (0..times).filter_map(|_| gate.enter(Client::V4(client), gate.epoch)).collect()
    }

    #[test]
    fn one_client_alone_may_use_all_of_it() {
        let gate = Arc::new(Gate::new(10));
        let held = enter(&gate, 1, 100);
        assert_eq!((held.len(), gate.under_way()), (10, 10));
        drop(held);
        assert_eq!((gate.under_way(), gate.each.len()), (0, 0));
    }

    #[test]
    fn a_heavy_client_makes_room_for_the_others() {
        let gate = Arc::new(Gate::new(12));
        let mut heavy = enter(&gate, 1, 100);
        assert_eq!((heavy.len(), enter(&gate, 2, 1).len()), (12, 0));
        // From then on it gets no more than its share, as its requests end.
        for _ in 0..20 {
            heavy.pop();
            heavy.extend(enter(&gate, 1, 1));
        }
        assert_eq!(heavy.len(), 6);
        // The other one finds room, and as much again is kept for whoever else was turned away.
        let light = enter(&gate, 2, 6);
        assert!(
            (4..=6).contains(&light.len()) && gate.under_way() <= 12,
            "{} {}",
            light.len(),
            gate.under_way()
        );
        drop(light);
        // Who does not come again is not waited for, but that a place is kept for a minute.
        for (pause, places) in [(PATIENCE, 11), (RESERVED, 12)] {
            let later = gate.epoch + pause + Duration::from_millis(1);
            heavy.extend((0..100).filter_map(|_| gate.enter(Client::V4(1), later)));
            assert_eq!(heavy.len(), places, "{pause:?}");
        }
    }

    #[test]
    fn who_asks_seldom_and_does_not_come_again_finds_a_place_the_next_time() {
        for limit in [2, 8, 100] {
            let gate = Arc::new(Gate::new(limit));
            let (mut heavy, mut let_in) = (Vec::new(), 0);
            for second in 1..=300 {
                let now = gate.epoch + Duration::from_secs(second);
                // One of its requests ends, and it takes what it can get.
                heavy.pop();
                heavy.extend((0..2 * limit).filter_map(|_| gate.enter(Client::V4(1), now)));
                let_in += usize::from(second % 10 == 0 && gate.enter(Client::V4(2), now).is_some());
            }
            // All but the first time.
            assert_eq!(let_in, 29, "{limit}");
            assert_eq!(heavy.len(), limit - (limit / 16).max(1));
        }
    }

    #[test]
    fn of_a_single_place_nothing_is_kept() {
        let gate = Arc::new(Gate::new(1));
        let held = enter(&gate, 1, 1);
        assert_eq!((held.len(), enter(&gate, 2, 1).len()), (1, 0));
        drop(held);
        for client in [1, 2, 1] {
            assert_eq!(enter(&gate, client, 1).len(), 1, "{client}");
        }
        assert!(enter(&Arc::new(Gate::new(0)), 1, 1).is_empty());
    }

    #[test]
    fn many_clients_keep_the_bound() {
        let gate = Arc::new(Gate::new(10));
        let held: Vec<Permit> = (0..1000).flat_map(|client| enter(&gate, client, 3)).collect();
        assert_eq!(held.len(), 10);
        gate.set_limit(0);
        assert_eq!(gate.limit(), 1);
    }
}
