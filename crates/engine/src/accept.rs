//! Accepting connections: until stopped, and then the last that had come; and the thread that does it for several reactors.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::balance::Balancer;
use crate::driver::{Driver, Limits};
use crate::executor::Executor;
use crate::inbox::Inbox;
use crate::meter::Counters;
use crate::op::Error;
use crate::pressure::{Door, Pressure};
use crate::stop::Stop;
use crate::stream::{Io, Listener, yield_now};
use crate::timer::Deadline;

/// Sockets a driver needs beside the connections: the listener, and sleeps of the main task, which may be several at once.
pub(crate) const BESIDE: usize = 6;

/// How long accepting pauses when descriptors or memory have run out, unless a connection ends sooner.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// How long accepting goes on after a stop, for connections whose handshake was under way; and then, how long
/// those have to send their first request before idle connections are closed.
const LAST_CALL: Duration = Duration::from_millis(20);

/// How long the last look after that may take.
const LAST_LOOK: Duration = Duration::from_millis(5);

/// Connections accepted after a stop at most: more than any backlog holds (`net.core.somaxconn` is 4,096 by default).
const MOST_LAST: u32 = 1 << 16;

/// Connections accepted one after the other before others have their turn.
const TURN: u32 = 64;

/// A connection on its way from the acceptor to its reactor.
pub(crate) type Accepted = (OwnedFd, SocketAddr);

/// What the next client for whom there is no room is told.
pub(crate) type Refusal<'a> = dyn Fn() -> &'a [u8] + 'a;

/// Accepts until stopped, and then what had already come in by then: closing a listening socket resets the
/// connections that wait in its backlog. While memory is scarce it pauses after each, or turns away most where that lasts.
pub(crate) async fn accept<D: Driver>(
    listener: Listener<D>,
    (stop, pressure): (&Stop, &Pressure),
    admit: impl AsyncFn(Accepted),
    turn_away: impl Fn(Accepted),
    pause: impl AsyncFn(),
) {
    let mut door = Door::new(pressure);
    // One line for each time that it happens, and not for each attempt.
    let (mut said, mut taken) = (false, 0u32);
    while let Some(accepted) = stop.or(listener.accept(Deadline::NEVER)).await {
        match accepted {
            Ok(accepted) => {
                said = false;
                taken = taken.wrapping_add(1);
                if taken.is_multiple_of(TURN) {
                    // Whoever is served already waits no longer than for so many that come.
                    yield_now().await;
                }
                if door.lets_in() {
                    admit(accepted).await;
                } else {
                    turn_away(accepted);
                }
            }
            Err(error) if error.is_departure() => {}
            Err(error) => {
                if !std::mem::replace(&mut said, true) {
                    tracing::warn!(%error, "accepting pauses until there is room again");
                }
                pressure.set_lacks_descriptors(matches!(error, Error::Os(Errno::MFILE | Errno::NFILE)));
                stop.or(pause()).await;
                pressure.set_lacks_descriptors(false);
            }
        }
        while door.is_shut() && stop.or(pause()).await.is_some() {}
    }
    // All that is there is taken, however long that takes; whoever came before the stop is among it. When the time is over
    // the driver is given another moment, in which it surely looks: what it remembers may be older than the last connection.
    let mut until = last_call();
    let mut last_look = false;
    for turn in 1..=MOST_LAST {
        match listener.accept(until).await {
            Ok(accepted) => admit(accepted).await,
            Err(error) if error.is_departure() => {}
            Err(Error::TimedOut) if !last_look => {
                until = Deadline::at(Instant::now() + LAST_LOOK);
                last_look = true;
            }
            Err(error) if error == Error::TimedOut || until.has_passed(Instant::now()) => return,
            // A connection that ends may leave what is missing.
            Err(_) => pause().await,
        }
        if turn.is_multiple_of(TURN) {
            yield_now().await;
        }
    }
}

/// When the last call is over that begins now, by the clock: the driver's time is that of its last look.
pub(crate) fn last_call() -> Deadline {
    Deadline::at(Instant::now() + LAST_CALL)
}

/// Lets some time pass, and counts it: descriptors or memory have run out.
pub(crate) async fn pause<D: Driver>(io: &Io<D>, counters: &Counters) {
    Counters::count(&counters.paused);
    io.sleep(io.deadline(PAUSE)).await;
}

/// Tells a client that there is no room, as far as that goes without waiting for it.
pub(crate) fn refuse(fd: &OwnedFd, answer: &[u8]) {
    // Reading first: closing a socket with unread bytes resets it, and the answer could be lost.
    let _ = rustix::net::recv(fd, &mut [0u8; 4096], RecvFlags::DONTWAIT);
    let _ = rustix::net::send(fd, answer, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Write);
}

/// Refuses a connection for want of memory, and counts it.
pub(crate) fn turn_away((fd, _): Accepted, counters: &Counters, answer: &[u8]) {
    Counters::count(&counters.turned_away);
    refuse(&fd, answer);
}

/// Runs the accepting thread of [`Spread::Acceptor`](crate::topology::Spread::Acceptor).
pub(crate) fn run_acceptor<D: Driver>(
    fd: OwnedFd,
    inboxes: &[Arc<Inbox<Accepted>>],
    balancer: Balancer,
    (counters, refusal): (&Counters, &Refusal<'_>),
    (stop, pressure): (&Stop, &Pressure),
    up: &dyn Fn(),
) -> io::Result<()> {
    let io = Io::new(D::open(Limits { sockets: BESIDE })?);
    let executor: Executor<std::future::Ready<()>> = Executor::new(0, io.driver().unpark());
    let balancer = std::cell::RefCell::new(balancer);
    let hand_over = async |accepted| {
        let index = balancer.borrow_mut().choose(io.now());
        // A closed box means that the reactor has ended, as it does when its driver failed: the connection is
        // dropped, and the process is about to end with that error.
        let _ = inboxes[index].post(accepted);
    };
    executor.run(&io, &counters.meter, || {}, async {
        stop.watch().await;
        let listener = Listener::new(&io, fd)?;
        up();
        let turn_away = |accepted| turn_away(accepted, counters, refusal());
        let pause = async || pause(&io, counters).await;
        accept(listener, (stop, pressure), hand_over, turn_away, pause).await;
        Ok::<(), Error>(())
    })??;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::TcpStream;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::driver::epoll::Epoll;
    use crate::listen::{listen, local_address};

    /// How many of so many connections that came just before the stop are accepted, where taking one in takes that long.
    fn accepted_of(connections: usize, takes: Duration) -> usize {
        let fd = listen(([127, 0, 0, 1], 0).into(), 1, connections as u32).unwrap().remove(0);
        let address = local_address(&fd).unwrap();
        let io = Io::new(Epoll::open(Limits { sockets: BESIDE }).unwrap());
        let listener = Listener::new(&io, fd).unwrap();
        let (stop, pressure, accepted) = (Stop::default(), Pressure::default(), Cell::new(0));
        let count = async |_| {
            std::thread::sleep(takes);
            accepted.set(accepted.get() + 1);
        };
        let mut accepting = pin!(accept(listener, (&stop, &pressure), count, drop, async || ()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(accepting.as_mut().poll(&mut context).is_pending());
        // The driver has just seen an empty backlog, and does not look again between these and the stop.
        let _clients: Vec<_> = (0..connections).map(|_| TcpStream::connect(address).unwrap()).collect();
        stop.set();
        while accepting.as_mut().poll(&mut context) == Poll::Pending {
            io.park(io.deadline(Duration::from_millis(1))).unwrap();
        }
        accepted.get()
    }

    #[test]
    fn connections_that_came_just_before_the_stop_are_accepted() {
        assert_eq!(accepted_of(2, Duration::ZERO), 2);
    }

    #[test]
    fn however_long_it_takes_to_take_them_in() {
        assert_eq!(accepted_of(200, LAST_CALL / 50), 200);
    }
}
