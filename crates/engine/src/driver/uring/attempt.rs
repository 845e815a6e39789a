//! Starting an operation: answered from what is known already, or handed to the kernel.

use std::os::fd::AsRawFd;

use io_uring::opcode;
use io_uring::types::Fd;
use rustix::io::Errno;
use rustix::net::{self, Shutdown};

use super::entry::{Arrived, Inbound};
use super::flight::Freight;
use super::provided::GROUP;
use super::tag::Tag;
use super::{POLLOUT, Uring};
use crate::buf::Buf;
use crate::driver::{FILE_TURN, Lane, Side, retry, send_flags};
use crate::op::{Done, Error, More, Op, Socket};

impl Uring {
    /// Answers an operation from what is known, or hands it to the kernel. What is given back waits in the lane; an
    /// operation that is with the kernel as a flight is not given back.
    pub(super) fn attempt(&mut self, lane: Lane, op: Op) -> Result<Done, Option<Op>> {
        match op {
            Op::Sleep => {
                let due = self.wait(lane).timer.due <= self.now_nanos;
                if due { Ok(Done::Slept) } else { Err(Some(Op::Sleep)) }
            }
            Op::Accept(socket) => self.accept(socket).ok_or(Some(Op::Accept(socket))),
            Op::Recv(socket, buf) => self.receive(socket, buf).map_err(|buf| Some(Op::Recv(socket, buf))),
            Op::Send(socket, buf, more) => self.send(socket, buf, more),
            // The ring has no operation for these two; they are made at once, and waited for through the ring.
            Op::SendFile(socket, range) => {
                let Some(fd) = &self.entries[socket.0 as usize].fd else {
                    return Ok(Done::SentFile(Err(Errno::BADF.into())));
                };
                let (mut offset, count) = (range.offset, range.length.min(FILE_TURN) as usize);
                match retry(|| rustix::fs::sendfile(fd, &*range.file, Some(&mut offset), count)) {
                    Err(Errno::AGAIN) => match self.wait_writable(lane) {
                        Ok(()) => Err(Some(Op::SendFile(socket, range))),
                        Err(error) => Ok(Done::SentFile(Err(error))),
                    },
                    result => Ok(Done::SentFile(result.map(|n| n as u64).map_err(Error::from))),
                }
            }
            Op::Connect(socket, address) => {
                let Some(fd) = &self.entries[socket.0 as usize].fd else {
                    return Ok(Done::Connected(Err(Errno::BADF.into())));
                };
                match net::connect(fd, &address) {
                    Err(Errno::INPROGRESS | Errno::ALREADY) => match self.wait_writable(lane) {
                        Ok(()) => Err(Some(Op::Connect(socket, address))),
                        Err(error) => Ok(Done::Connected(Err(error))),
                    },
                    Err(Errno::ISCONN) => Ok(Done::Connected(Ok(()))),
                    result => Ok(Done::Connected(result.map_err(Error::from))),
                }
            }
            Op::Shutdown(socket) => {
                let fd = self.entries[socket.0 as usize].fd.as_ref().ok_or(Errno::BADF);
                let result = fd.and_then(|fd| net::shutdown(fd, Shutdown::Write));
                Ok(Done::ShutDown(result.map_err(Error::from)))
            }
        }
    }

    /// The next connection that has come; otherwise sees to it that one can.
    fn accept(&mut self, socket: Socket) -> Option<Done> {
        let entry = &mut self.entries[socket.0 as usize];
        if let Some(Arrived::Connection(fd)) = entry.arrived.pop_front() {
            // The kernel does not tell it with a multishot accept.
            let peer = net::getpeername(&fd).and_then(|peer| peer.ok_or(Errno::NOTCONN)?.try_into());
            let accepted = peer.map(|peer| (fd, peer)).map_err(|_| Error::Os(Errno::CONNABORTED));
            return Some(Done::Accepted(accepted));
        }
        if let Some(Err(errno)) = entry.end.take() {
            return Some(Done::Accepted(Err(errno.into())));
        }
        if entry.inbound != Inbound::Idle {
            return None;
        }
        entry.listening = true;
        let Some(fd) = &entry.fd else { return Some(Done::Accepted(Err(Errno::BADF.into()))) };
        // A non-blocking listener would make the kernel answer at once instead of waiting.
        let _ = rustix::io::ioctl_fionbio(fd, false);
        let flags = (net::SocketFlags::NONBLOCK | net::SocketFlags::CLOEXEC).bits() as i32;
        let request = opcode::AcceptMulti::new(Fd(fd.as_raw_fd())).flags(flags).build();
        self.start_inbound(socket, &request).err().map(|error| Done::Accepted(Err(error)))
    }

    /// The next bytes that have come; otherwise sees to it that some can, and gives the buffer back.
    fn receive(&mut self, socket: Socket, buf: Option<Buf>) -> Result<Done, Option<Buf>> {
        let entry = &mut self.entries[socket.0 as usize];
        if let Some(Arrived::Bytes(mut bytes)) = entry.arrived.pop_front() {
            let Some(mut buf) = buf else {
                let n = bytes.len();
                return Ok(Done::Received(Some(bytes), Ok(n)));
            };
            let n = buf.append(bytes.bytes());
            bytes.consume(n);
            if bytes.is_empty() {
                self.pool.give(bytes);
            } else {
                entry.arrived.push_front(Arrived::Bytes(bytes));
            }
            return Ok(Done::Received(Some(buf), Ok(n)));
        }
        match entry.end {
            Some(Ok(())) => return Ok(Done::Received(buf, Ok(0))),
            Some(Err(errno)) => return Ok(Done::Received(buf, Err(errno.into()))),
            None => {}
        }
        if entry.inbound != Inbound::Idle {
            return Err(buf);
        }
        let Some(fd) = &entry.fd else { return Ok(Done::Received(buf, Err(Errno::BADF.into()))) };
        let request = opcode::RecvMulti::new(Fd(fd.as_raw_fd()), GROUP).build();
        match self.start_inbound(socket, &request) {
            Ok(()) => Err(buf),
            Err(error) => Ok(Done::Received(buf, Err(error))),
        }
    }

    fn start_inbound(&mut self, socket: Socket, request: &io_uring::squeue::Entry) -> Result<(), Error> {
        let tag = Tag::Inbound(socket.0, self.entries[socket.0 as usize].generation);
        // SAFETY: these requests point to no memory; buffers come from the registered ring.
        unsafe { self.push(&request.clone().user_data(tag.pack()))? };
        let entry = &mut self.entries[socket.0 as usize];
        entry.inbound = Inbound::UnderWay;
        entry.in_kernel += 1;
        Ok(())
    }

    fn send(&mut self, socket: Socket, buf: Buf, more: More) -> Result<Done, Option<Op>> {
        let Some(fd) = self.entries[socket.0 as usize].fd.as_ref().map(AsRawFd::as_raw_fd) else {
            return Ok(Done::Sent(buf, Err(Errno::BADF.into())));
        };
        let (start, length) = (buf.bytes().as_ptr(), buf.len() as u32);
        let request = opcode::Send::new(Fd(fd), start, length).flags(send_flags(more).bits() as i32).build();
        let lane = Lane { socket: socket.0, side: Side::Write };
        let flight = self.flights.add(lane, Freight::Bytes(buf));
        // SAFETY: the bytes are on the heap and belong to the flight, which is taken apart only by its completion.
        match unsafe { self.push(&request.user_data(flight.pack())) } {
            Ok(()) => {
                self.entries[socket.0 as usize].in_kernel += 1;
                self.wait(lane).flight = Some(flight);
                Err(None)
            }
            Err(error) => match self.flights.take_back(flight) {
                Some(Freight::Bytes(buf)) => Ok(Done::Sent(buf, Err(error))),
                _ => Err(None),
            },
        }
    }

    /// Has the kernel tell when the lane's socket can be written to.
    fn wait_writable(&mut self, lane: Lane) -> Result<(), Error> {
        let now = self.now_nanos;
        if let Some(error) = self.wait(lane).given_up(now) {
            return Err(error);
        }
        let fd = self.entries[lane.socket as usize].fd.as_ref().ok_or(Errno::BADF)?.as_raw_fd();
        let flight = self.flights.add(lane, Freight::Nothing);
        let request = opcode::PollAdd::new(Fd(fd), POLLOUT).build().user_data(flight.pack());
        // SAFETY: the request points to no memory.
        if let Err(error) = unsafe { self.push(&request) } {
            self.flights.take_back(flight);
            return Err(error);
        }
        self.entries[lane.socket as usize].in_kernel += 1;
        self.wait(lane).flight = Some(flight);
        Ok(())
    }
}
