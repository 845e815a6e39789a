//! An emulated network between a load and a server on this host: delay, jitter, rate and loss, over real packets.
//!
//! The load runs in a network namespace of its own. A TUN interface there and one outside are the two ends of the link,
//! and a thread carries the packets between them. So both ends run the kernel's own TCP, with its handshakes, windows and
//! retransmissions. Nothing is left behind, however the process ends: interfaces and namespace go with it.

mod carry;
mod shape;

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use engine::Stop as Switch;
use engine::tun::Tun;
use nix::sched::{CloneFlags, setns, unshare};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A link. Both directions are alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Link {
    /// Time that a packet takes one way, in seconds; there and back it is twice that.
    pub delay_s: f64,
    /// How far the delay of a packet may be from that, either way, evenly spread.
    pub jitter_s: f64,
    /// Bits per second; 0 for no limit.
    pub bits_per_second: f64,
    /// Share of packets that are lost, 0 to 1.
    pub loss: f64,
    /// How long packets may wait to be sent, in seconds; further ones are lost, as in a full router.
    pub queue_s: f64,
    /// The same seed loses the same packets.
    pub seed: u64,
}

impl Default for Link {
    fn default() -> Self {
        Link { delay_s: 0.0, jitter_s: 0.0, bits_per_second: 0.0, loss: 0.0, queue_s: 0.2, seed: 1 }
    }
}

/// A link that is not written as it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}: write it like delay=50ms,jitter=5ms,rate=10mbit,loss=1%,queue=200ms; what is left out is no delay, no limit, no \
     loss and a queue of 200ms; the delay is one way"
)]
pub struct BadLink(String);

impl FromStr for Link {
    type Err = BadLink;

    fn from_str(text: &str) -> Result<Self, BadLink> {
        let bad = |what: &str| BadLink(format!("{what:?} in the link {text:?}"));
        let mut link = Link::default();
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(|| bad(part))?;
            let seconds = || humantime::parse_duration(value).ok().map(|time| time.as_secs_f64());
            let (place, value) = match name.trim() {
                "delay" => (&mut link.delay_s, seconds()),
                "jitter" => (&mut link.jitter_s, seconds()),
                "queue" => (&mut link.queue_s, seconds()),
                "rate" => (&mut link.bits_per_second, bits(value)),
                "loss" => (&mut link.loss, share(value)),
                _ => return Err(bad(part)),
            };
            *place = value.ok_or_else(|| bad(part))?;
        }
        link.validate().map_err(BadLink)?;
        Ok(link)
    }
}

/// Reads `10mbit`, `64kbit`, `1gbit` or `9600bit`.
fn bits(text: &str) -> Option<f64> {
    let number = text.strip_suffix("bit")?;
    let (number, times) = match number.as_bytes().last()? {
        b'k' => (&number[..number.len() - 1], 1e3),
        b'm' => (&number[..number.len() - 1], 1e6),
        b'g' => (&number[..number.len() - 1], 1e9),
        _ => (number, 1.0),
    };
    number.parse::<f64>().ok().map(|number| number * times)
}

fn share(text: &str) -> Option<f64> {
    text.strip_suffix('%')?.parse::<f64>().ok().map(|percent| percent / 100.0)
}

/// Longest delay and queue, in seconds.
const LONGEST_S: f64 = 60.0;

impl Link {
    /// Checks every value.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let Link { delay_s, jitter_s, bits_per_second, loss, queue_s, .. } = *self;
        for (what, seconds) in [("delay", delay_s), ("jitter", jitter_s), ("queue", queue_s)] {
            if !(0.0..=LONGEST_S).contains(&seconds) {
                return Err(format!("{what} of {seconds} s: must be 0 to {LONGEST_S} s"));
            }
        }
        if jitter_s > delay_s {
            return Err(format!("jitter of {jitter_s} s: must be no more than the delay, {delay_s} s"));
        }
        if bits_per_second != 0.0 && !(1e3..=1e11).contains(&bits_per_second) {
            return Err(format!("rate of {bits_per_second} bit/s: must be 1kbit to 100gbit"));
        }
        if !(0.0..=1.0).contains(&loss) {
            return Err(format!("loss of {} %: must be 0 % to 100 %", loss * 100.0));
        }
        Ok(())
    }
}

/// A link that is there, until this is dropped.
pub(crate) struct Emulated {
    namespace: Arc<File>,
    stop: Switch,
    carrier: Option<thread::JoinHandle<()>>,
    /// Processor time of its thread so far, in nanoseconds.
    used: Arc<AtomicU64>,
}

/// Tells the links of one process apart.
static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Emulated {
    /// Makes a link to a server on this host.
    ///
    /// # Errors
    /// The server's address is none of this host, or the process may not make network namespaces and interfaces.
    pub(crate) fn start(link: &Link, server: SocketAddr) -> Result<Self, Error> {
        let IpAddr::V4(server) = server.ip() else {
            return Err(Error::Plan(format!("link: only to IPv4 addresses, and this is {server}")));
        };
        if std::net::UdpSocket::bind((server, 0)).is_err() {
            return Err(Error::Plan(format!(
                "link: only to a server on this host, and {server} is none of its addresses"
            )));
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let name = format!("plim{process}-{number}");
        // Of 198.18.0.0/15, which is set aside for measuring (RFC 2544), four addresses for each link.
        let base = u32::from(Ipv4Addr::new(198, 18, 0, 0)) | ((process.wrapping_add(number) & 0x7fff) << 2);
        let (outside, inside) = (Ipv4Addr::from(base + 1), Ipv4Addr::from(base + 2));
        let near = Tun::open(&name).map_err(refused)?;
        configure(&name, outside)?;
        let (far, namespace) = thread::scope(|scope| {
            let there = scope.spawn(|| far_end(&name, inside, server));
            there.join().unwrap_or_else(|_| Err(io::Error::other("setting up the far end panicked")))
        })
        .map_err(refused)?;
        let stop = Switch::default();
        let used = Arc::new(AtomicU64::new(0));
        let carrier = carry::start(*link, near, far, stop.clone(), used.clone())?;
        Ok(Emulated { namespace: Arc::new(namespace), stop, carrier: Some(carrier), used })
    }

    /// Where its thread keeps the processor time that it has used so far, in nanoseconds.
    pub(crate) fn used(&self) -> Arc<AtomicU64> {
        self.used.clone()
    }

    /// Where the threads of the load have to be.
    pub(crate) fn namespace(&self) -> Arc<File> {
        self.namespace.clone()
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(carrier) = self.carrier.take() {
            let _ = carrier.join();
        }
    }
}

/// Brings the calling thread to the far end of a link.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn enter(namespace: &File) -> io::Result<()> {
    Ok(setns(namespace, CloneFlags::CLONE_NEWNET)?)
}

/// Makes the far end, in a network namespace of the calling thread.
fn far_end(name: &str, address: Ipv4Addr, server: Ipv4Addr) -> io::Result<(Tun, File)> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    let tun = Tun::open(name)?;
    configure(name, address)?;
    // Also where the server is 127.0.0.1: the loopback interface of this namespace is down, so that is not here.
    ip(&["route", "add", &format!("{server}/32"), "dev", name, "src", &address.to_string()])?;
    Ok((tun, File::open("/proc/thread-self/ns/net")?))
}

/// Gives an interface of the calling thread's namespace its address, and lets it carry loopback addresses.
fn configure(name: &str, address: Ipv4Addr) -> io::Result<()> {
    for (setting, value) in [("route_localnet", "1"), ("rp_filter", "0")] {
        fs::write(format!("/proc/sys/net/ipv4/conf/{name}/{setting}"), value)?;
    }
    ip(&["address", "add", &format!("{address}/30"), "dev", name])?;
    ip(&["link", "set", name, "up"])
}

/// Runs ip(8), in the namespace of the calling thread.
fn ip(arguments: &[&str]) -> io::Result<()> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other("there is no ip(8) here: install iproute2"),
        _ => error,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip {}: {}", arguments.join(" "), said.trim())))
}

fn refused(error: io::Error) -> Error {
    Error::Plan(format!(
        "link: a network namespace and TUN interfaces cannot be made: {error}; they take root, and /dev/net/tun"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read() {
        let link: Link = "delay=50ms,jitter=5ms,rate=1.5mbit,loss=0.5%,queue=1s".parse().unwrap();
        let expected = Link {
            delay_s: 0.05,
            jitter_s: 0.005,
            bits_per_second: 1.5e6,
            loss: 0.005,
            queue_s: 1.0,
            ..Link::default()
        };
        assert_eq!(link, expected);
        for (text, bps) in [("rate=9600bit", 9600.0), ("rate=64kbit", 64e3), ("rate=1gbit", 1e9)] {
            assert_eq!(text.parse::<Link>().unwrap().bits_per_second, bps);
        }
    }

    #[test]
    fn a_link_that_cannot_be_is_explained() {
        for text in [
            "",
            "50ms",
            "delay=50",
            "speed=1mbit",
            "rate=10",
            "loss=0.1",
            "loss=101%",
            "delay=2m",
            "rate=1bit",
        ] {
            let error = text.parse::<Link>().unwrap_err().to_string();
            assert!(error.contains("delay=50ms,jitter=5ms"), "{error}");
        }
        let error = "delay=5ms,jitter=6ms".parse::<Link>().unwrap_err().to_string();
        assert!(error.contains("no more than the delay"), "{error}");
    }
}
