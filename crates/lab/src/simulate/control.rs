//! Who decides how many workers there are, and what they get to see.

/// What a controller sees, of all pools together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observation {
    /// Seconds since the last look.
    pub seconds: f64,
    /// Workers that there are to be: without those that leave when they have finished what they do.
    pub workers: usize,
    /// Mean number of workers that had a request in these seconds, of those.
    pub busy: f64,
    /// Requests that wait for a worker now.
    pub waiting: usize,
    /// Requests that workers finished in these seconds.
    pub done: u64,
    /// Share of the host's usable cores that was in use, 0 to 1.
    pub cores_busy: f64,
}

/// Decides how many workers there are, of all pools together; each pool gets an even share, and at least one.
pub type Controller<'a> = dyn FnMut(&Observation) -> usize + 'a;
