//! The thread that looks again and again at what the host grants: processors, which reactors follow, and memory.

use std::io;
use std::time::Duration;

use crate::pressure::Pressure;
use crate::shift::Follower;
use crate::stop::Stop;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// What the thread looks at.
pub(crate) struct Lookout {
    /// Where the number of reactors follows the processors.
    pub(crate) follower: Option<Follower>,
    /// Where memory is watched: the share of its limit that is in use, if it has one.
    pub(crate) memory: Option<fn() -> Option<f64>>,
    pub(crate) pressure: Pressure,
}

impl Lookout {
    /// Looks on the calling thread until stopped, and then waits until the reactors that it has started have ended.
    ///
    /// # Errors
    /// One of those panicked.
    pub(crate) fn run(mut self, stop: &Stop) -> io::Result<()> {
        stop.every(LOOK, || {
            self.follower.iter_mut().for_each(Follower::look);
            if let Some(memory) = self.memory {
                self.pressure.look(memory().unwrap_or(0.0));
            }
        });
        self.follower.map_or(Ok(()), Follower::end)
    }
}
