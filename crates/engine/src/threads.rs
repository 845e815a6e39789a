//! Threads that own one connection at a time: a pool of them behind a queue, or one made for each connection.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::accept::{Accepted, BESIDE, accept, last_call, pause, refuse, turn_away};
use crate::driver::blocking::Blocking;
use crate::driver::epoll::Epoll;
use crate::driver::{Driver, Limits};
use crate::executor::Executor;
use crate::interrupt::Interrupts;
use crate::meter::Counters;
use crate::op::Error;
use crate::pressure::Pressure;
use crate::service::{Connections, Service};
use crate::stop::{Stop, either};
use crate::stream::{Io, Listener, Stream};
use crate::sync::{Mutex, lock};
use crate::topology::{Queue, Topology};
use crate::workers::{Class, Setup, Workers};

/// How often it is looked whether idle connections are to be closed, where nobody comes.
const LOOK: Duration = Duration::from_secs(1);

/// How often idle connections are closed while others wait for a thread.
const RELIEF: Duration = Duration::from_millis(20);

/// How long a connection must have been idle to be closed for the sake of another: shorter, and its client is likely
/// to be sending its next request.
const IDLE: Duration = Duration::from_millis(250);

/// Idle connections looked for at a time.
const LOOKED_AT: usize = 64;

/// All that the acceptor and its threads need.
pub(crate) struct Threads<S> {
    pub(crate) topology: Topology,
    pub(crate) listener: OwnedFd,
    pub(crate) service: Arc<S>,
    /// Those of each thread, and last the acceptor's.
    pub(crate) counters: Vec<Arc<Counters>>,
    /// Where the pool is put for others to look at, if there is one.
    pub(crate) pool: Arc<OnceLock<Workers<Accepted>>>,
    pub(crate) stop: Stop,
    /// Whether memory is scarce.
    pub(crate) pressure: Pressure,
    pub(crate) drain: Duration,
}

/// One thread that serves a connection: what it has for itself.
struct Owner<S: Service> {
    io: Io<Blocking>,
    local: S::Local<Blocking>,
    counters: Arc<Counters>,
}

impl<S: Service> Owner<S> {
    fn new(index: usize, service: &Arc<S>, counters: &Arc<Counters>) -> io::Result<Self> {
        let io = Io::new(Blocking::open(Limits { sockets: BESIDE })?);
        let local = service.on_reactor(index, &io);
        Ok(Owner { io, local, counters: counters.clone() })
    }

    /// Serves one connection to its end, on the calling thread. A panic is that end: it costs this connection, which the
    /// thread has for itself, and neither the thread nor its place.
    fn serve(&self, (fd, peer): Accepted, stop: Stop) {
        Counters::count(&self.counters.accepted);
        self.counters.meter.begin(Instant::now());
        // Whoever panicked has said so; what it had of the connection is gone with it.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            if let Ok(stream) = Stream::new(&self.io, fd) {
                to_its_end(self.local.serve(stream, peer, stop));
            }
        }));
        self.counters.meter.end(Instant::now());
        Counters::count(&self.counters.closed);
    }

    /// Closes a connection that has waited for this thread until after the end.
    fn let_go(&self, accepted: Accepted) {
        Counters::count(&self.counters.accepted);
        drop(accepted);
        Counters::count(&self.counters.closed);
    }
}

/// Polls a future on the blocking driver until it ends. It waits for nothing; where it gives others their turn there
/// are no others on this thread.
fn to_its_end(future: impl Future<Output = ()>) {
    let mut future = pin!(future);
    while future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
}

/// Where the acceptor's connections go.
trait Crew {
    /// Takes a connection, or gives it back if there is no room for it.
    fn take(&self, accepted: Accepted) -> Result<(), Accepted>;

    /// Whether connections wait and no thread is free.
    fn is_behind(&self) -> bool;

    /// Accepting is over. What has been taken is still served.
    fn close(&self);

    /// Waits for the threads to end.
    fn join(&self);
}

/// A pool of threads behind a queue.
struct PoolOfThreads(Workers<Accepted>);

impl Crew for PoolOfThreads {
    fn take(&self, accepted: Accepted) -> Result<(), Accepted> {
        self.0.submit(accepted, Class::Normal)
    }

    fn is_behind(&self) -> bool {
        self.0.is_behind()
    }

    fn close(&self) {
        self.0.close();
    }

    fn join(&self) {
        self.0.join();
    }
}

/// A thread for each connection. Each has a place, whose counters it writes and by which it can be reached.
struct ThreadEach<S> {
    service: Arc<S>,
    counters: Vec<Arc<Counters>>,
    interrupts: Arc<Interrupts>,
    free: Arc<Mutex<Vec<usize>>>,
    closing: Stop,
    threads: RefCell<Vec<Option<JoinHandle<()>>>>,
}

impl<S: Service> Crew for ThreadEach<S> {
    fn take(&self, accepted: Accepted) -> Result<(), Accepted> {
        let Some(place) = lock(&self.free).pop() else {
            return Err(accepted);
        };
        // In a cell that both sides hold, so that it comes back where the thread cannot be started.
        let parcel = Arc::new(Mutex::new(Some(accepted)));
        let (service, counters) = (self.service.clone(), self.counters[place].clone());
        let (interrupts, free) = (self.interrupts.clone(), self.free.clone());
        let (closing, inner) = (self.closing.clone(), parcel.clone());
        let started = thread::Builder::new().name(format!("connection-{place}")).spawn(move || {
            let accepted = lock(&inner).take();
            if let (Some(accepted), Ok(owner)) = (accepted, Owner::new(place, &service, &counters)) {
                interrupts.register(place, owner.io.driver().interrupt());
                owner.serve(accepted, closing);
                interrupts.forget(place);
            }
            lock(&free).push(place);
        });
        match started {
            Ok(thread) => {
                self.threads.borrow_mut()[place] = Some(thread);
                Ok(())
            }
            Err(error) => {
                tracing::warn!(%error, "no thread for a connection");
                lock(&self.free).push(place);
                lock(&parcel).take().map_or(Ok(()), Err)
            }
        }
    }

    fn is_behind(&self) -> bool {
        false
    }

    fn close(&self) {}

    fn join(&self) {
        self.threads.borrow_mut().iter_mut().filter_map(Option::take).for_each(|thread| drop(thread.join()));
    }
}

impl<S: Service> Threads<S> {
    /// Accepts on the calling thread, and serves on others, until stopped and drained; calls `up` when it serves.
    pub(crate) fn run(self, up: &dyn Fn()) -> io::Result<()> {
        let places = self.topology.workers;
        let interrupts = Arc::new(Interrupts::new(places));
        let closing = Stop::default();
        if self.topology.queue == Queue::None {
            let crew = ThreadEach {
                service: self.service.clone(),
                counters: self.counters.clone(),
                interrupts: interrupts.clone(),
                free: Arc::new(Mutex::new((0..places).rev().collect())),
                closing: closing.clone(),
                threads: RefCell::new((0..places).map(|_| None).collect()),
            };
            return self.accept(&crew, &interrupts, &closing, up);
        }
        let (service, counters) = (self.service.clone(), self.counters.clone());
        let (theirs, stop) = (interrupts.clone(), closing.clone());
        let prepare = move |index: usize| {
            // It can fail for want of memory only, and then so does the thread.
            let owner = Owner::new(index, &service, &counters[index]).expect("memory for a thread's buffers");
            theirs.register(index, owner.io.driver().interrupt());
            let (stop, theirs) = (stop.clone(), theirs.clone());
            move |_, accepted: Accepted| {
                if theirs.are_cut() {
                    owner.let_go(accepted);
                } else {
                    owner.serve(accepted, stop.clone());
                }
                true
            }
        };
        let workers = Workers::start_with("thread", &Setup::of(&self.topology), prepare)?;
        let _ = self.pool.set(workers.clone());
        // While connections wait for a thread, an answer is the last on its connection: the thread is wanted.
        let queue = workers.clone();
        closing.follow(move || queue.is_behind());
        let crew = PoolOfThreads(workers);
        self.accept(&crew, &interrupts, &closing, up)
    }

    fn accept(
        self,
        crew: &dyn Crew,
        interrupts: &Interrupts,
        closing: &Stop,
        up: &dyn Fn(),
    ) -> io::Result<()> {
        // The acceptor waits in epoll in every model, so that a stop ends its wait and nothing in the backlog is lost.
        let io = Io::new(Epoll::open(Limits { sockets: BESIDE })?);
        let executor: Executor<std::future::Ready<()>> = Executor::new(0, io.driver().unpark());
        let own = self.counters.last().cloned().unwrap_or_default();
        let owners = &self.counters[..self.topology.workers];
        let taken = Cell::new(0u64);
        let live = || {
            let closed = owners.iter().map(|own| own.closed.load(Ordering::Relaxed)).sum();
            taken.get().saturating_sub(closed)
        };
        let hand_over = async |accepted: Accepted| {
            // Counting costs a look at every thread, so it is done only where the bound could be near.
            let full =
                taken.get() >= self.topology.connections as u64 && live() >= self.topology.connections as u64;
            let result = if full { Err(accepted) } else { crew.take(accepted) };
            match result {
                Ok(()) => taken.set(taken.get() + 1),
                Err((fd, _)) => {
                    // A queue that is full counts that itself.
                    if full || self.topology.queue == Queue::None {
                        Counters::count(&own.refused);
                    }
                    refuse(&fd, self.service.refusal());
                }
            }
        };
        let pause = async || pause(&io, &own).await;
        let ended = executor.run(&io, &own.meter, || {}, async {
            self.stop.watch().await;
            let listener = Listener::new(&io, self.listener)?;
            up();
            let turn_away = |accepted| turn_away(accepted, &own, self.service.refusal());
            let accepting = accept(listener, (&self.stop, &self.pressure), hand_over, turn_away, pause);
            either(accepting, relieve(&io, crew, &self.pressure, interrupts)).await;
            io.sleep(last_call()).await;
            closing.set();
            interrupts.close();
            crew.close();
            let limit = io.deadline(self.drain);
            while live() > 0 && !limit.has_passed(io.now()) {
                io.sleep(io.deadline(Duration::from_millis(5))).await;
            }
            let cut = interrupts.cut();
            if cut > 0 {
                tracing::warn!(connections = cut, "cut off: still busy at the end of the drain limit");
            }
            Ok::<(), Error>(())
        });
        crew.join();
        ended??;
        Ok(())
    }
}

/// Closes idle connections while that is needed: others wait and no thread is free, where a thread that keeps an idle
/// connection open would make them wait for as long as it may idle, or memory is scarce, or descriptors have run out.
async fn relieve(io: &Io<Epoll>, crew: &dyn Crew, pressure: &Pressure, interrupts: &Interrupts) {
    let is_needed = || crew.is_behind() || pressure.is_on() || pressure.lacks_descriptors();
    let mut next = 0;
    loop {
        // Looked at whenever something was accepted, since that is the same task, and now and then: memory becomes scarce also
        // where nobody comes.
        let needed = poll_fn(|_| if is_needed() { Poll::Ready(()) } else { Poll::Pending });
        either(needed, io.sleep(io.deadline(LOOK))).await;
        if !is_needed() {
            continue;
        }
        io.sleep(io.deadline(RELIEF)).await;
        for _ in 0..interrupts.places().min(LOOKED_AT) {
            if !is_needed() {
                break;
            }
            next = (next + 1) % interrupts.places();
            if interrupts.ring(next, IDLE) && pressure.lacks_descriptors() {
                // It leaves the one that is missing. Whether there are more is seen by who accepts.
                pressure.set_lacks_descriptors(false);
                break;
            }
        }
    }
}
