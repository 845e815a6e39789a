//! Sleeps of an epoll instance, in time to the microsecond: its own time-out counts milliseconds, and rounds up.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::timespec;

/// Sleeps shorter than this end by the timer. Most waits are longer and end by what comes in, and are spared its system call.
const SHORT: Duration = Duration::from_millis(10);

/// How much too early longer ones end, so that the rest of them is short.
const EARLY: Duration = Duration::from_millis(5);

/// A timer among the descriptors of an epoll instance; made when it is needed first.
#[derive(Default)]
pub(super) struct Alarm(Option<OwnedFd>);

impl Alarm {
    /// The time-out for the instance, so that it is woken in time. A short one is `None`: an event with this data wakes it. A
    /// long one ends early, and what is left is short. Where there can be no timer its own time-out must do.
    pub(super) fn set(&mut self, poll: &OwnedFd, data: u64, after: Duration) -> Option<Duration> {
        if after.is_zero() {
            return Some(after);
        }
        if after >= SHORT {
            return Some(after - EARLY);
        }
        if self.0.is_none() {
            self.0 = Self::open(poll, data);
        }
        let once = Itimerspec { it_interval: timespec(Duration::ZERO), it_value: timespec(after) };
        let timer = self.0.as_ref();
        let is_set =
            timer.is_some_and(|timer| timerfd_settime(timer, TimerfdTimerFlags::empty(), &once).is_ok());
        (!is_set).then_some(after)
    }

    fn open(poll: &OwnedFd, data: u64) -> Option<OwnedFd> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC).ok()?;
        // Each expiry is an edge, so the number of them need not be read.
        epoll::add(poll, &timer, EventData::new_u64(data), EventFlags::IN | EventFlags::ET).ok()?;
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sleep_ends_by_the_timer_and_not_by_a_time_out_of_milliseconds() {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let mut alarm = Alarm::default();
        let micros = Duration::from_micros;
        assert_eq!(alarm.set(&poll, 1, Duration::ZERO), Some(Duration::ZERO));
        // 25.3 ms would be 26; so it is 20.3, or 21, and then the timer is set to what is left.
        assert_eq!(alarm.set(&poll, 1, micros(25_300)), Some(micros(20_300)));
        assert_eq!(alarm.set(&poll, 1, micros(4_300)), None);
        let mut events = Vec::with_capacity(1);
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None).unwrap();
        assert_eq!(events[0].data.u64(), 1);
    }
}
