//! The thread that carries packets from one end of a link to the other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use engine::tun::Tun;
use engine::{Stop as Switch, clock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Link;
use super::shape::Shaper;

/// Longest packet that an interface with the usual MTU of 1,500 bytes gives, and more.
const PACKET: usize = 64 * 1024;

/// Packets that are taken from one end before the other has its turn.
const TURN: usize = 64;

/// Longest wait before it looks whether it should end.
const LOOK: Duration = Duration::from_millis(50);

/// Starts the thread, which ends when `stop` is set, and keeps its processor time in `used`, in nanoseconds.
pub(super) fn start(
    link: Link,
    near: Tun,
    far: Tun,
    stop: Switch,
    used: Arc<AtomicU64>,
) -> io::Result<JoinHandle<()>> {
    let carrier = Carrier {
        begun: Instant::now(),
        directions: [Shaper::new(link, 0), Shaper::new(link, 1)],
        ends: [far, near],
        packet: vec![0; PACKET],
    };
    thread::Builder::new().name("link".into()).spawn(move || carrier.run(&stop, &used))
}

struct Carrier {
    begun: Instant,
    /// From the load to the server, and back.
    directions: [Shaper; 2],
    /// Where each direction begins; it leads to the other.
    ends: [Tun; 2],
    packet: Vec<u8>,
}

impl Carrier {
    fn run(mut self, stop: &Switch, used: &AtomicU64) {
        while !stop.is_set() {
            used.store(clock::of_thread().as_nanos() as u64, Ordering::Relaxed);
            self.wait();
            for direction in 0..2 {
                self.take(direction);
            }
            let now = self.begun.elapsed();
            for direction in 0..2 {
                while let Some(packet) = self.directions[direction].deliver(now) {
                    // What the other end does not take is lost, as it would be on a wire.
                    let _ = self.ends[1 - direction].send(&packet);
                }
            }
        }
        let lost: u64 = self.directions.iter().map(|direction| direction.lost).sum();
        tracing::debug!(lost, "the link ends");
    }

    /// Takes what waits at an end.
    fn take(&mut self, direction: usize) {
        for _ in 0..TURN {
            let Ok(length) = self.ends[direction].receive(&mut self.packet) else { break };
            self.directions[direction].accept(&self.packet[..length], self.begun.elapsed());
        }
    }

    /// Waits until a packet comes or one is to be delivered.
    fn wait(&self) {
        let next = self.directions.iter().filter_map(Shaper::next).min();
        let time = next.map_or(LOOK, |next| next.saturating_sub(self.begun.elapsed()).min(LOOK));
        let [far, near] = &self.ends;
        let mut ends = [PollFd::new(far, PollFlags::IN), PollFd::new(near, PollFlags::IN)];
        let time = Timespec::try_from(time).expect("at most the time between two looks");
        // A signal ends the wait early, which does no harm.
        let _ = poll(&mut ends, Some(&time));
    }
}
