//! What processors have spent their time on since the host was started (proc(5), `/proc/stat`).

use std::fs;

/// Nanoseconds of a tick: USER_HZ is 100 on every architecture but Alpha.
pub const TICK_NS: u64 = 10_000_000;

/// Seconds of a tick.
pub const TICK_S: f64 = TICK_NS as f64 / 1e9;

/// Time of some processors, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// Of processes, in user and in system mode, time of guests included. Interrupts are nobody's, and are left out.
    pub processes: u64,
    /// With nothing to do, or waiting for input or output.
    pub idle: u64,
    /// That the hypervisor gave to others.
    pub stolen: u64,
    /// All there was.
    pub all: u64,
}

impl Ticks {
    /// Those of the processors that are `wanted`, up to now; none where the kernel does not say.
    pub fn now(wanted: impl Fn(usize) -> bool) -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?, wanted)
    }

    /// The same, from what the file says.
    pub fn parse(stat: &str, wanted: impl Fn(usize) -> bool) -> Option<Self> {
        let of_line = |line: &str| {
            // "cpuN user nice system idle iowait irq softirq steal guest guest_nice"; the last two are in the first two.
            let mut words = line.strip_prefix("cpu")?.split(' ');
            let processor = words.next()?.parse().ok()?;
            let times: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
            let &[user, nice, system, idle, iowait, .., stolen] = times.as_slice() else { return None };
            let (processes, all) = (user + nice + system, times.iter().sum());
            wanted(processor).then_some(Ticks { processes, idle: idle + iowait, stolen, all })
        };
        stat.lines().filter_map(of_line).reduce(|a, b| Ticks {
            processes: a.processes + b.processes,
            idle: a.idle + b.idle,
            stolen: a.stolen + b.stolen,
            all: a.all + b.all,
        })
    }

    /// What was added since an earlier moment.
    pub fn since(&self, earlier: &Ticks) -> Ticks {
        Ticks {
            processes: self.processes.saturating_sub(earlier.processes),
            idle: self.idle.saturating_sub(earlier.idle),
            stolen: self.stolen.saturating_sub(earlier.stolen),
            all: self.all.saturating_sub(earlier.all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_those_of_the_processors_that_are_wanted() {
        let text =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 1 10 69 10 0 0 0 5 0\ncpu1 50 0 41 0 0 0 2 7 0 0\nintr 5\n";
        let first = Ticks { processes: 21, idle: 79, stolen: 0, all: 100 };
        assert_eq!(Ticks::parse(text, |cpu| cpu == 0), Some(first));
        let both = Ticks::parse(text, |_| true).unwrap();
        assert_eq!(both, Ticks { processes: 112, idle: 79, stolen: 7, all: 200 });
        assert_eq!(both.since(&first), Ticks { processes: 91, idle: 0, stolen: 7, all: 100 });
        assert_eq!(Ticks::parse(text, |cpu| cpu == 7), None);
        for bad in ["nonsense", "cpu0", "cpu0 1 2 3 4", "cpu0 1 2 3 x 5 6 7 8"] {
            assert_eq!(Ticks::parse(bad, |_| true), None, "{bad}");
        }
        assert!(Ticks::now(|_| true).unwrap().all > 0);
    }
}
