//! Which reactor should give connections to which other, and how much work with them: a decision from numbers alone.

/// The difference in busy share from which on it is worth moving connections, 0 to 1.
const GAP: f64 = 0.15;

/// Looks in a row that must show such a difference.
const LOOKS: u32 = 2;

/// Looks for which an order stands. What they show is half before and half after the moves, and is not judged.
const REST: u32 = 3;

/// Weight of the newest look in a reactor's moving average.
const NEWEST: f64 = 0.5;

/// Connections that one order moves at most.
const MOST: u64 = 256;

/// What one reactor did between two looks, and what it can still take in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Share of the time in which it worked, 0 to 1.
    pub(crate) busy: f64,
    /// Requests its connections answered.
    pub(crate) requests: u64,
    /// Connections that it has room for.
    pub(crate) room: u64,
}

/// What a reactor is asked to give away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Order {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Work still to be moved, in requests per look.
    budget: f64,
    /// Below this it is not worth going on.
    enough: f64,
    /// Connections that may still be moved.
    most: u64,
}

impl Order {
    /// One to give away so many requests per look.
    #[cfg(test)]
    pub(super) fn of(from: usize, to: usize, budget: f64) -> Self {
        Order { from, to, budget, enough: budget / 10.0, most: MOST }
    }

    /// Whether a connection with so many requests per look should go; if so, it is taken off the order.
    ///
    /// One that is heavier than half as much again as what is still to be moved would leave more than half of the
    /// difference, the other way round: it stays, and so no connection goes back and forth.
    pub(crate) fn takes(&mut self, weight: f64) -> bool {
        let fits = !self.is_over() && weight > 0.0 && weight <= 1.5 * self.budget;
        if fits {
            self.budget -= weight;
            self.most -= 1;
        }
        fits
    }

    /// Whether nothing more is to be moved.
    pub(crate) fn is_over(&self) -> bool {
        self.most == 0 || self.budget < self.enough
    }
}

/// What earlier looks showed.
#[derive(Debug, Default)]
pub(crate) struct Decider {
    /// Moving average of each reactor's busy share; empty while an order stands.
    shares: Vec<f64>,
    /// Looks in a row that showed a difference.
    uneven: u32,
    /// Looks to come for which the last orders stand.
    rest: u32,
}

impl Decider {
    /// Judges one more look: the orders that stand from now on, or `None` while the last ones do.
    pub(crate) fn look(&mut self, loads: &[Load]) -> Option<Vec<Order>> {
        if self.rest > 0 {
            self.rest -= 1;
            self.shares.clear();
            return if self.rest == 0 { Some(Vec::new()) } else { None };
        }
        // There may be more of them than at the last look, or fewer.
        if self.shares.len() != loads.len() {
            self.uneven = 0;
            self.shares = loads.iter().map(|load| load.busy).collect();
        }
        for (share, load) in self.shares.iter_mut().zip(loads) {
            *share += NEWEST * (load.busy - *share);
        }
        let mut order: Vec<usize> = (0..self.shares.len()).collect();
        order.sort_by(|a, b| self.shares[*a].total_cmp(&self.shares[*b]));
        let pairs = order.iter().zip(order.iter().rev()).take(order.len() / 2);
        let orders: Vec<Order> = pairs.filter_map(|(to, from)| self.order(loads, *from, *to)).collect();
        self.uneven = if orders.is_empty() { 0 } else { self.uneven + 1 };
        if self.uneven < LOOKS {
            return Some(Vec::new());
        }
        (self.uneven, self.rest) = (0, REST);
        Some(orders)
    }

    /// Half of the difference between two reactors, if that is worth moving.
    fn order(&self, loads: &[Load], from: usize, to: usize) -> Option<Order> {
        // Neither a difference that is over counts, nor one that has just come up.
        let gap = (self.shares[from] - self.shares[to]).min(loads[from].busy - loads[to].busy);
        let most = MOST.min(loads[to].room);
        if gap < GAP || most == 0 {
            return None;
        }
        let budget = gap / 2.0 / self.shares[from] * loads[from].requests as f64;
        Some(Order { from, to, budget, enough: budget / 10.0, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections by the share of a reactor that each takes, on reactors that get orders and follow them.
    struct Simulation {
        reactors: Vec<Vec<f64>>,
        decider: Decider,
        standing: Vec<Order>,
        moves: usize,
    }

    /// Requests per look of a reactor that is busy all the time.
    const FULL: f64 = 10_000.0;

    impl Simulation {
        fn of(reactors: &[&[f64]]) -> Self {
            let reactors = reactors.iter().map(|connections| connections.to_vec()).collect();
            Simulation { reactors, decider: Decider::default(), standing: Vec::new(), moves: 0 }
        }

        fn shares(&self) -> Vec<f64> {
            self.reactors.iter().map(|connections| connections.iter().sum::<f64>().min(1.0)).collect()
        }

        /// The difference between the busiest reactor and the idlest.
        fn gap(&self) -> f64 {
            let shares = self.shares();
            shares.iter().copied().fold(0.0, f64::max) - shares.iter().copied().fold(1.0, f64::min)
        }

        fn look(&mut self) {
            let load = |busy| Load { busy, requests: (busy * FULL) as u64, room: 1000 };
            let loads: Vec<Load> = self.shares().into_iter().map(load).collect();
            if let Some(orders) = self.decider.look(&loads) {
                self.standing = orders;
            }
            for order in &mut self.standing {
                // The latest comers are asked last: they are at the end.
                let (stay, go): (Vec<f64>, Vec<f64>) =
                    self.reactors[order.from].iter().partition(|share| !order.takes(**share * FULL));
                self.reactors[order.from] = stay;
                self.moves += go.len();
                self.reactors[order.to].extend(go);
            }
        }

        /// Runs until nothing has moved for a long time; the number of looks to the last move.
        fn settle(&mut self) -> usize {
            let (mut last, mut moves) = (0, 0);
            for look in 0..1000 {
                self.look();
                if self.moves > moves {
                    (last, moves) = (look, self.moves);
                }
            }
            last
        }
    }

    #[test]
    fn what_is_even_stays_as_it_is() {
        for reactors in [[&[0.1; 9][..], &[0.1; 8]], [&[], &[]], [&[0.05; 20], &[0.05; 18]], [&[0.14], &[]]] {
            let mut simulation = Simulation::of(&reactors);
            simulation.settle();
            assert_eq!(simulation.moves, 0, "{reactors:?}");
        }
    }

    #[test]
    fn uneven_work_is_spread_in_a_few_steps_and_then_stays() {
        for reactors in [
            [&[0.1; 9][..], &[]],
            [&[0.45, 0.45], &[]],
            [&[0.3, 0.02, 0.1, 0.3], &[0.05]],
            [&[0.001; 900], &[0.01; 5]],
        ] {
            let mut simulation = Simulation::of(&reactors);
            let looks = simulation.settle();
            assert!(simulation.gap() < 0.2 && looks < 20, "{looks} looks, {:?}", simulation.shares());
        }
    }

    #[test]
    fn one_hot_reactor_of_many_is_relieved_by_all() {
        let mut simulation = Simulation::of(&[&[0.02; 50], &[], &[], &[], &[], &[], &[], &[]]);
        let looks = simulation.settle();
        assert!(simulation.gap() < 0.2 && looks < 40, "{looks} looks, {:?}", simulation.shares());
    }

    #[test]
    fn a_connection_that_is_too_heavy_for_either_stays_where_it_is() {
        for reactors in [[&[0.95][..], &[]], [&[], &[0.95]], [&[0.9, 0.01, 0.01, 0.01], &[0.01]]] {
            let mut simulation = Simulation::of(&reactors);
            simulation.settle();
            assert!(simulation.moves <= 3, "{} moves", simulation.moves);
            assert!(simulation.reactors.concat().contains(&reactors.concat()[0]));
        }
    }

    #[test]
    fn one_look_is_no_look_and_a_full_reactor_gets_nothing() {
        let (hot, cold) =
            (Load { busy: 0.9, requests: 100, room: 10 }, Load { busy: 0.1, requests: 10, room: 10 });
        let mut decider = Decider::default();
        for _ in 0..10 {
            assert_eq!(decider.look(&[hot, cold]), Some(Vec::new()));
            for _ in 0..3 {
                assert_eq!(decider.look(&[cold, cold]), Some(Vec::new()));
            }
        }
        let full = Load { room: 0, ..cold };
        assert!((0..10).all(|_| decider.look(&[hot, full]) == Some(Vec::new())));
        let few = Load { room: 2, ..cold };
        let orders: Vec<Order> = (0..3).flat_map(|_| decider.look(&[hot, few]).unwrap_or_default()).collect();
        let mut order = *orders.first().unwrap();
        assert_eq!((order.from, order.to), (0, 1));
        assert!(order.takes(1.0) && order.takes(1.0) && !order.takes(1.0), "no more than there is room for");
    }
}
