//! What a run of the model comes to, and how it is counted.

/// What a run of the model comes to. Counts are of the whole run; everything else is of what was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Requests that came.
    pub arrivals: u64,
    /// Requests that were answered.
    pub done: u64,
    /// Requests that were turned away because too many waited for a worker.
    pub rejected: u64,
    /// Requests that are under way at the end.
    pub in_system: u64,
    /// Answers per second, without those that turn away.
    pub throughput: f64,
    /// Mean response time, in microseconds; 0 if nothing was answered, as the next two.
    pub mean_us: f64,
    /// Median response time, in microseconds.
    pub p50_us: f64,
    /// Response time that 99 of 100 requests keep, in microseconds.
    pub p99_us: f64,
    /// Share of the usable cores that was in use, 0 to 1.
    pub cores_busy: f64,
    /// Mean share of the time in which a reactor had something to do, waiting for a core included, 0 to 1.
    pub reactors_busy: f64,
    /// The same of the busiest reactor.
    pub busiest_reactor: f64,
    /// Mean share of the workers that had a request, 0 to 1; 0 without workers.
    pub workers_busy: f64,
    /// Mean number of workers.
    pub workers: f64,
    /// Mean number of requests that waited for a worker.
    pub waiting: f64,
}

/// Sums over time, which a controller and the end of a run read.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    /// Seconds times workers that had a request.
    pub(super) busy_s: f64,
    /// Seconds times workers.
    pub(super) workers_s: f64,
    /// Seconds times requests that waited for a worker.
    pub(super) waiting_s: f64,
    /// Processor time used, in seconds.
    pub(super) cores_s: f64,
    /// Requests that workers finished.
    pub(super) worked: u64,
    /// Requests answered.
    pub(super) done: u64,
    /// Seconds in which each reactor had something to do.
    pub(super) each_reactor_s: Vec<f64>,
}

/// What happened between two moments.
pub(super) fn outcome(from: &Sums, until: &Sums, seconds: f64, usable: f64, mut times: Vec<f32>) -> Outcome {
    let mean = |sum: fn(&Sums) -> f64| (sum(until) - sum(from)) / seconds;
    let reactors = until.each_reactor_s.len().max(1) as f64;
    let each = || until.each_reactor_s.iter().zip(&from.each_reactor_s).map(|(until, from)| until - from);
    let workers = mean(|sums| sums.workers_s);
    let total: f64 = times.iter().map(|time| f64::from(*time)).sum();
    let mean_us = total / times.len().max(1) as f64;
    Outcome {
        throughput: (until.done - from.done) as f64 / seconds,
        mean_us,
        p50_us: percentile(&mut times, 0.5),
        p99_us: percentile(&mut times, 0.99),
        cores_busy: mean(|sums| sums.cores_s) / usable,
        reactors_busy: each().sum::<f64>() / reactors / seconds,
        busiest_reactor: each().fold(0.0, f64::max) / seconds,
        workers_busy: if workers > 0.0 { mean(|sums| sums.busy_s) / workers } else { 0.0 },
        workers,
        waiting: mean(|sums| sums.waiting_s),
        ..Outcome::default()
    }
}

/// The value that this share of all does not exceed.
fn percentile(times: &mut [f32], share: f64) -> f64 {
    if times.is_empty() {
        return 0.0;
    }
    let rank = (times.len() as f64 * share).ceil() as usize;
    let at = rank.clamp(1, times.len()) - 1;
    f64::from(*times.select_nth_unstable_by(at, f32::total_cmp).1)
}
