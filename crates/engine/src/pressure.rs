//! Whether memory is scarce, of which one thread looks and says so, or descriptors are, which those that accept find out. All
//! that have connections heed it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The share of the limit from which on memory is scarce, and below which it is not any more.
const SCARCE: f64 = 0.9;
const ENOUGH: f64 = 0.88;

/// The share from which on the rest is for those that are there already: of the least that one would give a server, 64 MiB, it
/// leaves 1.9 MiB, the buffers of 60 connections.
const OUT: f64 = 0.97;

/// Looks, one a second, after which what could be given back has been: a quarter of the connections that are idle ends at each
/// at least, and 0.75 to the power of ten is a twentieth. Nor does a client wait much longer.
const LASTS: u32 = 10;

/// How long after one connection a thread lets the next one in while memory stays scarce: the time between two looks, so that
/// what it has taken, 35 KiB at most, is seen before.
const SLOWLY: Duration = Duration::from_secs(1);

/// How scarce memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// It is not.
    Enough,
    /// Connections that are idle end, and those that come wait until it is not any more.
    Scarce,
    /// It stays so: of those that come one a second is let in by each thread that accepts, and the others are refused.
    Lasting,
    /// It has nearly run out: those that come are refused.
    Out,
}

impl Level {
    const ALL: [Level; 4] = [Level::Enough, Level::Scarce, Level::Lasting, Level::Out];

    /// Its name.
    pub fn name(self) -> &'static str {
        ["enough", "scarce", "lasting", "out"][self as usize]
    }
}

/// Whether memory is scarce; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Pressure(Arc<State>);

#[derive(Debug, Default)]
struct State {
    level: AtomicU8,
    /// Looks in a row that have shown it scarce. The thread that looks writes.
    looks: AtomicU32,
    /// Accepting pauses, since the last connection that was to be accepted found no descriptor.
    lacks_descriptors: AtomicBool,
}

impl Pressure {
    /// How scarce it is.
    pub fn level(&self) -> Level {
        Level::ALL[usize::from(self.0.level.load(Ordering::Relaxed))]
    }

    /// Whether it is scarce at all: idle connections end then.
    pub(crate) fn is_on(&self) -> bool {
        self.level() != Level::Enough
    }

    /// Notes whether accepting pauses for want of descriptors.
    pub(crate) fn set_lacks_descriptors(&self, lacks: bool) {
        self.0.lacks_descriptors.store(lacks, Ordering::Relaxed);
    }

    /// Whether accepting pauses for want of descriptors: connections that are idle end then, one after the other.
    pub(crate) fn lacks_descriptors(&self) -> bool {
        self.0.lacks_descriptors.load(Ordering::Relaxed)
    }

    /// Judges one more look, at the share of the limit that is in use.
    pub(crate) fn look(&self, in_use: f64) {
        let was = self.level();
        let is_on = in_use >= if was == Level::Enough { SCARCE } else { ENOUGH };
        let looks = if is_on { self.0.looks.load(Ordering::Relaxed) + 1 } else { 0 };
        self.0.looks.store(looks, Ordering::Relaxed);
        let is = match looks {
            0 => Level::Enough,
            1..=LASTS => Level::Scarce,
            _ if in_use >= OUT => Level::Out,
            _ => Level::Lasting,
        };
        self.0.level.store(is as u8, Ordering::Relaxed);
        if was == is {
            return;
        }
        let percent = (100.0 * in_use).round();
        match is {
            Level::Enough => tracing::warn!(percent, "memory is not scarce any more"),
            Level::Scarce => {
                tracing::warn!(percent, "memory is scarce: idle connections end, and accepting pauses")
            }
            Level::Lasting => {
                tracing::warn!(
                    percent,
                    "memory stays scarce: few that come are let in, the others are refused"
                )
            }
            Level::Out => tracing::warn!(percent, "memory has nearly run out: all that come are refused"),
        }
    }
}

/// What one thread that accepts does by it.
pub(crate) struct Door<'a> {
    pressure: &'a Pressure,
    /// While it stays scarce, when the next is let in.
    next: Option<Instant>,
}

impl<'a> Door<'a> {
    pub(crate) fn new(pressure: &'a Pressure) -> Self {
        Door { pressure, next: None }
    }

    /// Whether nobody is to be accepted for now.
    pub(crate) fn is_shut(&self) -> bool {
        self.pressure.level() == Level::Scarce
    }

    /// Whether the one is let in that has just been accepted.
    pub(crate) fn lets_in(&mut self) -> bool {
        match self.pressure.level() {
            Level::Enough | Level::Scarce => true,
            Level::Lasting => self.lets_one_in(Instant::now()),
            Level::Out => false,
        }
    }

    fn lets_one_in(&mut self, now: Instant) -> bool {
        let lets_in = self.next.is_none_or(|next| now >= next);
        if lets_in {
            self.next = Some(now + SLOWLY);
        }
        lets_in
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pressure: &Pressure, in_use: f64) -> Level {
        pressure.look(in_use);
        pressure.level()
    }

    #[test]
    fn it_comes_at_nine_tenths_and_does_not_flutter() {
        let pressure = Pressure::default();
        let seen = [0.0, 0.89, 0.9, 0.89, 1.2, 0.87, 0.89, 0.91, 0.5].map(|in_use| {
            pressure.look(in_use);
            pressure.is_on()
        });
        assert_eq!(seen, [false, false, true, true, true, false, false, true, false]);
    }

    #[test]
    fn where_it_stays_nobody_waits_for_good() {
        let pressure = Pressure::default();
        for _ in 0..LASTS {
            assert_eq!(after(&pressure, 0.99), Level::Scarce);
        }
        assert_eq!(
            [0.95, 0.97, 0.96, 0.88].map(|in_use| after(&pressure, in_use)),
            [Level::Lasting, Level::Out, Level::Lasting, Level::Lasting]
        );
        assert_eq!([0.87, 0.98].map(|in_use| after(&pressure, in_use)), [Level::Enough, Level::Scarce]);
    }

    #[test]
    fn one_a_second_is_let_in_however_many_come() {
        let pressure = Pressure::default();
        (0..=LASTS).for_each(|_| pressure.look(0.95));
        let mut door = Door::new(&pressure);
        let start = Instant::now();
        let let_in = (0..1000).filter(|n| door.lets_one_in(start + Duration::from_millis(10 * n))).count();
        assert_eq!((let_in, door.is_shut()), (10, false));
        pressure.look(0.99);
        assert!(!door.lets_in() && !door.is_shut());
        pressure.look(0.5);
        assert!((0..10).all(|_| door.lets_in()));
        pressure.look(0.9);
        assert!(door.is_shut());
    }
}
