//! What else ran on some cores while a load was measured: read from /proc/stat.

use engine::ticks::{TICK_S, Ticks};
use load::Phase;
use rustix::thread::CpuSet;

/// Looks at cores while a load is measured: seconds in which they were in use, when that began and ended.
pub(super) struct Neighbours<'a> {
    cores: &'a CpuSet,
    from: Option<f64>,
    until: Option<f64>,
}

impl<'a> Neighbours<'a> {
    pub(super) fn on(cores: &'a CpuSet) -> Self {
        Neighbours { cores, from: None, until: None }
    }

    /// Looks, when measuring begins and ends.
    pub(super) fn look(&mut self, phase: Phase) {
        let at = match phase {
            Phase::Warmup => return,
            Phase::Measuring => &mut self.from,
            Phase::Draining => &mut self.until,
        };
        if at.is_none() {
            let ticks = Ticks::now(|core| core < CpuSet::MAX_CPU && self.cores.is_set(core));
            *at = ticks.map(used_s);
        }
    }

    /// Share of these cores that was used by others than who used so many seconds of them, 0 to 1.
    pub(super) fn taken(&self, own_s: f64, window_s: f64) -> f64 {
        let (Some(from), Some(until)) = (self.from, self.until) else { return 0.0 };
        let there_s = window_s * f64::from(self.cores.count());
        ((until - from - own_s) / there_s.max(1e-9)).clamp(0.0, 1.0)
    }
}

/// Seconds in which cores were in use, those that the hypervisor took included. Time in interrupts is left out: most of it is
/// the network's, and so the server's and the load's.
fn used_s(ticks: Ticks) -> f64 {
    (ticks.processes + ticks.stolen) as f64 * TICK_S
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_used_is_what_is_left_of_the_cores_that_are_looked_at() {
        let mut cores = CpuSet::new();
        cores.set(1);
        let stat =
            "cpu  900 9 9 9 9 9 9 9\ncpu0 500 0 0 0 0 0 0 0\ncpu1 100 20 30 4000 5 6 7 50 0 0\nintr 1 2\n";
        let ticks = Ticks::parse(stat, |core| cores.is_set(core)).unwrap();
        assert!((used_s(ticks) - 2.0).abs() < 1e-9);
        let seen = Neighbours { cores: &cores, from: Some(2.0), until: Some(2.9) };
        assert!((seen.taken(0.4, 1.0) - 0.5).abs() < 1e-9);
        assert_eq!((seen.taken(2.0, 1.0), Neighbours::on(&cores).taken(0.0, 1.0)), (0.0, 0.0));
    }
}
