//! The floor: the least that a server on epoll can do. One thread, one receive and one send of a canned
//! answer per request, and no look at what was asked beyond counting the requests.
//!
//! Every other server on this kernel is measured against it: what lies above is its own cost.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::ExitCode;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

/// The event data of the listening socket.
const LISTENER: u64 = u64::MAX;

fn main() -> ExitCode {
    match options().and_then(|options| serve(&options).map_err(|error| error.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plimsoll-floor: {error}\nusage: plimsoll-floor [--port N] [--bytes N]");
            ExitCode::from(2)
        }
    }
}

struct Options {
    port: u16,
    bytes: usize,
}

fn options() -> Result<Options, String> {
    let mut options = Options { port: 8080, bytes: 1024 };
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(format!("{flag} needs a value"))?;
        let bad = |_| format!("{flag} {value}: not a number in range");
        match flag.as_str() {
            "--port" => options.port = value.parse().map_err(bad)?,
            "--bytes" => options.bytes = value.parse().map_err(bad)?,
            _ => return Err(format!("{flag}: unknown")),
        }
    }
    Ok(options)
}

/// The same head that the server sends for a page, and a body of spaces.
fn canned(bytes: usize) -> Vec<u8> {
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: text/html; charset=utf-8\r\n\
         Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: {bytes}\r\n\r\n"
    )
    .into_bytes();
    answer.resize(answer.len() + bytes, b' ');
    answer
}

fn serve(options: &Options) -> std::io::Result<()> {
    let address = SocketAddr::from(([127, 0, 0, 1], options.port));
    let listener = engine::listen::listen(address, 1, engine::listen::BACKLOG)?.remove(0);
    println!("listening on http://{}/", engine::listen::local_address(&listener)?);
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let answer = canned(options.bytes);
    let mut connections: Vec<Option<OwnedFd>> = Vec::new();
    let mut events = Vec::with_capacity(512);
    let mut buffer = vec![0; 16 * 1024];
    loop {
        events.clear();
        match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => accept(&poll, &listener, &mut connections),
                fd => {
                    let slot = &mut connections[fd as usize];
                    if slot.as_ref().is_some_and(|connection| !answer_one(connection, &mut buffer, &answer)) {
                        *slot = None;
                    }
                }
            }
        }
    }
}

fn accept(poll: &OwnedFd, listener: &OwnedFd, connections: &mut Vec<Option<OwnedFd>>) {
    while let Ok(connection) =
        rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
    {
        let fd = connection.as_raw_fd() as usize;
        if epoll::add(poll, &connection, epoll::EventData::new_u64(fd as u64), epoll::EventFlags::IN).is_err()
        {
            continue;
        }
        if connections.len() <= fd {
            connections.resize_with(fd + 1, || None);
        }
        connections[fd] = Some(connection);
    }
}

/// Answers what one receive brings; false when the connection is over.
fn answer_one(connection: &OwnedFd, buffer: &mut [u8], answer: &[u8]) -> bool {
    let received = match rustix::net::recv(connection, &mut *buffer, RecvFlags::empty()) {
        Ok((_, 0)) => return false,
        Ok((_, n)) => &buffer[..n],
        Err(errno) => return errno == Errno::AGAIN,
    };
    let sent = match received.windows(4).filter(|window| window == b"\r\n\r\n").count() {
        0 | 1 => rustix::net::send(connection, answer, SendFlags::NOSIGNAL),
        // Pipelined requests: their answers in one send.
        several => rustix::net::send(connection, &answer.repeat(several), SendFlags::NOSIGNAL),
    };
    // A client that asks to close is closed on; it is the only thing the floor reads in a request.
    sent.is_ok() && !received.windows(17).any(|window| window.eq_ignore_ascii_case(b"connection: close"))
}
