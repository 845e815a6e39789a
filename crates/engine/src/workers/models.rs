//! The queues under a model checker: whatever the order in which threads run, no job is lost and nobody sleeps on.

use shuttle::sync::{Barrier, mpsc};
use shuttle::thread;

use super::*;

/// Random schedules for each queue. Each is another order in which the threads run.
const SCHEDULES: usize = 3000;

fn check(kind: topology::Queue, order: Order) {
    for count in [1, 2] {
        nothing_is_slept_through(Setup { count, most: count, capacity: 2, queue: kind, order });
    }
    work_is_shared(Setup { count: 2, most: 2, capacity: 2, queue: kind, order });
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

#[test]
fn mutex_queue() {
    for order in Order::ALL {
        check(topology::Queue::Mutex, *order);
    }
}

#[test]
fn lock_free_queue() {
    check(topology::Queue::LockFree, Order::Fifo);
    check(topology::Queue::LockFree, Order::Priority);
}

#[test]
fn stealing_queue() {
    check(topology::Queue::Stealing, Order::Fifo);
}
