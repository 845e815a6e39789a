//! The load of an experiment, where it is other than a plain closed loop.

use serde::Deserialize;

/// What the load does beside sending requests over its connections as fast as they are answered. Factors are filled in.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The load generator: `plimsoll`, `ab`, `wrk` or `h2load`; ours if nothing is said.
    pub engine: Option<String>,
    /// Open loop at this rate, as `plimsoll bench --rate` reads it; `closed` for none.
    pub rate: Option<String>,
    /// An emulated network, as `plimsoll bench --link` reads it; `none` for none.
    pub link: Option<String>,
    /// Bytes per second that each connection takes; 0 for no limit.
    pub receive_rate: Option<String>,
    /// Time between an answer and the next request.
    pub think: Option<String>,
    /// Seconds that an answer may take; 15 if nothing is said, as in source D.
    pub timeout_s: Option<f64>,
    /// Addresses of this host that connections come from.
    #[serde(default)]
    pub sources: u32,
}

impl Load {
    /// Every text in which factors are filled in.
    pub(super) fn texts(&self) -> impl Iterator<Item = &String> {
        [&self.engine, &self.rate, &self.link, &self.receive_rate, &self.think].into_iter().flatten()
    }
}
