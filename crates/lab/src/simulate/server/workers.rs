//! Workers of the model: what they are given, and how many there are.

use engine::topology::Pool as Owner;

use super::{Event, Server};
use crate::simulate::MOST_THREADS;
use crate::simulate::control::Observation;
use crate::simulate::fleet::{Step, Thread};

impl Server<'_> {
    /// Gives a request to the workers; whether there was room for it.
    pub(super) fn hand_over(&mut self, reactor: usize, request: usize) -> bool {
        let home = if self.setup.topology.pool == Owner::PerReactor { reactor } else { 0 };
        let pool = &mut self.pools[home];
        if pool.idle.is_empty() && pool.waiting.len() >= self.setup.topology.queue_capacity {
            self.requests[request].rejected = true;
            return false;
        }
        pool.waiting.push_back(request);
        self.waiting += 1;
        self.wake(home);
        true
    }

    /// Lets an idle worker take what waits.
    fn wake(&mut self, home: usize) {
        if let Some(worker) = self.pools[home].idle.pop() {
            self.busy_workers += 1;
            let next = self.next_of_worker(worker);
            self.run_from(worker, next);
        }
    }

    pub(super) fn next_of_worker(&mut self, worker: usize) -> Option<Step> {
        let pool = &mut self.pools[self.threads[worker].home];
        if pool.workers > pool.wanted {
            pool.workers -= 1;
            self.workers -= 1;
            pool.ended.push(worker);
        } else if let Some(request) = pool.pop(self.setup.topology.order) {
            self.waiting -= 1;
            self.threads[worker].request = request;
            return Some(if self.prices.lock > 0.0 { Step::Lock } else { Step::Take });
        } else {
            pool.idle.push(worker);
        }
        self.busy_workers -= 1;
        None
    }

    /// The controller looks and decides.
    pub(super) fn look(&mut self) {
        let waiting = self.waiting;
        // As in the server: who is to leave does not count any more, however long it takes to finish.
        let workers: usize = self.pools.iter().map(|pool| pool.wanted).sum();
        let Some((seconds, controller)) = &mut self.control else { return };
        let seen = Observation {
            seconds: *seconds,
            workers,
            busy: ((self.sums.busy_s - self.looked.busy_s) / *seconds).min(workers as f64),
            waiting,
            done: self.sums.worked - self.looked.worked,
            cores_busy: (self.sums.cores_s - self.looked.cores_s) / *seconds / self.setup.usable(),
        };
        let wanted = controller(&seen).min(MOST_THREADS);
        self.agenda.add(self.now + *seconds, Event::Tick);
        self.looked = self.sums.clone();
        let each = wanted.div_ceil(self.pools.len()).max(1);
        (0..self.pools.len()).for_each(|pool| self.resize(pool, each));
    }

    /// Starts workers, or ends those that are idle; who is busy ends when it is done.
    pub(super) fn resize(&mut self, home: usize, wanted: usize) {
        self.pools[home].wanted = wanted;
        while self.pools[home].workers > wanted
            && let Some(worker) = self.pools[home].idle.pop()
        {
            self.pools[home].ended.push(worker);
            self.pools[home].workers -= 1;
            self.workers -= 1;
        }
        while self.pools[home].workers < wanted {
            let worker = self.pools[home].ended.pop().unwrap_or_else(|| {
                self.threads.push(Thread { home, request: 0, step: Step::Take });
                self.threads.len() - 1
            });
            self.pools[home].idle.push(worker);
            self.pools[home].workers += 1;
            self.workers += 1;
            if !self.pools[home].waiting.is_empty() {
                self.wake(home);
            }
        }
    }
}
