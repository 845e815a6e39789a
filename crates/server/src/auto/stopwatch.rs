//! How long a handler takes, and how much of it is computing.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::Took;

/// A handler that is being timed, on its own thread.
pub(crate) struct Stopwatch {
    begun: Instant,
    computed: Option<Duration>,
}

impl Stopwatch {
    /// Starts now; reads the thread's processor time too if `computing` is wanted, which is a system call.
    pub(crate) fn start(begun: Instant, computing: bool) -> Self {
        Stopwatch { begun, computed: computing.then(thread_time) }
    }

    /// Stops now.
    pub(crate) fn stop(self) -> (Took, Instant) {
        let now = Instant::now();
        let wall = now.saturating_duration_since(self.begun);
        let computing = self.computed.map(|before| thread_time().saturating_sub(before));
        (Took { wall, computing }, now)
    }
}

/// Processor time of the calling thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_is_no_computing() {
        let watch = Stopwatch::start(Instant::now(), true);
        std::thread::sleep(Duration::from_millis(20));
        let (took, _) = watch.stop();
        assert!(
            took.wall >= Duration::from_millis(20) && took.computing.unwrap() < took.wall / 2,
            "{took:?}"
        );
        let (took, _) = Stopwatch::start(Instant::now(), false).stop();
        assert_eq!(took.computing, None);
    }
}
