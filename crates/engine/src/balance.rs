//! Choosing the reactor for the next connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::meter::Counters;
use crate::shift::Shift;
use crate::topology::Balance;

/// How often the reactors' busy time is read. Shorter, and the share of such a span says little; longer, and a
/// reactor that has become busy is given more connections meanwhile.
const SAMPLE: Duration = Duration::from_millis(5);

/// Weight of the newest sample in the moving average of a reactor's busy share, if it is one of the shortest: a longer one
/// weighs as much as all those together that it could have been.
const NEWEST: f64 = 0.3;

/// What a new connection is taken to add to a reactor's busy share while there is nothing to judge by.
const SMALL_SHARE: f64 = 0.01;

/// The acceptor's view of the reactors.
pub(crate) struct Balancer {
    balance: Balance,
    reactors: Vec<View>,
    shift: Shift,
    next: usize,
    random: ChaCha8Rng,
    sampled: Instant,
}

struct View {
    counters: Arc<Counters>,
    /// Connections given to it so far.
    given: u64,
    /// Connections it had at the last sample.
    sampled: u64,
    /// Its busy time at the last sample.
    busy: Duration,
    /// Moving average of the share of time in which it was busy, 0 to 1.
    share: f64,
}

impl View {
    /// Connections it has now, those on their way included.
    fn connections(&self) -> u64 {
        let ended =
            self.counters.closed.load(Ordering::Relaxed) + self.counters.refused.load(Ordering::Relaxed);
        (self.given + self.counters.moved_in.load(Ordering::Relaxed)).saturating_sub(ended)
    }
}

impl Balancer {
    pub(crate) fn new(balance: Balance, counters: &[Arc<Counters>], shift: Shift, now: Instant) -> Self {
        let view = |counters: &Arc<Counters>| View {
            counters: counters.clone(),
            given: 0,
            sampled: 0,
            busy: Duration::ZERO,
            share: 0.0,
        };
        Balancer {
            balance,
            reactors: counters.iter().map(view).collect(),
            shift,
            next: 0,
            random: ChaCha8Rng::seed_from_u64(0),
            sampled: now,
        }
    }

    /// The reactor for the next connection: one of those that work.
    pub(crate) fn choose(&mut self, now: Instant) -> usize {
        let count = self.shift.working().clamp(1, self.reactors.len());
        self.next %= count;
        let chosen = match self.balance {
            Balance::RoundRobin => self.next,
            Balance::LeastConnections => self.fewest(count, 0..count),
            Balance::LeastBusy => self.least_busy(count, now),
            Balance::TwoChoices => {
                let pick = |random: &mut ChaCha8Rng| random.next_u32() as usize % count;
                let (a, b) = (pick(&mut self.random), pick(&mut self.random));
                self.fewest(count, [a, b])
            }
        };
        // Ties are broken in turn, so that an idle server does not give everything to its first reactor.
        self.next = (chosen + 1) % count;
        self.reactors[chosen].given += 1;
        chosen
    }

    fn fewest(&self, count: usize, among: impl IntoIterator<Item = usize>) -> usize {
        let turn = |index: usize| (index + count - self.next) % count;
        among.into_iter().min_by_key(|index| (self.reactors[*index].connections(), turn(*index))).unwrap_or(0)
    }

    /// The reactor that would be the least busy if each connection that it has more than at the last sample brought as
    /// much work as the average one.
    fn least_busy(&mut self, count: usize, now: Instant) -> usize {
        let passed = now.saturating_duration_since(self.sampled);
        if passed >= SAMPLE {
            self.sampled = now;
            let weight = 1.0 - (1.0 - NEWEST).powf(passed.div_duration_f64(SAMPLE));
            for view in &mut self.reactors {
                let busy = view.counters.meter.busy(now);
                let share = busy.saturating_sub(view.busy).div_duration_f64(passed).min(1.0);
                view.share += weight * (share - view.share);
                (view.busy, view.sampled) = (busy, view.connections());
            }
        }
        let working = &self.reactors[..count];
        let connections: u64 = working.iter().map(View::connections).sum();
        let busy: f64 = working.iter().map(|view| view.share).sum();
        let each = if connections == 0 { SMALL_SHARE } else { (busy / connections as f64).max(1e-6) };
        // Those that have ended since brought little.
        let more = |view: &View| view.connections().saturating_sub(view.sampled) as f64;
        let expected = |view: &View| view.share + each * more(view);
        let order = (0..count).map(|turn| (self.next + turn) % count);
        order.min_by(|a, b| expected(&working[*a]).total_cmp(&expected(&working[*b]))).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reactors(count: usize) -> Vec<Arc<Counters>> {
        (0..count).map(|_| Arc::default()).collect()
    }

    fn given(balancer: &mut Balancer, connections: usize, now: Instant) -> Vec<usize> {
        let mut given = vec![0; balancer.reactors.len()];
        (0..connections).for_each(|_| given[balancer.choose(now)] += 1);
        given
    }

    #[test]
    fn an_idle_server_is_filled_evenly_by_each_way() {
        for balance in Balance::ALL {
            let now = Instant::now();
            let given = given(&mut Balancer::new(*balance, &reactors(4), Shift::of(4), now), 400, now);
            assert!(given.iter().all(|n| (90..=110).contains(n)), "{balance} {given:?}");
        }
    }

    #[test]
    fn who_rests_gets_none() {
        for balance in Balance::ALL {
            let (shift, now) = (Shift::of(4), Instant::now());
            let mut balancer = Balancer::new(*balance, &reactors(4), shift.clone(), now);
            for (working, most) in [(4, 110), (2, 220), (1, 400), (4, 400)] {
                shift.set_working(working);
                let given = given(&mut balancer, 400, now);
                assert!(given.iter().all(|n| *n <= most), "{balance} {given:?}");
                assert!(given[working..].iter().all(|n| *n == 0), "{balance} {given:?}");
            }
        }
    }

    #[test]
    fn who_has_fewer_connections_gets_the_next() {
        for balance in [Balance::LeastConnections, Balance::TwoChoices] {
            let (counters, now) = (reactors(2), Instant::now());
            let mut balancer = Balancer::new(balance, &counters, Shift::of(2), now);
            given(&mut balancer, 100, now);
            // All of the first one's connections end.
            let ended = balancer.reactors[0].given;
            counters[0].closed.store(ended, Ordering::Relaxed);
            let next = given(&mut balancer, 40, now);
            assert!(next[0] > 25, "{balance} {next:?}");
        }
        let (counters, now) = (reactors(2), Instant::now());
        let mut round_robin = Balancer::new(Balance::RoundRobin, &counters, Shift::of(2), now);
        given(&mut round_robin, 100, now);
        counters[0].closed.store(50, Ordering::Relaxed);
        assert_eq!(given(&mut round_robin, 40, now), [20, 20], "round-robin does not look");
    }

    #[test]
    fn a_busy_reactor_is_spared_and_a_burst_is_not_given_to_one() {
        let (counters, start) = (reactors(3), Instant::now());
        let mut balancer = Balancer::new(Balance::LeastBusy, &counters, Shift::of(3), start);
        given(&mut balancer, 3, start);
        // One works all the time, as with a request that does not end; the others a fifth and a tenth of it.
        counters[0].meter.begin(start);
        for step in 1..=100 {
            let now = start + SAMPLE * step;
            for (index, part) in [(1, 5), (2, 10)] {
                counters[index].meter.begin(now - SAMPLE / part);
                counters[index].meter.end(now);
            }
            balancer.least_busy(3, now);
        }
        let now = start + SAMPLE * 100;
        let burst = given(&mut balancer, 3, now);
        assert_eq!(burst[0], 0, "{burst:?}");
        let burst = given(&mut balancer, 60, now);
        assert!(burst[1] > 10 && burst[2] > 10 && burst[0] < burst[1], "{burst:?}");
    }

    #[test]
    fn what_was_long_ago_is_forgotten_though_nobody_came() {
        let (counters, start) = (reactors(2), Instant::now());
        let mut balancer = Balancer::new(Balance::LeastBusy, &counters, Shift::of(2), start);
        counters[0].meter.begin(start);
        for step in 1..=100 {
            balancer.least_busy(2, start + SAMPLE * step);
        }
        // From then on the first one rests, and the other works half of the time.
        let (turn, minute) = (start + SAMPLE * 100, Duration::from_secs(60));
        counters[0].meter.end(turn);
        counters[1].meter.begin(turn);
        counters[1].meter.end(turn + minute / 2);
        assert_eq!(balancer.choose(turn + minute), 0);
        assert!((balancer.reactors[1].share - 0.5).abs() < 1e-6, "{}", balancer.reactors[1].share);
    }
}
