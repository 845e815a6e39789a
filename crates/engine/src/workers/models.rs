//! The queues under a model checker: whatever the order in which threads run, no job is lost and nobody sleeps on.

use shuttle::sync::{Barrier, mpsc};
use shuttle::thread;

use super::*;

impl Aged for usize {
    fn age(&self) -> Duration {
        Duration::ZERO
    }
}

/// Random schedules for each queue. Each is another order in which the threads run.
const SCHEDULES: usize = 3000;

fn check(kind: topology::Queue, order: Order, longest_wait: Option<Duration>) {
    for count in [1, 2] {
        nothing_is_slept_through(Setup {
            count,
            most: count,
            capacity: 2,
            queue: kind,
            order,
            longest_wait: None,
        });
    }
    work_is_shared(Setup { count: 2, most: 2, capacity: 2, queue: kind, order, longest_wait });
    for (then, at_once) in [(&[1][..], true), (&[1], false), (&[1, 2], true)] {
        let setup = Setup { count: 2, most: 2, capacity: 2, queue: kind, order, longest_wait };
        who_leaves_leaves_nothing_behind(setup, then, at_once);
    }
}

fn submit(queue: &dyn Queue<usize>, job: usize, class: Class) -> bool {
    let taken_in = queue.push(job, class).is_ok();
    queue.wake(usize::from(taken_in));
    taken_in
}

/// Whatever is taken in is done, without anything else having to happen.
fn nothing_is_slept_through(setup: Setup) {
    let model = move || {
        let queue: Arc<dyn Queue<usize>> = queue(&setup).into();
        let (done, seen) = mpsc::channel();
        let workers: Vec<_> = (0..setup.count)
            .map(|worker| {
                let (queue, done) = (queue.clone(), done.clone());
                let crew = Crew::new(setup.count);
                crew.want(setup.count);
                thread::spawn(move || {
                    while let Some(job) = queue.next(worker, &crew) {
                        done.send(job).unwrap();
                    }
                })
            })
            .collect();
        let givers: Vec<_> = (0..2)
            .map(|giver| {
                let queue = queue.clone();
                thread::spawn(move || {
                    let class = if giver == 0 { Class::High } else { Class::Low };
                    (0..2)
                        .map(|n| giver * 2 + n)
                        .filter(|job| submit(&*queue, *job, class))
                        .collect::<Vec<usize>>()
                })
            })
            .collect();
        let mut taken_in: Vec<usize> = givers.into_iter().flat_map(|giver| giver.join().unwrap()).collect();
        // Before the queue is closed, as that wakes everybody: a worker that slept through a job would leave this
        // waiting for it, which the checker reports as a deadlock.
        let mut seen: Vec<usize> = taken_in.iter().map(|_| seen.recv().unwrap()).collect();
        queue.close();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        taken_in.sort_unstable();
        seen.sort_unstable();
        assert_eq!((seen, queue.len()), (taken_in, 0));
    };
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

/// Two jobs that wait for each other are done by two workers: the second does not wait for the first one's worker.
fn work_is_shared(setup: Setup) {
    let model = move || {
        let queue: Arc<dyn Queue<usize>> = queue(&setup).into();
        let meeting = Arc::new(Barrier::new(2));
        let (done, seen) = mpsc::channel();
        let workers: Vec<_> = (0..setup.count)
            .map(|worker| {
                let (queue, meeting, done) = (queue.clone(), meeting.clone(), done.clone());
                let crew = Crew::new(setup.count);
                crew.want(setup.count);
                thread::spawn(move || {
                    while let Some(job) = queue.next(worker, &crew) {
                        meeting.wait();
                        done.send(job).unwrap();
                    }
                })
            })
            .collect();
        // Both before anybody is woken, as a reactor does it.
        (0..2).for_each(|job| queue.push(job, Class::Normal).unwrap());
        queue.wake(2);
        (0..2).for_each(|_| _ = seen.recv().unwrap());
        queue.close();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    };
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

/// The life of a worker of a crew whose size changes, as [`Shift::run`] has it.
fn live(queue: &dyn Queue<usize>, crew: &Crew, worker: usize, done: &mpsc::Sender<usize>) {
    loop {
        match queue.next(worker, crew) {
            Some(job) => done.send(job).unwrap(),
            None if crew.leaves(worker) => return,
            None => {}
        }
    }
}

/// Whatever is taken in is done while workers leave and come back, by those that are there then. They are roused for that
/// `at_once`, or late: one that is to leave is then woken for a job, and has to pass it on.
fn who_leaves_leaves_nothing_behind(setup: Setup, then: &'static [usize], at_once: bool) {
    let model = move || {
        let queue: Arc<dyn Queue<usize>> = queue(&setup).into();
        let crew = Arc::new(Crew::new(setup.most));
        let (done, seen) = mpsc::channel();
        let hire = {
            let (queue, crew) = (queue.clone(), crew.clone());
            move |place: usize| {
                let (queue, crew, done) = (queue.clone(), crew.clone(), done.clone());
                thread::spawn(move || live(&*queue, &crew, place, &done))
            }
        };
        let mut workers: Vec<_> = crew.want(setup.count).into_iter().map(&hire).collect();
        let resizing = {
            let (queue, crew) = (queue.clone(), crew.clone());
            thread::spawn(move || {
                let mut hired = Vec::new();
                for wanted in then {
                    // As `Workers::resize` does it.
                    let places = crew.want(*wanted);
                    if at_once {
                        queue.rouse();
                    }
                    hired.extend(places.into_iter().map(&hire));
                }
                hired
            })
        };
        let giver = {
            let queue = queue.clone();
            thread::spawn(move || {
                (0..3).filter(|job| submit(&*queue, *job, Class::Normal)).collect::<Vec<usize>>()
            })
        };
        let taken_in = giver.join().unwrap();
        // Before the queue is closed, as above.
        let mut done: Vec<usize> = taken_in.iter().map(|_| seen.recv().unwrap()).collect();
        workers.extend(resizing.join().unwrap());
        crew.close();
        queue.close();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        done.sort_unstable();
        assert_eq!((done, queue.len()), (taken_in, 0));
    };
    shuttle::check_random(model.clone(), SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

#[test]
fn mutex_queue() {
    for order in Order::ALL {
        check(topology::Queue::Mutex, *order, None);
    }
    // Whoever waits has waited too long.
    for order in [Order::Lifo, Order::Adaptive] {
        check(topology::Queue::Mutex, order, Some(Duration::ZERO));
    }
}

#[test]
fn lock_free_queue() {
    check(topology::Queue::LockFree, Order::Fifo, None);
    check(topology::Queue::LockFree, Order::Priority, None);
}

#[test]
fn stealing_queue() {
    check(topology::Queue::Stealing, Order::Fifo, None);
}
