//! A driver under test, with a connection to a peer that is an ordinary blocking socket.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use engine::{BUF_BYTES, Buf, Deadline, Driver, Error, Io, Limits, More, Stream};

/// Long enough for anything that does happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A driver; `None` where this machine does not let us have it, which is said.
pub(crate) fn driver<D: Driver>(sockets: usize) -> Option<Io<D>> {
    match D::open(Limits { sockets }) {
        Ok(driver) => Some(Io::new(driver)),
        Err(error) if std::env::var_os("PLIMSOLL_REQUIRE_URING").is_none() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

struct Flag(std::sync::atomic::AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

/// Runs one future to its end, parking the driver while it waits.
pub(crate) fn run<D: Driver, T>(io: &Io<D>, future: impl Future<Output = T>) -> T {
    let (mut future, start) = (pin!(future), Instant::now());
    let waker = Waker::from(Arc::new(Flag(false.into())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        assert!(start.elapsed() < PATIENCE, "it never ended");
        io.driver().park(after(Duration::from_secs(1))).unwrap();
    }
}

/// Polls once, in vain.
pub(crate) fn begin<D: Driver, T>(io: &Io<D>, future: std::pin::Pin<&mut impl Future<Output = T>>) {
    assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    io.driver().park(after(Duration::from_millis(20))).unwrap();
}

pub(crate) fn after(duration: Duration) -> Deadline {
    Deadline::at(Instant::now() + duration)
}

pub(crate) fn soon() -> Deadline {
    after(PATIENCE)
}

/// A connection: our end on the driver, and the peer's.
pub(crate) fn pair<D: Driver>(io: &Io<D>) -> (Stream<D>, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let (ours, _) = listener.accept().unwrap();
    ours.set_nonblocking(true).unwrap();
    (Stream::new(io, ours.into()).unwrap(), peer)
}

pub(crate) fn receive<D: Driver>(
    io: &Io<D>,
    stream: &Stream<D>,
    buf: Option<Buf>,
) -> (Option<Buf>, Result<usize, Error>) {
    run(io, stream.recv(buf, soon(), || false))
}

/// Bytes without a pattern that a shifted copy would share.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 7u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

pub(crate) fn filled(bytes: &[u8]) -> Buf {
    let mut buf = Buf::new();
    assert_eq!(buf.append(bytes), bytes.len());
    buf
}

/// Sends until the peer's window and our own buffers are full; what went out.
pub(crate) fn stuff<D: Driver>(io: &Io<D>, stream: &Stream<D>) -> usize {
    let (block, mut sent) = (noise(BUF_BYTES), 0);
    loop {
        let (rest, result) =
            run(io, stream.send(filled(&block), More::No, after(Duration::from_millis(200))));
        match result {
            Ok(n) => sent += n,
            Err(error) => {
                assert_eq!((error, rest.len()), (Error::TimedOut, BUF_BYTES));
                return sent;
            }
        }
        assert!(sent < 1 << 30);
    }
}

pub(crate) fn file(content: &[u8]) -> Arc<OwnedFd> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("plimsoll-contract-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, content).unwrap();
    let file = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    Arc::new(file.into())
}

pub(crate) fn socket() -> OwnedFd {
    use socket2::{Domain, Protocol, Socket, Type};
    Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP)).unwrap().into()
}
