//! What happened on this host while a load ran that is no affair of the server: read from /proc.

use std::fs;

use crate::outcome::Host;

/// Seconds of a tick of /proc/stat: USER_HZ is 100 on every architecture but Alpha.
const TICK_S: f64 = 0.01;

/// Counters of the host at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    listen_drops: u64,
    time_wait_overflows: u64,
    retransmitted_segments: u64,
    stolen: u64,
    /// Of all processes, in user and in system mode. Interrupts are nobody's, and are left out.
    processes: u64,
    /// All processor time, idle included.
    ticks: u64,
}

impl Sample {
    /// What they are now; what this kernel does not tell is 0.
    pub fn now() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let (netstat, snmp, stat) = (read("/proc/net/netstat"), read("/proc/net/snmp"), read("/proc/stat"));
        // "cpu user nice system idle iowait irq softirq steal .." (proc(5)); guests are in user already.
        let cpu: Vec<u64> = stat
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .take(8)
            .map(|number| number.parse().unwrap_or(0))
            .collect();
        Sample {
            listen_drops: counter(&netstat, "TcpExt:", "ListenDrops"),
            time_wait_overflows: counter(&netstat, "TcpExt:", "TCPTimeWaitOverflow"),
            retransmitted_segments: counter(&snmp, "Tcp:", "RetransSegs"),
            stolen: cpu.get(7).copied().unwrap_or(0),
            processes: cpu.iter().take(3).sum(),
            ticks: cpu.iter().sum(),
        }
    }

    /// What was counted since an earlier moment.
    pub fn since(&self, earlier: &Sample) -> Host {
        let ticks = self.ticks.saturating_sub(earlier.ticks);
        let stolen = self.stolen.saturating_sub(earlier.stolen);
        Host {
            listen_drops: self.listen_drops.saturating_sub(earlier.listen_drops),
            time_wait_overflows: self.time_wait_overflows.saturating_sub(earlier.time_wait_overflows),
            retransmitted_segments: self
                .retransmitted_segments
                .saturating_sub(earlier.retransmitted_segments),
            stolen_share: if ticks > 0 { stolen as f64 / ticks as f64 } else { 0.0 },
            processes_s: self.processes.saturating_sub(earlier.processes) as f64 * TICK_S,
            processors_s: ticks as f64 * TICK_S,
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
        assert!(now.ticks > 0, "{now:?}");
    }

    #[test]
    fn the_time_of_processes_is_part_of_that_of_the_processors() {
        let earlier = Sample { processes: 100, ticks: 1000, ..Sample::default() };
        let host = Sample { processes: 150, stolen: 4, ticks: 1400, ..Sample::default() }.since(&earlier);
        assert_eq!((host.processes_s, host.processors_s, host.stolen_share), (0.5, 4.0, 0.01));
    }
}
