//! The socket of a connection that a load makes: of the server's family, and from an address of its own.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use rustix::net::sockopt::{set_tcp_nodelay, set_tcp_quickack};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use crate::fault::Fault;

/// Pause after a failed connect, so that a server that is down is not hammered.
pub(crate) const BACK_OFF: Duration = Duration::from_millis(10);

/// The `at`-th of the addresses that a load comes from, where it is not left to the kernel.
pub(crate) fn source(at: u32) -> SocketAddr {
    ([127, 0, 0, 2 + at as u8], 0).into()
}

/// A socket that can be connected to an address.
pub(crate) fn socket(
    address: SocketAddr,
    flags: SocketFlags,
    source: Option<SocketAddr>,
) -> Result<OwnedFd, Fault> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, flags | SocketFlags::CLOEXEC, None)
        .map_err(|_| Fault::ConnectFailed)?;
    if let Some(source) = source {
        // The port is chosen when it is known where to: a port that is taken for one server is free for another.
        setsockopt(&socket, IpBindAddressNoPort, &true).map_err(|_| Fault::ConnectFailed)?;
        bind(&socket, &source).map_err(|_| Fault::ConnectFailed)?;
    }
    Ok(socket)
}

/// Has a socket send and acknowledge as suits what it is for: one request, or many.
pub(crate) fn tune(socket: &OwnedFd, one_request: bool) {
    // Where the kernel does not know either, requests take longer.
    let _ = if one_request {
        // The request follows at once, and the end behind the answer: acknowledgements can travel with them. That spares two
        // of some nine packets, which cost more than all else here.
        set_tcp_quickack(socket, false)
    } else {
        // The end of a request, or the piece that a slow client sends, is not held until what went before is acknowledged: that
        // would be a delay of the load's own.
        set_tcp_nodelay(socket, true)
    };
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt::tcp_nodelay;

    use super::*;

    #[test]
    fn a_kept_connection_holds_nothing_back() {
        let socket = |one_request| {
            let socket = socket(([127, 0, 0, 1], 80).into(), SocketFlags::empty(), None).unwrap();
            tune(&socket, one_request);
            tcp_nodelay(&socket).unwrap()
        };
        assert_eq!((socket(false), socket(true)), (true, false));
    }
}
