//! Listening sockets: one for all, or one per reactor on the same address.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted, before the kernel's own limit (`net.core.somaxconn`).
pub const BACKLOG: u32 = 4096;

/// Opens `count` listening sockets on one address; with more than one, the kernel spreads connections over
/// them (`SO_REUSEPORT`, socket(7)). Port 0 takes a free port, the same for all.
///
/// # Errors
/// The address is taken, not this host's, or not permitted.
pub fn listen(address: SocketAddr, count: usize, backlog: u32) -> io::Result<Vec<OwnedFd>> {
    listen_and_bind(address, count, 0, backlog)
}

/// The same, and `more` sockets behind them that are bound to the address but get no connections before they are told to
/// [`begin`].
pub(crate) fn listen_and_bind(
    address: SocketAddr,
    count: usize,
    more: usize,
    backlog: u32,
) -> io::Result<Vec<OwnedFd>> {
    if count + more == 1 {
        return Ok(vec![open(address, false, backlog)?.into()]);
    }
    // With SO_REUSEPORT a second server of the same user could share the port unnoticed, and each would get
    // a part of the connections. So the port is first taken without it, as proof that nobody listens there.
    let address = local_address(&open(address, false, 0)?)?;
    let backlogs = std::iter::repeat_n(backlog, count).chain(std::iter::repeat_n(0, more));
    backlogs.map(|backlog| open(address, true, backlog).map(OwnedFd::from)).collect()
}

/// Lets a socket that is bound listen, with room for so many connections that wait to be accepted.
pub(crate) fn begin(socket: &OwnedFd, backlog: u32) -> rustix::io::Result<()> {
    rustix::net::listen(socket, backlog.min(i32::MAX as u32) as i32)
}

/// Has the kernel drop connections whose client acknowledges nothing, or keeps its window closed, for so long while there is
/// something for it (tcp(7), `TCP_USER_TIMEOUT`). Accepted sockets inherit it, and keep it when they are closed.
pub(crate) fn limit_send_time(sockets: &[OwnedFd], time: Duration) -> rustix::io::Result<()> {
    // 0 would be the kernel's own limits, and it takes no more than 24 days.
    let millis = time.as_millis().clamp(1, i32::MAX as u128) as u32;
    sockets.iter().try_for_each(|socket| rustix::net::sockopt::set_tcp_user_timeout(socket, millis))
}

/// The address a listening socket is bound to.
///
/// # Errors
/// The socket is not of the Internet families.
pub fn local_address(socket: &impl std::os::fd::AsFd) -> io::Result<SocketAddr> {
    let address = rustix::net::getsockname(socket)?;
    SocketAddr::try_from(address).map_err(io::Error::from)
}

fn open(address: SocketAddr, shared: bool, backlog: u32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    // Accepted sockets inherit it, which saves a call for each. Answers go out whole, so there is nothing
    // for Nagle's algorithm to gather.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    if backlog > 0 {
        socket.listen(backlog.min(i32::MAX as u32) as i32)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn several_sockets_share_one_free_port() {
        let sockets = listen(([127, 0, 0, 1], 0).into(), 3, 16).unwrap();
        let ports: Vec<u16> = sockets.iter().map(|socket| local_address(socket).unwrap().port()).collect();
        assert!(ports[0] != 0 && ports.iter().all(|port| *port == ports[0]), "{ports:?}");
    }

    #[test]
    fn one_that_is_only_bound_gets_no_connections_until_it_begins() {
        let sockets = listen_and_bind(([127, 0, 0, 1], 0).into(), 1, 1, 16).unwrap();
        let address = local_address(&sockets[0]).unwrap();
        // So many connections come; how many of them each socket gets. The last may take a moment to be there.
        let shares = |connections| {
            (0..connections).for_each(|_| drop(std::net::TcpStream::connect(address).unwrap()));
            let (mut shares, since) = ([0; 2], Instant::now());
            while shares.iter().sum::<usize>() < connections && since.elapsed() < Duration::from_secs(20) {
                for (share, socket) in shares.iter_mut().zip(&sockets) {
                    *share += usize::from(rustix::net::accept(socket).is_ok());
                }
            }
            shares
        };
        (0..4).for_each(|_| assert_eq!(shares(4), [4, 0]));
        begin(&sockets[1], 64).unwrap();
        begin(&sockets[0], 64).unwrap();
        let [first, second] = shares(50);
        assert!(first > 0 && second > 0 && first + second == 50, "{first} {second}");
    }

    #[test]
    fn a_taken_port_is_refused_also_when_it_could_be_shared() {
        let first = listen(([127, 0, 0, 1], 0).into(), 2, 16).unwrap();
        let address = local_address(&first[0]).unwrap();
        for count in [1, 2] {
            assert_eq!(listen(address, count, 16).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        }
    }
}
