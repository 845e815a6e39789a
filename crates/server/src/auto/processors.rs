//! How busy the processors are that this process may use, with its own work or that of others.

use std::fs;
use std::time::{Duration, Instant};

use engine::clock;
use engine::host::{self, Cores};

/// Time between two looks at how many processors may be used: a quota can change while the server runs.
const LOOK: Duration = Duration::from_secs(1);

/// The processors, looked at again and again.
pub(super) struct Processors {
    cores: Cores,
    looked: Instant,
    /// The processors of the affinity mask.
    mine: Vec<usize>,
    /// Idle time and all time of those, in ticks, and this process's own time, when it was last asked.
    last: Option<(u64, u64, Duration, Instant)>,
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
        let (idle, ticks) =
            fs::read_to_string("/proc/stat").ok().and_then(|text| times(&text, &self.mine)).unwrap_or((0, 0));
        let Some((idle_before, ticks_before, own_before, then)) = self.last.replace((idle, ticks, own, now))
        else {
            return (0.0, 0.0);
        };
        let ticks = ticks.saturating_sub(ticks_before);
        let idle = idle.saturating_sub(idle_before);
        let busy = if ticks > 0 { 1.0 - (idle as f64 / ticks as f64).min(1.0) } else { 0.0 };
        let seconds = now.saturating_duration_since(then).as_secs_f64().max(1e-9);
        let all = self.mine.len() as f64;
        let limit = self.cores.quota.map_or(all, |quota| quota.min(all));
        let own = (own.saturating_sub(own_before).as_secs_f64() / seconds / limit.max(1e-9)).min(1.0);
        // Where it is a quota that binds, what others do does not matter.
        let busy = if self.cores.quota.is_some() { own } else { busy };
        (busy, own)
    }
}

/// Idle time and all time of some processors, in ticks (proc(5), `/proc/stat`).
fn times(text: &str, mine: &[usize]) -> Option<(u64, u64)> {
    let (mut idle, mut all) = (0, 0);
    for line in text.lines() {
        let mut words = line.split(' ');
        let Some(cpu) = words.next().and_then(|word| word.strip_prefix("cpu")?.parse::<usize>().ok()) else {
            continue;
        };
        if mine.contains(&cpu) {
            let times: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
            // The fourth is idle, the fifth idle with input or output under way; the last two are counted in the first two.
            idle += times.get(3)? + times.get(4)?;
            all += times.iter().take(8).sum::<u64>();
        }
    }
    (all > 0).then_some((idle, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_that_of_the_processors_in_the_mask() {
        let text =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 0 10 70 10 0 0 0 0 0\ncpu1 50 0 50 0 0 0 0 0 0 0\nintr 5\n";
        assert_eq!(times(text, &[0]), Some((80, 100)));
        assert_eq!(times(text, &[0, 1]), Some((80, 200)));
        assert_eq!(times(text, &[7]), None);
        assert_eq!(times("nonsense", &[0]), None);
    }
}
