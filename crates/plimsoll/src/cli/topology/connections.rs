//! How many connections there can be: as many as are asked for, or as descriptors and memory grant.

use anyhow::{Result, bail, ensure};
use bytesize::ByteSize;
use engine::Kind;
use engine::host::{self, Bound};

use super::{Flags, Host, Settled, choice};

impl Flags {
    /// How many connections there can be.
    pub(super) fn connections(&self, settled: &mut Settled, host: &Host) -> Result<()> {
        let topology = &mut settled.topology;
        // Threads share one bound; reactors have one each.
        let parts = topology.reactors.max(1);
        let (connections, why) = match self.connections {
            Some(0) => bail!("--connections 0: must be at least 1"),
            Some(n) => {
                // Threads make theirs as connections come.
                let slots = topology.driver != Kind::Blocking;
                settled.warnings.extend(fits(n, parts, slots, host)?);
                (n, "--connections".into())
            }
            None => {
                let (connections, bound) =
                    host::connections(host.descriptors, host.memory, parts, topology.most_reactors);
                *topology = topology.sharing(connections);
                let why = match (bound, host.descriptors) {
                    (Bound::Descriptors, Some(limit)) => {
                        format!("from the limit of {limit} descriptors (ulimit -n)")
                    }
                    (Bound::Memory, _) => format!("with two buffers each, half of {}", memory(host)),
                    _ => "the default".into(),
                };
                (connections, why)
            }
        };
        topology.connections = connections;
        let whose = match (topology.driver, topology.most_connections) {
            (Kind::Blocking, _) => "for all threads".into(),
            (_, 0) => "per reactor".into(),
            (_, all) => format!("per reactor, {all} in all"),
        };
        settled.choices.push(choice("connections", format!("{connections} {whose}"), why));
        Ok(())
    }
}

/// Refuses what cannot be, so many connections on each of so many reactors, and says what is much.
fn fits(connections: usize, parts: usize, slots: bool, host: &Host) -> Result<Option<String>> {
    let all = (connections as u64).saturating_mul(parts as u64);
    ensure!(
        all <= i32::MAX as u64,
        "--connections {connections}: {parts} reactors cannot hold that many; a process has at most {} descriptors",
        i32::MAX
    );
    let size = |each: u64| ByteSize(all * each).display().iec();
    ensure!(
        !slots || all * host::CONNECTION_SLOT <= host.memory.bytes,
        "--connections {connections}: {} are reserved for them at the start, more than {}",
        size(host::CONNECTION_SLOT),
        memory(host)
    );
    let is_much = all > host.memory.connections(parts, parts);
    Ok(is_much.then(|| {
        let most = size(host::CONNECTION_BYTES);
        format!("--connections {connections}: they may come to {most}, more than half of {}", memory(host))
    }))
}

/// The memory, and whose it is.
fn memory(host: &Host) -> String {
    let whose = if host.memory.is_limited { "limit of the cgroup" } else { "of the host" };
    format!("the memory ({}, {whose})", ByteSize(host.memory.bytes).display().iec())
}
