//! When requests have waited too long to be worth their work: controlled delay on the queue of a pool.
//!
//! A queue that is emptied now and then only evens out bursts, however long it gets; one whose shortest wait over a while is
//! too long is standing, and only makes everybody late. Then whoever has waited too long is turned away, so that those behind
//! are answered in time (Nichols and Jacobson: Controlling Queue Delay, 2012; with a bound in place of the growing drop rate,
//! as in Facebook's: Maurer, Fail at Scale, 2015). By class, each class has a queue and a shortest wait of its own. Where the
//! latest go first, the shortest wait says nothing, and there is a bound on the longest.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use engine::workers::CLASSES;
use engine::{Class, Order};

/// How long a while is.
const INTERVAL: Duration = Duration::from_millis(100);

/// Fewest requests that say anything: a while goes on until there were so many.
const FEWEST: u64 = 2;

/// The wait of a pool's requests.
pub(crate) struct QueueDelay {
    target: Duration,
    order: Order,
    begun: Instant,
    /// When the present while ends, in microseconds since the beginning.
    ends: AtomicU64,
    /// What is known of each class, or, where they wait in one queue, of all of them in the first.
    lines: [Line; CLASSES],
    /// Requests of the present while, of the high class and of all.
    high: AtomicU64,
    all: AtomicU64,
    /// Most requests of the last while were of the high class.
    is_flood: AtomicBool,
}

/// Requests that wait for each other.
struct Line {
    /// The shortest wait of the present while, in microseconds, and how many there were.
    shortest: AtomicU64,
    seen: AtomicU64,
    /// The shortest wait of the last while was longer than the target.
    is_standing: AtomicBool,
}

/// How long a request may wait where the latest go first: once the oldest has waited for a while, the queue has not been
/// empty for that long.
pub(crate) fn longest(target: Duration) -> Duration {
    INTERVAL.max(target.saturating_mul(2))
}

impl QueueDelay {
    /// Keeps waits near a target, in a queue with this order.
    pub(crate) fn new(target: Duration, order: Order) -> Self {
        let line = |_| Line {
            shortest: AtomicU64::new(u64::MAX),
            seen: AtomicU64::new(0),
            is_standing: AtomicBool::new(false),
        };
        QueueDelay {
            target,
            order,
            begun: Instant::now(),
            ends: AtomicU64::new(INTERVAL.as_micros() as u64),
            lines: std::array::from_fn(line),
            high: AtomicU64::new(0),
            all: AtomicU64::new(0),
            is_flood: AtomicBool::new(false),
        }
    }

    /// Whether a request that has waited so long is to be turned away now. To be asked for each. The high class never is,
    /// unless most requests are of it.
    pub(crate) fn turns_away(&self, class: Class, waited: Duration, now: Instant) -> bool {
        self.at(class, waited, now.saturating_duration_since(self.begun))
    }

    fn at(&self, class: Class, waited: Duration, now: Duration) -> bool {
        let now = now.as_micros() as u64;
        let ends = self.ends.load(Relaxed);
        let next = now + INTERVAL.as_micros() as u64;
        // One of the workers ends the while; what others add in between counts for one of the two.
        if now >= ends && self.ends.compare_exchange(ends, next, Relaxed, Relaxed).is_ok() {
            self.lines.iter().for_each(|line| line.end(self.target));
            let (high, all) = (self.high.swap(0, Relaxed), self.all.swap(0, Relaxed));
            self.is_flood.store(all >= FEWEST && 2 * high > all, Relaxed);
        }
        self.all.fetch_add(1, Relaxed);
        let is_high = class == Class::High;
        if is_high {
            self.high.fetch_add(1, Relaxed);
        }
        let is_late = match self.order {
            Order::Lifo | Order::Adaptive => waited >= longest(self.target),
            Order::Priority => self.lines[class as usize].is_late(waited, self.target),
            Order::Fifo => self.lines[0].is_late(waited, self.target),
        };
        let may_be_turned_away = !is_high || self.is_flood.load(Relaxed);
        is_late && may_be_turned_away
    }
}

impl Line {
    /// Ends a while.
    fn end(&self, target: Duration) {
        if self.seen.load(Relaxed) < FEWEST {
            return;
        }
        let shortest = self.shortest.swap(u64::MAX, Relaxed);
        self.seen.store(0, Relaxed);
        self.is_standing.store(u128::from(shortest) > target.as_micros(), Relaxed);
    }

    /// Counts a wait; whether it is too long.
    fn is_late(&self, waited: Duration, target: Duration) -> bool {
        self.shortest.fetch_min(waited.as_micros() as u64, Relaxed);
        self.seen.fetch_add(1, Relaxed);
        if waited <= target {
            // It has come to its end, as after an idle time: what the last while saw is over.
            if self.is_standing.load(Relaxed) {
                self.is_standing.store(false, Relaxed);
            }
            return false;
        }
        self.is_standing.load(Relaxed) && waited > target.saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn fifo() -> QueueDelay {
        QueueDelay::new(5 * MS, Order::Fifo)
    }

    /// A queue in front of one worker that takes 5 ms for each request, over 10 seconds, where one request comes every so
    /// often: how many were answered, how many turned away, and the longest wait of those answered in the last half.
    fn simulate(every: Duration, burst: impl Fn(u32) -> u32) -> (u32, u32, Duration) {
        let delay = fifo();
        let (mut free, mut answered, mut away, mut longest) = (Duration::ZERO, 0, 0, Duration::ZERO);
        for nth in 0.. {
            let came = every * nth;
            if came > Duration::from_secs(10) {
                break;
            }
            for _ in 0..burst(nth) {
                let begins = free.max(came);
                if delay.at(Class::Normal, begins - came, begins) {
                    away += 1;
                    continue;
                }
                free = begins + 5 * MS;
                answered += 1;
                if came > Duration::from_secs(5) {
                    longest = longest.max(begins - came);
                }
            }
        }
        (answered, away, longest)
    }

    #[test]
    fn a_load_that_can_be_carried_is_carried() {
        let (answered, away, longest) = simulate(6 * MS, |_| 1);
        assert_eq!((answered, away, longest), (1667, 0, Duration::ZERO));
    }

    #[test]
    fn a_burst_that_is_worked_off_is_no_reason_to_turn_anybody_away() {
        // Ten at once, and then nothing for 100 ms: twice what comes is left over.
        let (answered, away, _) = simulate(100 * MS, |_| 10);
        assert_eq!((answered, away), (1010, 0));
    }

    #[test]
    fn a_burst_after_an_idle_time_is_not_judged_by_what_was_before() {
        let delay = fifo();
        let turned_away = |from: u32, times: u32, shortest: u32| {
            let ask = |nth| delay.at(Class::Normal, (shortest + nth) * MS, (from + nth) * MS);
            (0..times).filter(|nth| ask(*nth)).count()
        };
        // A standing queue, until it is empty; then for 10 and for 200 ms nothing comes, and then a burst.
        for (overload, burst) in [(0, 310), (1000, 1500)] {
            assert!(turned_away(overload, 300, 50) > 150);
            assert_eq!(turned_away(burst, 40, 0), 0);
        }
    }

    #[test]
    fn a_wait_without_end_turns_nobody_away() {
        for order in Order::ALL {
            let delay = QueueDelay::new(Duration::MAX, *order);
            assert!((0..200).all(|nth| !delay.at(Class::Normal, 1000 * MS, nth * MS)), "{order}");
        }
    }

    #[test]
    fn twice_what_can_be_carried_keeps_the_worker_busy_and_the_wait_short() {
        let (answered, away, longest) = simulate(Duration::from_micros(2500), |_| 1);
        // 200 per second for 10 seconds, and as many are turned away.
        assert!((1900..=2100).contains(&answered), "{answered}");
        assert!(away > 1500, "{away}");
        // Without it the last would wait for 10 seconds.
        assert!(longest < 250 * MS, "{longest:?}");
    }

    #[test]
    fn ten_times_as_much_changes_nothing_for_those_who_are_let_in() {
        let (answered, _, longest) = simulate(Duration::from_micros(500), |_| 1);
        assert!((1900..=2100).contains(&answered), "{answered}");
        assert!(longest < 250 * MS, "{longest:?}");
    }

    /// Requests of two classes, one of each every 10 ms for a second, that have waited so long: how many of each were turned away.
    fn turned_away(order: Order, first: (Class, Duration), second: (Class, Duration)) -> [u32; 2] {
        let delay = QueueDelay::new(5 * MS, order);
        let mut away = [0; 2];
        for nth in 0..100 {
            for (at, (class, waited)) in [first, second].into_iter().enumerate() {
                away[at] += u32::from(delay.at(class, waited, 10 * MS * nth));
            }
        }
        away
    }

    #[test]
    fn urgent_work_that_never_waits_does_not_hide_that_the_rest_is_standing() {
        let checks = (Class::High, Duration::ZERO);
        for class in [Class::Normal, Class::Low] {
            let [high, others] = turned_away(Order::Priority, checks, (class, 50 * MS));
            assert!(high == 0 && others >= 80, "{high} {others}");
        }
    }

    #[test]
    fn a_class_of_which_few_come_is_judged_too() {
        let delay = QueueDelay::new(5 * MS, Order::Priority);
        let late = (0..100).filter(|nth| delay.at(Class::Low, 50 * MS, 80 * MS * *nth)).count();
        assert!(late >= 90, "{late}");
    }

    #[test]
    fn what_is_urgent_is_turned_away_only_where_it_is_the_flood() {
        let late = 50 * MS;
        for order in [Order::Fifo, Order::Priority, Order::Lifo] {
            let late = if order == Order::Lifo { INTERVAL } else { late };
            let [high, others] = turned_away(order, (Class::High, late), (Class::Normal, late));
            assert!(high == 0 && others >= 80, "{order}: {high} {others}");
            let [first, second] = turned_away(order, (Class::High, late), (Class::High, late));
            assert!(first + second >= 160, "{order}: {first} {second}");
        }
    }

    #[test]
    fn where_the_latest_go_first_it_is_the_oldest_that_are_turned_away() {
        for order in [Order::Lifo, Order::Adaptive] {
            let quick = (Class::Normal, Duration::ZERO);
            assert_eq!(turned_away(order, quick, (Class::Normal, 99 * MS)), [0, 0]);
            assert_eq!(turned_away(order, quick, (Class::Normal, longest(5 * MS))), [0, 100]);
        }
        assert_eq!((longest(5 * MS), longest(80 * MS)), (100 * MS, 160 * MS));
    }
}
