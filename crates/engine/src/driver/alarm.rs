//! Short sleeps of an epoll instance, in time to the microsecond: its own time-out counts milliseconds, and rounds up.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::timespec;

/// Sleeps shorter than this are made exact; a millisecond more or less does not matter to longer ones.
const SHORT: Duration = Duration::from_millis(10);

/// A timer among the descriptors of an epoll instance; made when it is needed first.
#[derive(Default)]
pub(super) struct Alarm(Option<OwnedFd>);

impl Alarm {
    /// Has the instance woken by an event with this data after a short time. False if that is not short, or cannot be
    /// done: then its own time-out must do.
    pub(super) fn set(&mut self, poll: &OwnedFd, data: u64, after: Duration) -> bool {
        if after.is_zero() || after >= SHORT {
            return false;
        }
        if self.0.is_none() {
            self.0 = Self::open(poll, data);
        }
        let once = Itimerspec { it_interval: timespec(Duration::ZERO), it_value: timespec(after) };
        self.0.as_ref().is_some_and(|timer| timerfd_settime(timer, TimerfdTimerFlags::empty(), &once).is_ok())
    }

    fn open(poll: &OwnedFd, data: u64) -> Option<OwnedFd> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC).ok()?;
        // Each expiry is an edge, so the number of them need not be read.
        epoll::add(poll, &timer, EventData::new_u64(data), EventFlags::IN | EventFlags::ET).ok()?;
        Some(timer)
    }
}
