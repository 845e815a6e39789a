//! How many requests are with the workers at once, and who goes first where there are too many: clients that have few.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::client::{Client, Clients};

/// Share of the limit from which clients with more than their share are turned away.
const CONTENDED: f64 = 0.5;

/// A bound on requests under way, shared fairly between clients.
#[derive(Debug)]
pub(crate) struct Gate {
    limit: AtomicUsize,
    under_way: AtomicUsize,
    /// Clients with requests under way.
    active: AtomicUsize,
    each: Clients<usize>,
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

    /// Lets a client's request in, or does not. Several clients share the bound: one that has less than its part is let in
    /// even where others hold all of it, so that nobody can be starved; the bound may be passed by as many as there are
    /// clients, and never by more than as much again.
    pub(super) fn enter(self: &Arc<Self>, client: Client) -> Option<Permit> {
        let limit = self.limit();
        let mut part = self.each.part(client);
        let mine = part.get(&client).copied().unwrap_or(0);
        let active = self.active.load(Relaxed) + usize::from(mine == 0);
        let share = limit.div_ceil(active.max(1));
        let now = self.under_way();
        let contended = now as f64 >= CONTENDED * limit as f64;
        let below_share = mine < share;
        let admitted = match (now < limit, contended) {
            (true, false) => true,
            (true, true) => below_share,
            // Alone it has all of the bound, so this is somebody else's doing.
            (false, _) => below_share && active > 1 && now < 2 * limit,
        };
        if !admitted {
            return None;
        }
        if mine == 0 {
            self.active.fetch_add(1, Relaxed);
        }
        part.insert(client, mine + 1);
        self.under_way.fetch_add(1, Relaxed);
        drop(part);
        Some(Permit { gate: self.clone(), client })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut part = self.gate.each.part(self.client);
        let Some(mine) = part.get_mut(&self.client) else { return };
        *mine -= 1;
        if *mine == 0 {
            part.remove(&self.client);
            self.gate.active.fetch_sub(1, Relaxed);
        }
        self.gate.under_way.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(gate: &Arc<Gate>, client: u32, times: usize) -> Vec<Permit> {
        (0..times).filter_map(|_| gate.enter(Client::V4(client))).collect()
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
    fn a_heavy_client_does_not_starve_the_others() {
        let gate = Arc::new(Gate::new(12));
        let mut heavy = enter(&gate, 1, 100);
        assert_eq!(heavy.len(), 12);
        // They get their parts at once, though the heavy one was first.
        let light = enter(&gate, 2, 3);
        assert_eq!(light.len(), 3);
        // And the heavy one is held to its part as its requests end.
        for _ in 0..50 {
            heavy.pop();
            heavy.extend(gate.enter(Client::V4(1)));
        }
        assert!(heavy.len() <= 6, "{}", heavy.len());
        assert_eq!(gate.under_way(), heavy.len() + light.len());
    }

    #[test]
    fn many_clients_pass_the_bound_by_as_much_again_and_no_more() {
        let gate = Arc::new(Gate::new(10));
        let held: Vec<Permit> = (0..1000).flat_map(|client| enter(&gate, client, 3)).collect();
        assert!((10..=20).contains(&held.len()), "{}", held.len());
        gate.set_limit(0);
        assert_eq!(gate.limit(), 1);
    }
}
