//! Running a load: threads with an executor each, a clock, and somebody to watch.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use engine::Stop as Switch;
use engine::driver::epoll::Epoll;
use engine::driver::uring::Uring;

use crate::common::Common;
use crate::error::Error;
use crate::left::Left;
use crate::link::Emulated;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::progress::{Live, Progress, Window};
use crate::sum::outcome;
use crate::thread::Worker;
use crate::watch::{Seen, Watch};

/// Runs a load to its end.
///
/// # Errors
/// The plan cannot be used, the host has no address, or the kernel refuses what the load needs. What goes
/// wrong with single requests is counted in the outcome.
pub fn run(plan: &Plan, observer: &mut dyn FnMut(&Progress)) -> Result<Outcome, Error> {
    run_until(plan, &Switch::default(), observer)
}

/// Runs a load to its end, or until `cancel` is set; what was measured until then is the outcome.
///
/// # Errors
/// As [`run`].
pub fn run_until(
    plan: &Plan,
    cancel: &Switch,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Outcome, Error> {
    let common = Common::new(plan, cancel)?;
    let threads = plan.threads();
    let window = Window::new(plan, Instant::now());
    let seen = run_threads(&common, window, 0..threads, threads, observer)?;
    Ok(outcome(plan, &window, cancel, common.driver(), seen))
}

/// Runs some of a load's `of` threads to their end.
pub(crate) fn run_threads(
    common: &Common<'_>,
    schedule: Window,
    which: Range<u32>,
    of: u32,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Seen, Error> {
    let (seconds, seconds_received) = mpsc::channel();
    let (report, reports) = mpsc::channel();
    let mut live = Vec::new();
    let left = Arc::new(Left::of(common.plan, which.clone(), of));
    for index in which {
        let counts = Arc::new(Live::default());
        live.push(counts.clone());
        let worker = Worker::new(common, schedule, (index, of), left.clone(), counts)?;
        let (seconds, report) = (seconds.clone(), report.clone());
        let uring = common.uring;
        thread::Builder::new().name(format!("load-{index}")).spawn(move || {
            let part = if uring { worker.run::<Uring>(seconds) } else { worker.run::<Epoll>(seconds) };
            let _ = report.send(part);
        })?;
    }
    // From here on only the threads hold senders, so the channels end with them.
    drop((seconds, report));
    let link = common.link.as_ref().map(Emulated::used);
    let watch = Watch { schedule, live, cancel: common.cancel.clone(), link };
    watch.follow(&reports, &seconds_received, observer)
}
