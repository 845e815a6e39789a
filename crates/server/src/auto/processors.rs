//! How busy the processors are that this process may use, with its own work or that of others.

use std::time::{Duration, Instant};

use engine::clock;
use engine::host::{self, Cores};
use engine::ticks::Ticks;

/// Time between two looks at how many processors may be used: a quota can change while the server runs.
const LOOK: Duration = Duration::from_secs(1);

/// The processors, looked at again and again.
pub(super) struct Processors {
    cores: Cores,
    looked: Instant,
    /// The processors of the affinity mask.
    mine: Vec<usize>,
    /// The time of those, and this process's own, when it was last asked.
    last: Option<(Ticks, Duration, Instant)>,
}

impl Processors {
    pub(super) fn new() -> Self {
        Processors { cores: Cores::detect(), looked: Instant::now(), mine: host::processors(), last: None }
    }

    /// Whether the number that may be used has changed since this was last asked.
    pub(super) fn have_changed(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.looked) < LOOK {
            return false;
        }
        self.looked = now;
        let before = std::mem::replace(&mut self.cores, Cores::detect());
        let mine = host::processors();
        if mine != self.mine {
            (self.mine, self.last) = (mine, None);
        }
        before.usable() != self.cores.usable()
    }

    /// Threads that can run at the same time.
    pub(super) fn usable(&self) -> usize {
        self.cores.usable()
    }

    /// Shares of their time in which they were busy since the last time, 0 to 1: with whatever, and with this process. 0 where
    /// the kernel does not say.
    pub(super) fn busy(&mut self, now: Instant) -> (f64, f64) {
        let own = clock::of_process();
        let ticks = Ticks::now(|processor| self.mine.contains(&processor)).unwrap_or_default();
        let Some((before, own_before, then)) = self.last.replace((ticks, own, now)) else {
            return (0.0, 0.0);
        };
        let Ticks { idle, all: there, .. } = ticks.since(&before);
        let busy = if there > 0 { 1.0 - (idle as f64 / there as f64).min(1.0) } else { 0.0 };
        let seconds = now.saturating_duration_since(then).as_secs_f64().max(1e-9);
        let limit = self.cores.time().max(1e-9);
        let own = (own.saturating_sub(own_before).as_secs_f64() / seconds / limit).min(1.0);
        // Where it is a quota that binds, what others do does not matter.
        let busy = if self.quota().is_some() { own } else { busy };
        (busy, own)
    }

    /// The quota, in processors, if it binds: one of as many as there are, or of more, leaves what others do in the way.
    fn quota(&self) -> Option<f64> {
        self.cores.quota.filter(|quota| *quota < self.mine.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_that_does_not_bind_is_none() {
        let with =
            |quota| Processors { cores: Cores { affinity: 2, quota }, mine: vec![0, 3], ..Processors::new() };
        for (quota, binds) in [(None, None), (Some(1.5), Some(1.5)), (Some(2.0), None), (Some(8.0), None)] {
            assert_eq!(with(quota).quota(), binds, "{quota:?}");
        }
    }
}
