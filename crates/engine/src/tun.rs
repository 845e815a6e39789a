//! A network interface whose packets this process carries: what is routed to it is read here, and what is written here
//! arrives from it (Linux, Documentation/networking/tuntap).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{read, write};
use rustix::ioctl::{Setter, ioctl};

/// `_IOW('T', 202, int)` of linux/if_tun.h.
const TUNSETIFF: rustix::ioctl::Opcode = 0x4004_54ca;

/// Packets of the Internet Protocol, without anything before them (linux/if_tun.h).
const IFF_TUN: u16 = 0x0001;
const IFF_NO_PI: u16 = 0x1000;

/// Longest name of an interface, without the zero behind it.
const LONGEST_NAME: usize = 15;

/// `struct ifreq` of linux/if.h, as far as TUNSETIFF looks at it; it has 40 bytes.
#[repr(C)]
struct Request {
    name: [u8; LONGEST_NAME + 1],
    flags: u16,
    rest: [u8; 22],
}

/// A network interface, which is there until this is dropped.
#[derive(Debug)]
pub struct Tun(OwnedFd);

impl Tun {
    /// Makes an interface of this name, in the network namespace of the calling thread. It has no address and is down.
    ///
    /// # Errors
    /// The name is too long or taken, the kernel has no such interfaces, or the process has no CAP_NET_ADMIN.
    pub fn open(name: &str) -> io::Result<Self> {
        if name.len() > LONGEST_NAME || name.contains('\0') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let fd = open("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
        let mut request = Request { name: [0; LONGEST_NAME + 1], flags: IFF_TUN | IFF_NO_PI, rest: [0; 22] };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: TUNSETIFF takes a pointer to a struct ifreq, which `Request` has the size and layout of; the kernel
        // reads and writes those 40 bytes only, and only during the call.
        unsafe { ioctl(&fd, Setter::<TUNSETIFF, Request>::new(request)) }?;
        Ok(Tun(fd))
    }

    /// Takes a packet that was routed to the interface; `WouldBlock` if there is none.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(read(&self.0, into)?)
    }

    /// Lets a packet arrive from the interface.
    ///
    /// # Errors
    /// The kernel's reason: it is no packet, or the interface is down.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        write(&self.0, packet)?;
        Ok(())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_as_long_as_the_kernels() {
        assert_eq!(size_of::<Request>(), 40);
        assert_eq!(Tun::open("a name that is too long").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
