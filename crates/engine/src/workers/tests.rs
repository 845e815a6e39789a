//! Every queue in every order that it can have: nothing lost, nothing twice, bounds kept.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use super::*;

const KINDS: [(topology::Queue, Order); 7] = [
    (topology::Queue::Mutex, Order::Fifo),
    (topology::Queue::Mutex, Order::Priority),
    (topology::Queue::Mutex, Order::Lifo),
    (topology::Queue::Mutex, Order::Adaptive),
    (topology::Queue::LockFree, Order::Fifo),
    (topology::Queue::LockFree, Order::Priority),
    (topology::Queue::Stealing, Order::Fifo),
];

fn setup((queue, order): (topology::Queue, Order), count: usize, capacity: usize) -> Setup {
    Setup { count, most: count, capacity, queue, order, longest_wait: None }
}

/// One worker that waits at its first job until it is told to go on, so that what is submitted meanwhile lines up.
fn line_up(setup: &Setup, jobs: &[(u32, Class)]) -> Vec<u32> {
    let (go, wait) = mpsc::channel::<()>();
    let (done, seen) = mpsc::channel();
    let wait = Arc::new(Mutex::new(wait));
    let workers = Workers::start("w", setup, move |_, job: u32| {
        if job == u32::MAX {
            wait.lock().unwrap().recv_timeout(Duration::from_secs(10)).unwrap();
        } else {
            done.send(job).unwrap();
        }
        true
    })
    .unwrap();
    workers.submit(u32::MAX, Class::High).unwrap();
    while workers.waiting() > 0 {
        thread::yield_now();
    }
    jobs.iter().for_each(|(job, class)| workers.submit(*job, *class).unwrap());
    go.send(()).unwrap();
    workers.close();
    workers.join();
    seen.try_iter().collect()
}

#[test]
fn work_leaves_in_the_order_that_was_asked_for() {
    let jobs: Vec<(u32, Class)> = (0..100).map(|job| (job, Class::Normal)).collect();
    for kind in KINDS {
        let seen = line_up(&setup(kind, 1, 200), &jobs);
        let expected: Vec<u32> =
            if kind.1 == Order::Lifo { (0..100).rev().collect() } else { (0..100).collect() };
        assert_eq!(seen, expected, "{kind:?}");
    }
}

#[test]
fn urgent_work_overtakes_and_the_rest_still_moves() {
    let pages = (0..100).map(|job| (job, Class::Normal));
    let downloads = (100..110).map(|job| (job, Class::Low));
    let checks = (200..300).map(|job| (job, Class::High));
    let jobs: Vec<_> = pages.chain(downloads).chain(checks).collect();
    for kind in KINDS.iter().filter(|(_, order)| *order == Order::Priority) {
        let seen = line_up(&setup(*kind, 1, 300), &jobs);
        assert_eq!(seen.len(), 210, "{kind:?}");
        assert_eq!(seen[0], 200, "{kind:?}: a check came last and goes first");
        // The checks are most of what is done first, though the pages do not stand still, nor the downloads.
        let first = &seen[..100];
        let count = |range: std::ops::Range<u32>| first.iter().filter(|job| range.contains(job)).count();
        assert!(count(200..300) >= 80, "{kind:?} {first:?}");
        assert!(count(0..100) >= 4 && count(100..110) >= 4, "{kind:?} {first:?}");
    }
}

/// One worker that is busy with a first job, and takes up the next each time it is told to go on.
fn busy(setup: &Setup) -> (Workers<u32>, mpsc::Sender<()>) {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let workers = Workers::start("w", setup, move |_, _: u32| {
        let _ = wait.lock().unwrap().recv_timeout(Duration::from_secs(10));
        true
    })
    .unwrap();
    workers.submit(0, Class::Normal).unwrap();
    while workers.waiting() > 0 {
        thread::yield_now();
    }
    (workers, go)
}

#[test]
fn a_full_queue_gives_the_job_back_and_a_closed_one_too() {
    for kind in KINDS {
        // The first job is with the worker; then two can wait, and a third cannot.
        let (workers, go) = busy(&setup(kind, 1, 2));
        let submit = |job| workers.submit(job, Class::Normal);
        assert_eq!((submit(1), submit(2), submit(3)), (Ok(()), Ok(()), Err(3)), "{kind:?}");
        assert!(workers.is_behind());
        assert_eq!(workers.counters().refused.load(Ordering::Relaxed), 1);
        (0..3).for_each(|_| go.send(()).unwrap());
        workers.close();
        assert_eq!(workers.submit(4, Class::Normal), Err(4));
        workers.join();
        let counters = workers.counters();
        assert_eq!((counters.done(), counters.wait().count()), (3, 3), "{kind:?}");
    }
}

#[test]
fn what_is_urgent_finds_room_where_others_fill_the_queue_and_has_a_bound_too() {
    for kind in KINDS {
        let (workers, go) = busy(&setup(kind, 1, 32));
        let submit = |class| (0..100).filter(|job| workers.submit(*job, class).is_ok()).count();
        assert_eq!((submit(Class::Normal), submit(Class::Low)), (32, 0), "{kind:?}");
        assert_eq!((submit(Class::High), submit(Class::Normal)), (8, 0), "{kind:?}");
        (0..41).for_each(|_| go.send(()).unwrap());
        workers.close();
        workers.join();
        assert_eq!(workers.counters().done(), 41, "{kind:?}");
    }
}

#[test]
fn many_submit_to_many_and_each_job_is_done_once() {
    for kind in KINDS {
        let (done, seen) = mpsc::channel();
        let workers =
            Workers::start("w", &setup(kind, 5, 16), move |_, job: u32| done.send(job).is_ok()).unwrap();
        thread::scope(|scope| {
            for from in 0..4 {
                let workers = workers.clone();
                scope.spawn(move || {
                    for job in from * 1000..(from + 1) * 1000 {
                        // Pauses now and then, so that workers go to sleep and have to be woken.
                        if job % 100 == 0 {
                            thread::sleep(Duration::from_millis(1));
                        }
                        while workers.submit(job, Class::Normal).is_err() {
                            thread::yield_now();
                        }
                    }
                });
            }
        });
        workers.close();
        workers.join();
        let mut all: Vec<_> = seen.try_iter().collect();
        all.sort_unstable();
        assert_eq!(all, (0..4000).collect::<Vec<_>>(), "{kind:?}");
    }
}

#[test]
fn every_worker_takes_part() {
    for kind in KINDS {
        let (done, seen) = mpsc::channel();
        let workers = Workers::start("w", &setup(kind, 8, 64), move |turn, _: u32| {
            thread::sleep(Duration::from_millis(2));
            done.send(turn.worker).is_ok()
        })
        .unwrap();
        for job in 0..400 {
            while workers.submit(job, Class::Normal).is_err() {
                thread::yield_now();
            }
        }
        workers.close();
        workers.join();
        let mut who: Vec<_> = seen.try_iter().collect();
        who.sort_unstable();
        who.dedup();
        assert_eq!(who, (0..8).collect::<Vec<_>>(), "{kind:?}");
    }
}

#[test]
fn what_lies_in_the_queue_is_small() {
    assert!(size_of::<Waiting<Arc<()>>>() <= 96);
}

#[test]
fn a_pool_grows_and_shrinks_and_loses_nothing() {
    for kind in [topology::Queue::Mutex, topology::Queue::LockFree] {
        let (done, seen) = mpsc::channel();
        let setup = Setup { most: 16, ..setup((kind, Order::Fifo), 1, 256) };
        let workers = Workers::start("w", &setup, move |turn, job: u32| {
            thread::sleep(Duration::from_millis(1));
            done.send((turn.worker, job)).is_ok()
        })
        .unwrap();
        let mut jobs = 0..2000;
        for size in [1, 16, 3, 1, 8, 16, 2].into_iter().cycle() {
            workers.resize(size).unwrap();
            assert_eq!(workers.size(), size);
            let batch: Vec<u32> = jobs.by_ref().take(50).collect();
            for job in &batch {
                while workers.submit(*job, Class::Normal).is_err() {
                    thread::yield_now();
                }
            }
            if batch.is_empty() {
                break;
            }
        }
        workers.close();
        workers.join();
        let mut all: Vec<(usize, u32)> = seen.try_iter().collect();
        assert!(all.iter().any(|(worker, _)| *worker > 8), "{kind:?}: nobody was added");
        all.sort_unstable_by_key(|(_, job)| *job);
        assert!(all.iter().map(|(_, job)| *job).eq(0..2000), "{kind:?}");
    }
}

#[test]
fn where_not_all_can_be_started_those_that_were_stay() {
    for kind in [topology::Queue::Mutex, topology::Queue::LockFree] {
        let setup = Setup { most: 8, ..setup((kind, Order::Fifo), 1, 256) };
        let workers = Workers::start("w", &setup, |_, _: u32| true).unwrap();
        let hire = lock(&workers.staff.hire).take().unwrap();
        let few = move |place| if place < 3 { hire(place) } else { Err(io::Error::other("no more threads")) };
        *lock(&workers.staff.hire) = Some(Box::new(few));
        assert!(workers.resize(8).is_err());
        assert_eq!(workers.size(), 3, "{kind:?}");
        // They run, and the places of the others are free.
        wait_for_idle(&workers, 3);
        workers.resize(3).unwrap();
        assert!(workers.resize(4).is_err());
        assert_eq!(workers.size(), 3, "{kind:?}");
        workers.close();
        workers.join();
    }
}

/// Waits until so many workers have nothing to do, and no more are there.
#[track_caller]
fn wait_for_idle(workers: &Workers<u32>, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while workers.idle() != count {
        assert!(Instant::now() < deadline, "{} wait", workers.idle());
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn workers_that_are_not_wanted_end_though_there_is_nothing_to_do() {
    for kind in [topology::Queue::Mutex, topology::Queue::LockFree] {
        let setup = Setup { most: 8, ..setup((kind, Order::Fifo), 8, 16) };
        let workers = Workers::start("w", &setup, |_, _: u32| true).unwrap();
        workers.resize(1).unwrap();
        wait_for_idle(&workers, 1);
        // Whoever is left does what comes.
        (0..100).for_each(|job| while workers.submit(job, Class::Normal).is_err() {});
        workers.close();
        workers.join();
        assert_eq!(workers.counters().done(), 100, "{kind:?}");
    }
}
