//! What happened on this host while a load ran that is no affair of the server: read from /proc.

use std::fs;

use engine::ticks::{TICK_S, Ticks};

use crate::outcome::Host;

/// Counters of the host at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    listen_drops: u64,
    time_wait_overflows: u64,
    retransmitted_segments: u64,
    /// Time of all processors.
    ticks: Ticks,
}

impl Sample {
    /// What they are now; what this kernel does not tell is 0.
    pub fn now() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let (netstat, snmp) = (read("/proc/net/netstat"), read("/proc/net/snmp"));
        Sample {
            listen_drops: counter(&netstat, "TcpExt:", "ListenDrops"),
            time_wait_overflows: counter(&netstat, "TcpExt:", "TCPTimeWaitOverflow"),
            retransmitted_segments: counter(&snmp, "Tcp:", "RetransSegs"),
            ticks: Ticks::now(|_| true).unwrap_or_default(),
        }
    }

    /// What was counted since an earlier moment.
    pub fn since(&self, earlier: &Sample) -> Host {
        let Ticks { processes, stolen, all, .. } = self.ticks.since(&earlier.ticks);
        Host {
            listen_drops: self.listen_drops.saturating_sub(earlier.listen_drops),
            time_wait_overflows: self.time_wait_overflows.saturating_sub(earlier.time_wait_overflows),
            retransmitted_segments: self
                .retransmitted_segments
                .saturating_sub(earlier.retransmitted_segments),
            stolen_share: if all > 0 { stolen as f64 / all as f64 } else { 0.0 },
            processes_s: processes as f64 * TICK_S,
            processors_s: all as f64 * TICK_S,
        }
    }
}

/// Ports that the kernel gives to connections from one address.
pub(crate) fn ports() -> u64 {
    const USUAL: u64 = 28_232;
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().map(|end| end.parse::<u64>());
    match (ends.next(), ends.next()) {
        (Some(Ok(first)), Some(Ok(last))) if first <= last => last - first + 1,
        _ => USUAL,
    }
}

/// A counter of a file that has a line of names, and below it a line of numbers, under the same label.
fn counter(text: &str, label: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(label));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split_whitespace().zip(numbers.split_whitespace());
    pairs.find(|(other, _)| *other == name).and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let text = "TcpExt: A ListenDrops B\nTcpExt: 1 22 333\nIpExt: ListenDrops\nIpExt: 4\n";
        assert_eq!([counter(text, "TcpExt:", "ListenDrops"), counter(text, "TcpExt:", "C")], [22, 0]);
        let now = Sample::now();
        assert!(now.ticks.all > 0, "{now:?}");
    }

    #[test]
    fn the_time_of_processes_is_part_of_that_of_the_processors() {
        let sample = |processes, stolen, all| Sample {
            ticks: Ticks { processes, stolen, all, idle: 0 },
            ..Sample::default()
        };
        let host = sample(150, 4, 1400).since(&sample(100, 0, 1000));
        assert_eq!((host.processes_s, host.processors_s, host.stolen_share), (0.5, 4.0, 0.01));
    }
}
