//! Between two probes of a search: waiting until the server has done with what the last one left behind.

use std::time::Duration;

use super::{Means, News};
use crate::error::Error;
use crate::outcome::Outcome;
use crate::plan::{Arrivals, LEAST_TIMEOUT_S, Plan, Stop};
use crate::report::duration;
use crate::verdict::failed;

/// Longest wait for a server to drain, in what it takes to ask and the pauses between.
const LONGEST: Duration = Duration::from_secs(30);

/// Time between two requests that ask whether it has.
const PAUSE: Duration = Duration::from_millis(100);

/// Requests to an idle server, the quickest of which counts: the first may find nothing in a cache.
const IDLE: u32 = 3;

/// How much longer than that of an idle server an answer may take: so many times, and as much more as a busy host delays it.
const TIMES: u32 = 2;
const SLACK: Duration = Duration::from_millis(2);

/// Knows how quick a server is when it is idle.
pub(super) struct Drain {
    /// The load, as a single request.
    single: Plan,
    /// How long that takes on an idle server; `None` where it does not answer properly even then, so that nothing can be awaited.
    idle: Option<Duration>,
}

impl Drain {
    /// Asks a server that is idle yet.
    ///
    /// # Errors
    /// The request cannot be made at all.
    pub(super) fn of_idle(plan: &Plan, means: &mut dyn Means) -> Result<Self, Error> {
        let single = Plan {
            connections: 1,
            threads: 1,
            processes: 1,
            pipeline: 1,
            arrivals: Arrivals::default(),
            stop: Stop::Requests(1),
            warmup_s: 0.0,
            ..plan.clone()
        };
        let mut idle = None;
        for _ in 0..IDLE {
            let Some(took) = proper(&means.ask(&single)?) else { break };
            idle = Some(idle.map_or(took, |idle| took.min(idle)));
        }
        Ok(Drain { single, idle })
    }

    /// Waits until the server is about as quick as it was; why it is not, where that takes too long.
    ///
    /// # Errors
    /// The request cannot be made at all, or waiting was cancelled.
    pub(super) fn wait(
        &self,
        means: &mut dyn Means,
        news: &mut dyn FnMut(News<'_>),
    ) -> Result<Option<String>, Error> {
        let Some(idle) = self.idle else { return Ok(None) };
        let mut waited = Duration::ZERO;
        loop {
            let timeout_s = self.single.timeout_s.min((LONGEST - waited).as_secs_f64()).max(LEAST_TIMEOUT_S);
            let answer = means.ask(&Plan { timeout_s, ..self.single.clone() })?;
            let took = proper(&answer);
            if took.is_some_and(|took| took <= idle * TIMES + SLACK) {
                return Ok(None);
            }
            waited += longest(&answer) + PAUSE;
            if waited >= LONGEST {
                return Ok(Some(undrained(idle, took)));
            }
            news(News::Draining(waited));
            means.pause(PAUSE)?;
        }
    }
}

/// How long a single request took that was answered properly: being turned away is quick as well.
fn proper(outcome: &Outcome) -> Option<Duration> {
    let is_answered = outcome.answered() + outcome.drained > 0 && failed(outcome) == 0;
    is_answered.then(|| Duration::from_micros(outcome.response_time_us.max))
}

/// How long a single request took, whatever became of it.
fn longest(outcome: &Outcome) -> Duration {
    Duration::from_micros(outcome.response_time_us.max.max(outcome.failed_us.max))
}

/// What is said of a server that does not drain.
fn undrained(idle: Duration, took: Option<Duration>) -> String {
    let time = |time: Duration| duration(time.as_secs_f64() * 1e6);
    let now = took.map_or("had no proper answer".into(), |took| format!("took {}", time(took)));
    format!(
        "suspect: the server had not drained {} after the probe before, a single request {now} and takes {} when it is idle",
        time(LONGEST),
        time(idle)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Progress;

    /// Answers single requests as a script says, on a clock of its own: how long, and with which status.
    struct Script {
        answers: Vec<(u64, u16)>,
        asked: usize,
        clock: Duration,
    }

    impl Means for Script {
        fn load(&mut self, _: &Plan, _: &mut dyn FnMut(&Progress)) -> Result<Outcome, Error> {
            panic!("no load was asked for");
        }

        fn ask(&mut self, plan: &Plan) -> Result<Outcome, Error> {
            assert_eq!((plan.connections, plan.stop, plan.warmup_s), (1, Stop::Requests(1), 0.0));
            plan.validate()?;
            let (us, status) = self.answers[self.asked.min(self.answers.len() - 1)];
            self.asked += 1;
            self.clock += Duration::from_micros(us);
            let mut outcome = Outcome { requests: 1, ..Outcome::empty(plan) };
            outcome.response_time_us.max = us;
            outcome.statuses.insert(status, 1);
            Ok(outcome)
        }

        fn pause(&mut self, time: Duration) -> Result<(), Error> {
            self.clock += time;
            Ok(())
        }
    }

    /// What is said after waiting on these answers, how many were asked for in all, and the time that passed.
    fn waited(answers: &[(u64, u16)]) -> (Option<String>, usize, Duration) {
        let mut script = Script { answers: answers.into(), asked: 0, clock: Duration::ZERO };
        let plan = Plan { connections: 500, warmup_s: 2.0, ..Plan::new("http://x/") };
        let drain = Drain::of_idle(&plan, &mut script).unwrap();
        let said = drain.wait(&mut script, &mut |_| ()).unwrap();
        (said, script.asked, script.clock)
    }

    const IDLE_US: [(u64, u16); 3] = [(9_000, 200), (1_000, 200), (1_500, 200)];

    #[test]
    fn it_is_asked_until_an_answer_is_as_quick_as_that_of_an_idle_server() {
        let then = |answers: &[(u64, u16)]| waited(&[&IDLE_US[..], answers].concat());
        // Twice the quickest and 2 ms more.
        assert_eq!(then(&[(4_000, 200)]).1, 4);
        assert_eq!(then(&[(4_001, 200), (2_000_000, 200), (1_000, 200)]).1, 6);
        let (said, _, clock) = then(&[(2_000_000, 200), (1_000, 200)]);
        assert_eq!((said, clock), (None, Duration::from_micros(11_500 + 2_000_000 + 100_000 + 1_000)));
    }

    #[test]
    fn the_last_of_the_wait_may_be_shorter_than_any_time_out() {
        // 299 of these and the pauses between take 29.9996 s.
        let (said, asked, _) = waited(&[&IDLE_US[..], &[(333, 503)]].concat());
        assert!(said.is_some() && asked == 3 + 300, "{said:?} {asked}");
    }

    #[test]
    fn being_turned_away_at_once_is_not_being_drained() {
        let (said, asked, _) = waited(&[&IDLE_US[..], &[(100, 503), (100, 503), (1_000, 200)]].concat());
        assert_eq!((said, asked), (None, 6));
    }

    #[test]
    fn waiting_ends_at_its_bound_and_says_so() {
        let (said, _, clock) = waited(&[&IDLE_US[..], &[(1_000_000, 200)]].concat());
        let why = said.unwrap();
        assert!(why.starts_with("suspect: the server had not drained 30.0"), "{why}");
        assert!(why.contains("a single request took 1.00 s and takes 1.00 ms when it is idle"), "{why}");
        assert!(clock >= LONGEST - PAUSE && clock <= LONGEST + Duration::from_secs(2), "{clock:?}");
        let (said, ..) = waited(&[&IDLE_US[..], &[(0, 503)]].concat());
        assert!(said.unwrap().contains("a single request had no proper answer"));
    }

    #[test]
    fn a_server_that_never_answers_properly_is_not_waited_for() {
        assert_eq!(waited(&[(1_000, 404)]), (None, 1, Duration::from_micros(1_000)));
    }
}
