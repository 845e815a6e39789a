//! The cores of a host, shared evenly by the threads that want to run.

use super::agenda::Agenda;

/// Egalitarian processor sharing: of n threads that want to run on C cores, each advances at the rate min(1, C / n).
///
/// All advance alike, so one clock of work done per thread is enough: who needs w more is done when that clock shows w more.
#[derive(Debug)]
pub(super) struct Processors {
    cores: f64,
    /// Work that a thread which ran from the start would have done, in seconds.
    work: f64,
    /// Threads by what that clock shows when they are done.
    running: Agenda<usize>,
    /// Processor time used, in seconds.
    used_s: f64,
}

impl Processors {
    pub(super) fn new(cores: f64) -> Self {
        Processors { cores, work: 0.0, running: Agenda::new(), used_s: 0.0 }
    }

    /// Lets a thread run until it has had so many seconds of processor time.
    pub(super) fn run(&mut self, thread: usize, seconds: f64) {
        self.running.add(self.work + seconds, thread);
    }

    /// Seconds until the next thread is done, if nothing changes.
    pub(super) fn next(&self) -> Option<f64> {
        Some((self.running.next()? - self.work).max(0.0) / self.rate())
    }

    /// Time passes.
    pub(super) fn advance(&mut self, seconds: f64) {
        self.work += seconds * self.rate();
        self.used_s += seconds * self.cores.min(self.running.len() as f64);
    }

    /// Takes the thread that is done.
    pub(super) fn take(&mut self) -> Option<usize> {
        let (work, thread) = self.running.take()?;
        // It is done exactly now, whatever was rounded on the way.
        self.work = work;
        Some(thread)
    }

    /// Processor time used since the start, in seconds.
    pub(super) fn used_s(&self) -> f64 {
        self.used_s
    }

    fn rate(&self) -> f64 {
        (self.cores / self.running.len().max(1) as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_cores_and_no_thread_runs_on_two() {
        let mut processors = Processors::new(2.0);
        processors.run(7, 1.0);
        assert_eq!(processors.next(), Some(1.0));
        processors.run(8, 2.0);
        processors.run(9, 2.0);
        processors.run(10, 2.0);
        // Four threads on two cores: each at half the rate.
        assert_eq!(processors.next(), Some(2.0));
        processors.advance(2.0);
        assert_eq!((processors.take(), processors.used_s()), (Some(7), 4.0));
        // Three threads with a second each left on two cores.
        assert!((processors.next().unwrap() - 1.5).abs() < 1e-12);
    }
}
