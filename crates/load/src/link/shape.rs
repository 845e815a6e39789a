//! What a link does to packets: it loses some, sends them no faster than its rate, and delivers them after its delay.

use std::collections::VecDeque;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Link;

/// Most packets on their way: some 100 MB. Further ones are lost.
const MOST_PACKETS: usize = 65_536;

/// One direction of a link. Times are since some moment.
pub(super) struct Shaper {
    link: Link,
    dice: ChaCha8Rng,
    /// When all that was accepted will have been sent, at the link's rate.
    idle_at: Duration,
    /// When the packet before is delivered: none overtakes another.
    last: Duration,
    /// On their way, each with when it is delivered.
    packets: VecDeque<(Duration, Box<[u8]>)>,
    /// Packets that were lost, by chance or since too many waited.
    pub(super) lost: u64,
}

impl Shaper {
    /// A link that is idle; the two directions of one have different numbers.
    pub(super) fn new(link: Link, direction: u64) -> Self {
        let mut dice = ChaCha8Rng::seed_from_u64(link.seed);
        dice.set_stream(direction);
        let (idle_at, last) = (Duration::ZERO, Duration::ZERO);
        Shaper { link, dice, idle_at, last, packets: VecDeque::new(), lost: 0 }
    }

    /// Takes a packet.
    pub(super) fn accept(&mut self, packet: &[u8], now: Duration) {
        let begins = self.idle_at.max(now);
        let waits = begins - now;
        let full = self.packets.len() >= MOST_PACKETS || waits.as_secs_f64() > self.link.queue_s;
        if self.dice.random::<f64>() < self.link.loss || full {
            self.lost += 1;
            return;
        }
        self.idle_at = begins + self.sending(packet.len());
        let jitter = self.link.jitter_s * (2.0 * self.dice.random::<f64>() - 1.0);
        let delay = Duration::from_secs_f64((self.link.delay_s + jitter).max(0.0));
        self.last = self.last.max(self.idle_at + delay);
        self.packets.push_back((self.last, packet.into()));
    }

    /// How long the link takes to send so many bytes.
    fn sending(&self, bytes: usize) -> Duration {
        match self.link.bits_per_second {
            rate if rate > 0.0 => Duration::from_secs_f64(bytes as f64 * 8.0 / rate),
            _ => Duration::ZERO,
        }
    }

    /// When the next packet is delivered.
    pub(super) fn next(&self) -> Option<Duration> {
        self.packets.front().map(|(at, _)| *at)
    }

    /// The next packet, if it is time.
    pub(super) fn deliver(&mut self, now: Duration) -> Option<Box<[u8]>> {
        let due = self.next()? <= now;
        due.then(|| self.packets.pop_front().map(|(_, packet)| packet)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn shaper(link: &str) -> Shaper {
        Shaper::new(link.parse().unwrap(), 0)
    }

    /// When each of some packets, given one each so often, is delivered; `None` for the lost ones.
    fn deliveries(mut shaper: Shaper, packets: u32, every: Duration, bytes: usize) -> Vec<Option<Duration>> {
        let accept = |at: u32| {
            let (now, before) = (every * at, shaper.packets.len());
            shaper.accept(&vec![0; bytes], now);
            (shaper.packets.len() > before).then(|| shaper.packets[before].0)
        };
        (0..packets).map(accept).collect()
    }

    #[test]
    fn delay_and_rate_add_up() {
        // 1,000 bytes at 8 Mbit/s take 1 ms.
        let all = deliveries(shaper("delay=20ms,rate=8mbit"), 3, Duration::ZERO, 1000);
        assert_eq!(all, [Some(MS * 21), Some(MS * 22), Some(MS * 23)]);
        // Whoever comes when the link is idle waits for nobody.
        let all = deliveries(shaper("delay=20ms,rate=8mbit"), 2, MS * 10, 1000);
        assert_eq!(all, [Some(MS * 21), Some(MS * 31)]);
    }

    #[test]
    fn what_would_wait_too_long_is_lost() {
        // 10 ms are waited at most: 11 packets of 1 ms each.
        let all = deliveries(shaper("rate=8mbit,queue=10ms"), 20, Duration::ZERO, 1000);
        assert_eq!(all.iter().flatten().count(), 11);
    }

    #[test]
    fn jitter_spreads_and_never_reorders() {
        let all = deliveries(shaper("delay=20ms,jitter=5ms"), 10_000, MS * 20, 100);
        let delays: Vec<f64> = (0..)
            .zip(&all)
            .map(|(at, to): (u32, _)| (to.unwrap() - MS * 20 * at).as_secs_f64() * 1e3)
            .collect();
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        assert!((mean - 20.0).abs() < 0.2, "{mean}");
        assert!(delays.iter().all(|ms| (15.0..=25.0).contains(ms)));
        let together = deliveries(shaper("delay=20ms,jitter=5ms"), 1000, Duration::ZERO, 100);
        assert!(together.is_sorted());
    }

    #[test]
    fn as_many_are_lost_as_was_said_and_the_same_ones_each_time() {
        let lost = || deliveries(shaper("loss=2%"), 50_000, MS, 100);
        let count = lost().iter().filter(|delivery| delivery.is_none()).count();
        assert!((880..1120).contains(&count), "{count}");
        assert_eq!(lost(), lost());
    }

    #[test]
    fn a_long_link_without_a_rate_holds_no_more_than_its_bound() {
        let all = deliveries(shaper("delay=60s"), MOST_PACKETS as u32 + 10, Duration::ZERO, 10);
        assert_eq!(all.iter().flatten().count(), MOST_PACKETS);
    }

    #[test]
    fn nothing_is_delivered_before_its_time() {
        let mut shaper = shaper("delay=5ms");
        shaper.accept(b"packet", Duration::ZERO);
        assert_eq!((shaper.deliver(MS * 4), shaper.next()), (None, Some(MS * 5)));
        assert_eq!(shaper.deliver(MS * 5).as_deref(), Some(&b"packet"[..]));
        assert_eq!(shaper.next(), None);
    }
}
