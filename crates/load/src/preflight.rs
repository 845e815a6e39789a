//! What of this host would spoil a load, looked at before it begins.

use std::fs;

use crate::plan::Plan;
use crate::target::Target;

/// Seconds that the side which closes a connection first keeps its port (Linux, TCP_TIMEWAIT_LEN).
const TIME_WAIT_S: u64 = 60;

/// What may go wrong with a plan on this host, and what to do about it, a sentence each. What cannot work at all is an
/// error of [`Plan::validate`].
pub fn preflight(plan: &Plan) -> Vec<String> {
    let local = Target::parse(&plan.url)
        .and_then(|target| target.resolve())
        .is_ok_and(|address| address.ip().is_loopback());
    let read = |name: &str| {
        fs::read_to_string(format!("/proc/sys/net/{name}")).ok().and_then(|text| text.trim().parse().ok())
    };
    let seen = Seen {
        local,
        cores: engine::host::Cores::detect().usable() as u64,
        one_core: fs::read_to_string("/sys/devices/system/cpu/online")
            .is_ok_and(|online| online.trim() == "0"),
        backlog: read("core/somaxconn"),
        reuse: read("ipv4/tcp_tw_reuse"),
        tracked: read("netfilter/nf_conntrack_max"),
        ports: crate::host::ports(),
    };
    warnings(plan, &seen)
}

/// What was seen of this host; `None` for what it does not have.
struct Seen {
    /// The server is on this host.
    local: bool,
    /// Cores that the load may use.
    cores: u64,
    /// The host has no more than one.
    one_core: bool,
    backlog: Option<u64>,
    reuse: Option<u64>,
    tracked: Option<u64>,
    ports: u64,
}

fn warnings(plan: &Plan, seen: &Seen) -> Vec<String> {
    let connections = u64::from(plan.connections);
    let mut warnings = Vec::new();
    if let Some(backlog) = seen.backlog.filter(|backlog| seen.local && connections > *backlog) {
        warnings.push(format!(
            "{connections} connections may come at once, and the kernel lets {backlog} wait to be accepted \
             (net.core.somaxconn): some will be dropped and tried again after a second; raise it, or the server's backlog"
        ));
    }
    // 2 is for connections within the host only.
    let reused = seen.reuse == Some(1) || seen.reuse == Some(2) && seen.local;
    if plan.close && !reused {
        let most = seen.ports * u64::from(plan.sources.max(1)) / TIME_WAIT_S;
        warnings.push(format!(
            "a closed connection keeps its port for {TIME_WAIT_S} s where the load closes first: then more than {most} \
             connections per second run out of ports; set net.ipv4.tcp_tw_reuse to 1, or take several --sources"
        ));
    }
    if let Some(tracked) = seen.tracked.filter(|tracked| connections > tracked / 2) {
        warnings.push(format!(
            "the kernel tracks at most {tracked} connections (net.netfilter.nf_conntrack_max), and drops packets of others"
        ));
    }
    if seen.local && seen.one_core {
        warnings.push(
            "the load and the server share one core: each is measured with the other in its way".into(),
        );
    }
    if u64::from(plan.threads) > seen.cores {
        warnings.push(format!(
            "{} threads on {} cores wait for each other, which counts as the server's time",
            plan.threads, seen.cores
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_of_the_host_is_named() {
        let plan = Plan { close: true, connections: 5000, threads: 3, ..Plan::new("http://127.0.0.1/") };
        let fine = Seen {
            local: true,
            cores: 4,
            one_core: false,
            backlog: Some(65535),
            reuse: Some(2),
            tracked: None,
            ports: 28_232,
        };
        assert_eq!(warnings(&plan, &fine), [""; 0]);
        let poor = Seen {
            cores: 1,
            one_core: true,
            backlog: Some(4096),
            reuse: Some(0),
            tracked: Some(8000),
            ..fine
        };
        let said = warnings(&plan, &poor);
        for (at, part) in
            ["somaxconn", "more than 470 connections", "conntrack", "share one core", "3 threads on 1"]
                .iter()
                .enumerate()
        {
            assert!(said[at].contains(part), "{said:?}");
        }
        assert_eq!(said.len(), 5);
        // Over a network the server's backlog is not this host's, and 2 does not help.
        let said = warnings(&plan, &Seen { local: false, reuse: Some(2), tracked: None, ..poor });
        assert!(said[0].contains("470") && said.len() == 2, "{said:?}");
    }
}
