//! One thread's tasks: a table of futures of one type, reserved at the start, and the loop that runs them.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use crate::driver::Driver;
use crate::meter::Meter;
use crate::prefetch::prefetch;
use crate::stream::Io;
use crate::timer::Deadline;
use crate::unpark::Unpark;

/// How many tasks before its turn a task's memory is asked for.
const AHEAD: usize = 1;

/// Fewest tasks in a turn whose memory is asked for: that of fewer is in a near cache anyway.
const FAR: usize = 128;

thread_local! {
    /// The executor that this thread runs, by its queue.
    static RUNNING: Cell<*const Ready> = const { Cell::new(ptr::null()) };
    /// Its slots that this thread itself has woken, as nearly always happens: that takes no lock, and wakes nobody.
    static WOKEN: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Tasks of one thread, all of type `F`, beside the main future given to [`run`](Self::run).
///
/// A task lives in a slot that was allocated at the start, with a waker that stays the slot's own: starting
/// and ending a task allocates nothing. A late wake-up of a slot's earlier task polls its present one once
/// in vain, which the contract of `Future` allows.
pub struct Executor<F> {
    slots: Box<[Slot<F>]>,
    main: Signal,
    free: RefCell<Vec<u32>>,
    ready: Arc<Ready>,
    /// Parts of the main future that want to be woken when a task ends.
    tell_main: Cell<usize>,
}

struct Slot<F> {
    task: RefCell<Pin<Box<Option<F>>>>,
    signal: Signal,
}

/// A waker, and the flag behind it.
struct Signal {
    state: Arc<SlotWaker>,
    waker: Waker,
}

struct SlotWaker {
    index: u32,
    /// Whether the slot is in the ready queue already; it is there at most once, so the queue is bounded.
    queued: AtomicBool,
    /// The same of what its own thread has woken, which alone looks at this. Where another thread wakes it too, it is polled
    /// twice.
    woken: AtomicBool,
    ready: Arc<Ready>,
}

/// The slots that want to be polled; any thread may add to them.
struct Ready {
    queue: Mutex<Vec<u32>>,
    unpark: Unpark,
}

impl Signal {
    fn new(index: u32, ready: &Arc<Ready>) -> Self {
        let state = Arc::new(SlotWaker {
            index,
            queued: AtomicBool::new(false),
            woken: AtomicBool::new(false),
            ready: ready.clone(),
        });
        Signal { waker: state.clone().into(), state }
    }
}

impl Ready {
    fn queue(&self) -> MutexGuard<'_, Vec<u32>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotWaker {
    /// The slot has been taken from its own thread's list, or from the others' queue: then with what was written before any
    /// wake-up that found it there.
    fn take(&self, own: bool) {
        if own {
            self.woken.store(false, Ordering::Relaxed);
        } else {
            self.queued.swap(false, Ordering::AcqRel);
        }
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if ptr::eq(RUNNING.get(), Arc::as_ptr(&self.ready)) {
            if !self.woken.load(Ordering::Relaxed) {
                self.woken.store(true, Ordering::Relaxed);
                WOKEN.with_borrow_mut(|woken| woken.push(self.index));
            }
            return;
        }
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ready.queue().push(self.index);
            self.ready.unpark.unpark();
        }
    }
}

impl<F: Future<Output = ()>> Executor<F> {
    /// An executor with `capacity` slots; `unpark` wakes the thread that will run it.
    pub fn new(capacity: usize, unpark: Unpark) -> Self {
        let ready = Arc::new(Ready { queue: Mutex::new(Vec::with_capacity(capacity + 1)), unpark });
        let slot = |index| Slot { task: RefCell::new(Box::pin(None)), signal: Signal::new(index, &ready) };
        Executor {
            slots: (0..capacity as u32).map(slot).collect(),
            main: Signal::new(capacity as u32, &ready),
            free: RefCell::new((0..capacity as u32).rev().collect()),
            ready,
            tell_main: Cell::new(0),
        }
    }

    /// Starts a task, or gives it back if every slot is taken.
    pub fn spawn(&self, future: F) -> Result<(), F> {
        let Some(index) = self.free.borrow_mut().pop() else { return Err(future) };
        let slot = &self.slots[index as usize];
        slot.task.borrow_mut().set(Some(future));
        slot.signal.waker.wake_by_ref();
        Ok(())
    }

    /// Tasks that have not ended.
    pub fn live(&self) -> usize {
        self.slots.len() - self.free.borrow().len()
    }

    /// Polls every task once more: something that all of them look at has changed.
    pub fn wake_all(&self) {
        for slot in &self.slots {
            slot.signal.waker.wake_by_ref();
        }
    }

    /// Waits until no more than `limit` tasks are left. For the main future only.
    pub async fn at_most(&self, limit: usize) {
        let _told = Told::begin(&self.tell_main);
        poll_fn(|_| if self.live() <= limit { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Waits until a task ends; forever, if there is none. For the main future only.
    pub async fn one_less(&self) {
        let before = self.live();
        let _told = Told::begin(&self.tell_main);
        poll_fn(|_| if self.live() < before { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Runs `main` and the tasks until `main` ends, once; tasks that are left are dropped with the executor. Calls
    /// `end_of_turn` before each wait, and tells `meter` how busy it is.
    ///
    /// # Errors
    /// The driver can no longer wait for events.
    pub fn run<D: Driver, M: Future>(
        &self,
        io: &Io<D>,
        meter: &Meter,
        end_of_turn: impl Fn(),
        main: M,
    ) -> io::Result<M::Output> {
        let _running = Running::begin(&self.ready, self.slots.len() + 1);
        let mut main = pin!(main);
        let mut batch = Vec::with_capacity(2 * (self.slots.len() + 1));
        self.main.waker.wake_by_ref();
        loop {
            meter.begin(io.now());
            self.ready.unpark.looked();
            batch.append(&mut self.ready.queue());
            let others = batch.len();
            WOKEN.with_borrow_mut(|woken| batch.append(woken));
            let far = batch.len() >= FAR;
            for (at, &index) in batch.iter().enumerate() {
                if far && let Some(next) = batch.get(at + AHEAD) {
                    self.fetch(*next);
                }
                let own = at >= others;
                let Some(slot) = self.slots.get(index as usize) else {
                    if let Poll::Ready(output) = self.main.poll(main.as_mut(), own) {
                        return Ok(output);
                    }
                    continue;
                };
                self.poll(index, slot, own);
            }
            batch.clear();
            end_of_turn();
            meter.end(Instant::now());
            // What other threads have woken since the queue was taken has notified the driver, which then only looks and does
            // not sleep; no more does it where this thread has woken something.
            let awake = WOKEN.with_borrow(|woken| !woken.is_empty());
            io.park(if awake { Deadline::at(io.now()) } else { Deadline::NEVER })?;
        }
    }

    /// Has a task's memory brought nearer, since it is about to be polled.
    fn fetch(&self, index: u32) {
        if let Some(task) = self.slots.get(index as usize).and_then(|slot| slot.task.try_borrow().ok()) {
            prefetch(&**task);
        }
    }

    fn poll(&self, index: u32, slot: &Slot<F>, own: bool) {
        let mut task = slot.task.borrow_mut();
        let Some(future) = task.as_mut().as_pin_mut() else {
            // It was woken though it is empty, or has been since: the next task in it is to be woken too.
            slot.signal.state.take(own);
            return;
        };
        if slot.signal.poll(future, own).is_ready() {
            task.set(None);
            self.free.borrow_mut().push(index);
            if self.tell_main.get() > 0 {
                self.main.waker.wake_by_ref();
            }
        }
    }
}

/// One more that wants to be told, for as long as it is there.
struct Told<'a>(&'a Cell<usize>);

impl<'a> Told<'a> {
    fn begin(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Told(count)
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Says for as long as it is there which executor its thread runs, and keeps what it says of one around that.
struct Running {
    outer: *const Ready,
    woken: Vec<u32>,
}

impl Running {
    fn begin(ready: &Arc<Ready>, slots: usize) -> Self {
        Running {
            outer: RUNNING.replace(Arc::as_ptr(ready)),
            woken: WOKEN.replace(Vec::with_capacity(slots)),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.set(self.outer);
        WOKEN.set(std::mem::take(&mut self.woken));
    }
}

impl Signal {
    fn poll<T: Future>(&self, future: Pin<&mut T>, own: bool) -> Poll<T::Output> {
        // Before the poll, so that a wake-up during it counts.
        self.state.take(own);
        future.poll(&mut Context::from_waker(&self.waker))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::driver::epoll::Epoll;
    use crate::driver::{Driver, Limits};
    use crate::stream::yield_now;

    #[test]
    fn a_slot_that_was_woken_while_it_was_empty_takes_the_next_task() {
        let io = Io::new(Epoll::open(Limits { sockets: 4 }).unwrap());
        let executor = Executor::new(2, io.driver().unpark());
        let ran = Cell::new(false);
        executor.wake_all();
        executor
            .run(&io, &Meter::default(), || (), async {
                // The empty slots have their turn.
                yield_now().await;
                assert!(executor.spawn(async { ran.set(true) }).is_ok());
                for _ in 0..10 {
                    yield_now().await;
                }
            })
            .unwrap();
        assert!(ran.get());
    }
}
