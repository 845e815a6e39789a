//! What all threads of a load have in common: its plan, and what that names, looked up once.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use engine::Stop as Switch;

use crate::error::Error;
use crate::link::Emulated;
use crate::plan::{Arrivals, Plan};
use crate::replay::Log;
use crate::target::Target;

/// Most connections of a thread on io_uring: where all send at once their buffers take 32 MiB.
const MOST_ON_URING: u32 = 4096;

/// What all threads of a load have in common.
pub(crate) struct Common<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) target: Target,
    pub(crate) address: SocketAddr,
    /// The log that is replayed.
    pub(crate) log: Option<Arc<Log>>,
    /// The emulated link, which is there as long as this.
    pub(crate) link: Option<Emulated>,
    pub(crate) cancel: &'a Switch,
    /// On io_uring, which costs the load less than epoll.
    pub(crate) uring: bool,
}

impl<'a> Common<'a> {
    /// Looks at the plan, and reads what it names.
    ///
    /// # Errors
    /// The plan cannot be used, the host has no address, or there can be no emulated link.
    pub(crate) fn new(plan: &'a Plan, cancel: &'a Switch) -> Result<Self, Error> {
        plan.validate()?;
        let target = Target::parse(&plan.url)?;
        let address = target.resolve()?;
        if plan.sources > 0 && !matches!(address.ip(), IpAddr::V4(ip) if ip.is_loopback()) {
            return Err(Error::Plan(format!(
                "sources {}: only for servers on 127.0.0.0/8, and this is {address}",
                plan.sources
            )));
        }
        let log = match &plan.arrivals {
            Arrivals::Replay { log, .. } => Some(Arc::new(Log::read(log)?)),
            _ => None,
        };
        let link = plan.link.as_ref().map(|link| Emulated::start(link, address)).transpose()?;
        // It receives ahead of a slow reader, and holds a buffer for each request that is being sent.
        let suits = plan.receive_rate == 0.0 && plan.connections / plan.threads() <= MOST_ON_URING;
        let uring = suits && engine::driver::uring::probe().is_ok();
        Ok(Common { plan, target, address, log, link, cancel, uring })
    }

    /// What the threads wait with.
    pub(crate) fn driver(&self) -> &'static str {
        if self.uring { "io_uring" } else { "epoll" }
    }
}
