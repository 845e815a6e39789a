//! Following a load while it runs: what its threads have done so far, and what they report at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use engine::{Stop as Switch, clock};

use crate::error::Error;
use crate::host::Sample;
use crate::outcome::Host;
use crate::progress::{Live, Phase, Progress, Pulse, TICK, Window};
use crate::recorded::{Recorded, SecondPart};
use crate::steady::Rates;
use crate::thread::Part;
use crate::timeline::Timeline;

/// How often the latest second is looked for.
const SECOND: Duration = Duration::from_secs(1);

/// All that was seen of a load.
#[derive(Default)]
pub(crate) struct Seen {
    /// What all threads recorded.
    pub(crate) recorded: Recorded,
    /// How many threads there were, and the share of a core that the busiest of them used.
    pub(crate) threads: u32,
    pub(crate) busiest: f64,
    /// Processor time while measuring, of the threads of this load alone: there may be another one in the process.
    pub(crate) cpu: Duration,
    pub(crate) host: Host,
    pub(crate) timeline: Timeline,
    pub(crate) rates: Rates,
}

/// Follows a load while it runs.
pub(crate) struct Watch {
    pub(crate) schedule: Window,
    /// What each of its threads has done so far.
    pub(crate) live: Vec<Arc<Live>>,
    pub(crate) cancel: Switch,
    /// Processor time of an emulated link's thread so far, in nanoseconds.
    pub(crate) link: Option<Arc<AtomicU64>>,
}

impl Watch {
    /// Waits for the parts of all threads; what they, this one and the host did is that of the measuring phase.
    pub(crate) fn follow(
        self,
        reports: &Receiver<Result<Part, Error>>,
        seconds: &Receiver<SecondPart>,
        observer: &mut dyn FnMut(&Progress),
    ) -> Result<Seen, Error> {
        let (mut recorded, mut parts, mut busiest) = (Recorded::default(), 0, 0.0_f64);
        let (mut timeline, mut rates) = (Timeline::default(), Rates::default());
        let threads = self.live.len();
        let (mut latest, mut look) = (None, self.schedule.start);
        let (mut pulse, mut last_phase) = (Pulse::new(self.schedule.start), None);
        let used = || (self.used_here(), Sample::now());
        let mut cpu = Duration::ZERO;
        let (mut begin, mut end) = (used(), None);
        while parts < threads {
            let now = Instant::now();
            let phase = self.schedule.phase(now, &self.cancel);
            match phase {
                Phase::Measuring if last_phase != Some(phase) => begin = used(),
                Phase::Draining if last_phase != Some(phase) => end = Some(used()),
                _ => {}
            }
            let mut progress = self.progress(phase, now, &mut pulse);
            if now >= look {
                (latest, look) = (timeline.latest(threads), now + SECOND);
            }
            progress.latest.clone_from(&latest);
            rates.look(&progress);
            observer(&progress);
            last_phase = Some(phase);
            match reports.recv_timeout(self.next_look(now)) {
                Ok(part) => {
                    let part = part?;
                    recorded.add(&part.recorded);
                    cpu += part.cpu;
                    (parts, busiest) = (parts + 1, busiest.max(part.cpu_share));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Nothing("a thread of the load panicked; this is a defect".into()));
                }
            }
            seconds.try_iter().for_each(|part| timeline.add(part));
        }
        let end = end.unwrap_or_else(used);
        if last_phase != Some(Phase::Draining) {
            let now = Instant::now();
            observer(&self.progress(Phase::Draining, now, &mut pulse));
        }
        seconds.try_iter().for_each(|part| timeline.add(part));
        Ok(Seen {
            recorded,
            threads: threads as u32,
            busiest,
            cpu: cpu + end.0.saturating_sub(begin.0),
            host: end.1.since(&begin.1),
            timeline,
            rates,
        })
    }

    /// Processor time so far of what is the load's beside its threads: this one, which follows them, and that of a link.
    fn used_here(&self) -> Duration {
        let link = self.link.as_ref().map_or(0, |used| used.load(Ordering::Relaxed));
        clock::of_thread() + Duration::from_nanos(link)
    }

    /// Time to the next tick or change of phase, whichever comes first.
    fn next_look(&self, now: Instant) -> Duration {
        let changes = [Some(self.schedule.from), self.schedule.until];
        let next = changes.into_iter().flatten().filter(|at| *at > now).map(|at| at - now).min();
        next.map_or(TICK, |next| next.min(TICK))
    }

    fn progress(&self, phase: Phase, now: Instant, pulse: &mut Pulse) -> Progress {
        let sum = |get: fn(&Live) -> &AtomicU64| {
            self.live.iter().map(|live| get(live).load(Ordering::Relaxed)).sum()
        };
        let (requests, errors) = (sum(|live| &live.requests), sum(|live| &live.errors));
        Progress::new(&self.schedule, phase, now, (requests, errors), pulse.beat(now, requests))
    }
}
