//! The model itself: what happens next, and what follows from it.

mod workers;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::agenda::Agenda;
use super::control::Controller;
use super::fleet::{Pool, Reactor, Request, Step, Thread, place};
use super::host::Processors;
use super::outcome::{Outcome, Sums, outcome};
use super::workload::{Load, US, choose, exponential};
use super::{Costs, Setup};

/// What is due at a moment.
enum Event {
    /// A connection sends a request.
    Send(usize),
    /// A request comes from outside.
    Arrive,
    /// A thread wakes up.
    Wake(usize),
    /// Measuring begins.
    Begin,
    /// The controller looks.
    Tick,
}

/// Processor time of each step, in seconds.
struct Prices {
    receive: f64,
    answer: f64,
    take: f64,
    lock: f64,
}

impl Prices {
    fn of(setup: &Setup) -> Self {
        let Costs { reactor_us, handoff_us, lock_us } = setup.costs;
        if setup.topology.pools() == 0 {
            return Prices { receive: reactor_us * US, answer: 0.0, take: 0.0, lock: 0.0 };
        }
        // A hand-off is half the reactor's, which has half of that each way, and half the worker's.
        let each = (reactor_us / 2.0 + handoff_us / 4.0) * US;
        Prices { receive: each, answer: each, take: handoff_us / 2.0 * US, lock: lock_us * US }
    }
}

/// A server, its host and its load.
pub(super) struct Server<'a> {
    setup: &'a Setup,
    prices: Prices,
    control: Option<(f64, &'a mut Controller<'a>)>,
    dice: ChaCha8Rng,
    now: f64,
    agenda: Agenda<Event>,
    processors: Processors,
    threads: Vec<Thread>,
    reactors: Vec<Reactor>,
    pools: Vec<Pool>,
    requests: Vec<Request>,
    free: Vec<usize>,
    /// The reactor of each connection.
    connections: Vec<usize>,
    /// Requests that came.
    arrivals: u64,
    rejected: u64,
    /// When the load is done with what it has to send.
    client_free: f64,
    /// Seconds in which requests have come, of a load that stops and goes.
    came_s: f64,
    /// How many workers have something to do, how many there are, how many requests wait for one.
    busy_workers: usize,
    workers: usize,
    waiting: usize,
    sums: Sums,
    /// The sums when measuring began, and at the controller's last look.
    begun: Option<Sums>,
    looked: Sums,
    /// Response times since measuring began, in microseconds.
    times: Vec<f32>,
}

impl<'a> Server<'a> {
    pub(super) fn new(setup: &'a Setup, control: Option<(f64, &'a mut Controller<'a>)>) -> Self {
        let topology = &setup.topology;
        let idle = |home| Thread { home, request: 0, step: Step::Receive };
        let sums = Sums { each_reactor_s: vec![0.0; topology.reactors], ..Sums::default() };
        let mut server = Server {
            prices: Prices::of(setup),
            setup,
            control,
            dice: ChaCha8Rng::seed_from_u64(setup.seed),
            now: 0.0,
            agenda: Agenda::new(),
            processors: Processors::new(setup.usable()),
            threads: (0..topology.reactors).map(idle).collect(),
            reactors: (0..topology.reactors).map(|_| Reactor::default()).collect(),
            pools: (0..topology.pools()).map(|_| Pool::default()).collect(),
            requests: Vec::new(),
            free: Vec::new(),
            connections: Vec::new(),
            arrivals: 0,
            rejected: 0,
            client_free: 0.0,
            came_s: 0.0,
            busy_workers: 0,
            workers: 0,
            waiting: 0,
            looked: sums.clone(),
            sums,
            begun: None,
            times: Vec::new(),
        };
        (0..server.pools.len()).for_each(|pool| server.resize(pool, topology.workers));
        server.begin();
        server
    }

    /// What happens at the start.
    fn begin(&mut self) {
        self.agenda.add(self.setup.warmup_s, Event::Begin);
        if let Some((tick, _)) = self.control {
            self.agenda.add(tick, Event::Tick);
        }
        match self.setup.load {
            Load::Closed { connections, .. } => {
                for connection in 0..connections {
                    let reactor = place(&self.setup.topology, &self.reactors, connection, &mut self.dice);
                    self.reactors[reactor].connections += 1;
                    self.connections.push(reactor);
                    self.send_again(connection);
                }
            }
            Load::Open { .. } => self.arrive_again(),
        }
    }

    pub(super) fn run(mut self) -> Outcome {
        let end = self.setup.warmup_s + self.setup.seconds;
        loop {
            let running = self.processors.next().map_or(f64::INFINITY, |after| self.now + after);
            let due = self.agenda.next().unwrap_or(f64::INFINITY);
            let at = running.min(due);
            if at > end {
                break;
            }
            self.pass(at);
            if running < due {
                let done = self.processors.take();
                done.into_iter().for_each(|thread| self.go_on(thread));
            } else if let Some((_, event)) = self.agenda.take() {
                self.happen(event);
            }
        }
        self.pass(end);
        self.note_reactors();
        let begun = self.begun.take().unwrap_or_else(|| self.sums.clone());
        Outcome {
            arrivals: self.arrivals,
            done: self.sums.done,
            rejected: self.rejected,
            in_system: (self.requests.len() - self.free.len()) as u64,
            ..outcome(&begun, &self.sums, self.setup.seconds, self.setup.usable(), self.times)
        }
    }

    /// Time passes until a moment.
    fn pass(&mut self, at: f64) {
        let seconds = (at - self.now).max(0.0);
        self.now = at;
        self.processors.advance(seconds);
        self.sums.cores_s = self.processors.used_s();
        self.sums.busy_s += seconds * self.busy_workers as f64;
        self.sums.workers_s += seconds * self.workers as f64;
        self.sums.waiting_s += seconds * self.waiting as f64;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Send(connection) => self.receive(self.connections[connection], Some(connection)),
            Event::Arrive => {
                let turn = self.arrivals as usize;
                let reactor = place(&self.setup.topology, &self.reactors, turn, &mut self.dice);
                self.reactors[reactor].connections += 1;
                self.receive(reactor, None);
                self.arrive_again();
            }
            Event::Wake(thread) => self.go_on(thread),
            Event::Begin => {
                self.note_reactors();
                self.begun = Some(self.sums.clone());
            }
            Event::Tick => self.look(),
        }
    }

    /// The next request of a connection, after it has thought and the load has come to it.
    fn send_again(&mut self, connection: usize) {
        let Load::Closed { think_us, client_us, .. } = self.setup.load else { return };
        let mut at = self.now + exponential(think_us * US, &mut self.dice);
        if client_us > 0.0 {
            self.client_free = self.client_free.max(at) + client_us * US;
            at = self.client_free;
        }
        self.agenda.add(at, Event::Send(connection));
    }

    fn arrive_again(&mut self) {
        let Load::Open { rate, burst } = self.setup.load else { return };
        self.came_s += exponential(1.0 / rate, &mut self.dice);
        let at = burst.map_or(self.came_s, |burst| burst.moment(self.came_s));
        self.agenda.add(at, Event::Arrive);
    }

    fn receive(&mut self, reactor: usize, connection: Option<usize>) {
        self.arrivals += 1;
        let (sleep, spin) = choose(self.setup.mix_at(self.now), &mut self.dice).draw(&mut self.dice);
        let request = Request { born: self.now, connection, reactor, sleep, spin, rejected: false };
        let number = match self.free.pop() {
            Some(number) => {
                self.requests[number] = request;
                number
            }
            None => {
                self.requests.push(request);
                self.requests.len() - 1
            }
        };
        self.mail(reactor, number, Step::Receive);
    }

    /// Gives a reactor something to do.
    fn mail(&mut self, reactor: usize, request: usize, step: Step) {
        self.reactors[reactor].mail.push_back((request, step));
        if self.reactors[reactor].busy_since.is_none() {
            self.reactors[reactor].busy_since = Some(self.now);
            let next = self.next_of_reactor(reactor);
            self.run_from(reactor, next);
        }
    }

    fn next_of_reactor(&mut self, reactor: usize) -> Option<Step> {
        if let Some((request, step)) = self.reactors[reactor].mail.pop_front() {
            self.threads[reactor].request = request;
            return Some(step);
        }
        let since = self.reactors[reactor].busy_since.take().unwrap_or(self.now);
        self.sums.each_reactor_s[reactor] += self.now - since;
        None
    }

    /// A thread is done with its step.
    fn go_on(&mut self, thread: usize) {
        let next = self.after(thread);
        self.run_from(thread, next);
    }

    /// Takes steps until one takes time.
    fn run_from(&mut self, thread: usize, mut next: Option<Step>) {
        while let Some(step) = next {
            self.threads[thread].step = step;
            if self.takes_time(thread, step) {
                return;
            }
            next = self.after(thread);
        }
    }

    /// Begins a step; whether it takes time.
    fn takes_time(&mut self, thread: usize, step: Step) -> bool {
        let Thread { home, request, .. } = self.threads[thread];
        let Request { sleep, spin, .. } = self.requests[request];
        let work = match step {
            Step::Receive => self.prices.receive,
            Step::Answer => self.prices.answer,
            Step::Take => self.prices.take,
            Step::Spin => spin,
            Step::Lock => {
                let pool = &mut self.pools[home];
                if std::mem::replace(&mut pool.locked, true) {
                    pool.at_lock.push_back(thread);
                    return true;
                }
                self.prices.lock
            }
            Step::Sleep => {
                if sleep > 0.0 {
                    self.agenda.add(self.now + sleep, Event::Wake(thread));
                }
                return sleep > 0.0;
            }
        };
        if work > 0.0 {
            self.processors.run(thread, work);
        }
        work > 0.0
    }

    /// What follows from the end of a thread's step, and the thread's next one.
    fn after(&mut self, thread: usize) -> Option<Step> {
        let Thread { home, request, step } = self.threads[thread];
        let is_reactor = thread < self.reactors.len();
        match step {
            Step::Receive if self.pools.is_empty() => Some(Step::Sleep),
            Step::Receive => match self.hand_over(home, request) {
                true => self.next_of_reactor(home),
                false => Some(Step::Answer),
            },
            Step::Lock => {
                match self.pools[home].at_lock.pop_front() {
                    Some(next) => self.processors.run(next, self.prices.lock),
                    None => self.pools[home].locked = false,
                }
                Some(Step::Take)
            }
            Step::Take => Some(Step::Sleep),
            Step::Sleep => Some(Step::Spin),
            Step::Spin if !is_reactor => {
                self.sums.worked += 1;
                self.mail(self.requests[request].reactor, request, Step::Answer);
                self.next_of_worker(thread)
            }
            Step::Spin | Step::Answer => {
                self.finish(request);
                self.next_of_reactor(home)
            }
        }
    }

    fn finish(&mut self, number: usize) {
        let Request { born, connection, reactor, rejected, .. } = self.requests[number];
        self.free.push(number);
        match rejected {
            true => self.rejected += 1,
            false => {
                self.sums.done += 1;
                if self.begun.is_some() {
                    self.times.push(((self.now - born) / US) as f32);
                }
            }
        }
        match connection {
            Some(connection) => self.send_again(connection),
            None => self.reactors[reactor].connections -= 1,
        }
    }

    /// Counts the time of reactors that are at something.
    fn note_reactors(&mut self) {
        for (reactor, sum) in self.reactors.iter_mut().zip(&mut self.sums.each_reactor_s) {
            if let Some(since) = &mut reactor.busy_since {
                *sum += self.now - std::mem::replace(since, self.now);
            }
        }
    }
}
