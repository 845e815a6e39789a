//! How long a handler takes, and how much of it is computing.

use std::time::{Duration, Instant};

use engine::clock;

use super::Took;

/// A handler that is being timed, on its own thread.
pub(crate) struct Stopwatch {
    begun: Instant,
    computed: Option<Duration>,
}

impl Stopwatch {
    /// Starts now; reads the thread's processor time too if `computing` is wanted, which is a system call.
    pub(crate) fn start(begun: Instant, computing: bool) -> Self {
        Stopwatch { begun, computed: computing.then(clock::of_thread) }
    }

    /// Stops now.
    pub(crate) fn stop(self) -> Took {
        let end = Instant::now();
        let wall = end.saturating_duration_since(self.begun);
        let computing = self.computed.map(|before| clock::of_thread().saturating_sub(before));
        Took { wall, computing, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_is_no_computing() {
        let watch = Stopwatch::start(Instant::now(), true);
        std::thread::sleep(Duration::from_millis(20));
        let took = watch.stop();
        assert!(
            took.wall >= Duration::from_millis(20) && took.computing.unwrap() < took.wall / 2,
            "{took:?}"
        );
        let took = Stopwatch::start(Instant::now(), false).stop();
        assert_eq!(took.computing, None);
    }
}
