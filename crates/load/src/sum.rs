//! Putting the parts of all threads together into one outcome.

use std::collections::BTreeMap;

use engine::Stop as Switch;

use crate::outcome::{Client, Errors, Offered, Outcome};
use crate::plan::Plan;
use crate::record::{Histograms, distribution};
use crate::run::Window;
use crate::thread::Part;
use crate::verdict::judge;
use crate::watch::Seen;

/// Puts the parts of all threads together. Histograms of equal precision add up bucket by bucket, exactly.
pub(crate) fn outcome(plan: &Plan, schedule: &Window, cancel: &Switch, driver: &str, seen: Seen) -> Outcome {
    let Seen { parts, cpu, host, timeline, rates } = seen;
    let mut histograms = Histograms::new();
    let (mut statuses, mut unexpected_statuses) = (BTreeMap::new(), BTreeMap::new());
    let mut errors = Errors::default();
    let (mut requests, mut drained, mut bytes, mut censored, mut unsent) = (0, 0, 0, 0, 0);
    let mut last = schedule.from;
    for Part { recorder, .. } in &parts {
        histograms.add(&recorder.histograms);
        errors.add(&recorder.errors);
        requests += recorder.requests;
        drained += recorder.drained;
        bytes += recorder.bytes;
        censored += recorder.censored;
        unsent += recorder.unsent;
        last = last.max(recorder.last);
        for (code, count) in recorder.statuses() {
            *statuses.entry(code).or_default() += count;
        }
        for (code, count) in recorder.unexpected() {
            *unexpected_statuses.entry(code).or_default() += count;
        }
    }
    // A load that was cut off, or that ends with its last request, has lasted until then.
    let end = if cancel.is_set() { last } else { schedule.until.unwrap_or(last) };
    let duration_s = (end - schedule.from).as_secs_f64();
    let per_second = |count: u64| if duration_s > 0.0 { count as f64 / duration_s } else { 0.0 };
    let mut outcome = Outcome {
        threads: parts.len() as u32,
        driver: driver.into(),
        duration_s,
        requests,
        requests_per_second: per_second(requests),
        drained,
        censored,
        offered: offered(plan, &histograms, &errors, unsent, duration_s),
        bytes_received: bytes,
        bytes_per_second: per_second(bytes),
        response_time_us: distribution(&histograms.response),
        response_time_histogram: crate::hdr::encode(&histograms.response),
        connect_us: distribution(&histograms.connect),
        first_byte_us: distribution(&histograms.first_byte),
        transfer_us: distribution(&histograms.transfer),
        failed_us: distribution(&histograms.failed),
        statuses,
        unexpected_statuses,
        errors,
        client: Client {
            cpu_s: cpu.as_secs_f64(),
            cpu_us_per_request: if requests > 0 { cpu.as_secs_f64() * 1e6 / requests as f64 } else { 0.0 },
            busiest_thread_share: parts.iter().map(|part| part.cpu_share).fold(0.0, f64::max),
        },
        host,
        steady: rates.steady().filter(|_| plan.arrivals.is_level()),
        timeline: timeline.finish(),
        ..Outcome::empty(plan)
    };
    outcome.verdict = judge(&outcome);
    outcome
}

/// What an open loop has offered.
fn offered(
    plan: &Plan,
    histograms: &Histograms,
    errors: &Errors,
    unsent: u64,
    duration_s: f64,
) -> Option<Offered> {
    plan.arrivals.is_open().then(|| {
        let sent = histograms.service.len() + errors.total();
        let due = sent + unsent;
        Offered {
            due,
            unsent,
            due_per_second: if duration_s > 0.0 { due as f64 / duration_s } else { 0.0 },
            service_time_us: distribution(&histograms.service),
            send_lag_us: distribution(&histograms.lag),
        }
    })
}
