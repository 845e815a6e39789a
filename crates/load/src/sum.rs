//! Putting the parts of all threads together into one outcome.

use engine::Stop as Switch;

use crate::hdr::encode;
use crate::outcome::{Client, Offered, Outcome};
use crate::plan::Plan;
use crate::progress::Window;
use crate::recorded::Recorded;
use crate::verdict::judge;
use crate::watch::Seen;

/// Puts the parts of all threads together. Histograms of equal precision add up bucket by bucket, exactly.
pub(crate) fn outcome(plan: &Plan, schedule: &Window, cancel: &Switch, driver: &str, seen: Seen) -> Outcome {
    let Seen { recorded, threads, busiest, cpu, host, timeline, rates } = seen;
    let Recorded { histograms, bytes, .. } = &recorded;
    let answered = recorded.requests + recorded.carried_over;
    let last = schedule.from + recorded.last;
    // A load that was cut off, or that ends with the last of its requests, however that ended, has lasted until then.
    let end = if cancel.is_set() { last } else { schedule.until.unwrap_or(last) };
    let duration_s = (end - schedule.from).as_secs_f64();
    let per_second = |count: u64| if duration_s > 0.0 { count as f64 / duration_s } else { 0.0 };
    let mut outcome = Outcome {
        threads,
        driver: driver.into(),
        duration_s,
        requests: recorded.requests,
        carried_over: recorded.carried_over,
        requests_per_second: per_second(answered),
        drained: recorded.drained,
        reconnects: recorded.reconnects,
        censored: recorded.censored,
        offered: offered(plan, &recorded, duration_s),
        bytes_received: *bytes,
        content_bytes: recorded.content,
        bytes_per_second: per_second(*bytes),
        response_time_us: histograms.response.distribution(),
        response_time_histogram: encode(&histograms.response),
        late_histogram: Some(&histograms.late)
            .filter(|late| !late.is_empty())
            .map_or_else(String::new, |late| encode(late)),
        connect_us: histograms.connect.distribution(),
        first_byte_us: histograms.first_byte.distribution(),
        transfer_us: histograms.transfer.distribution(),
        failed_us: histograms.failed.distribution(),
        errors: recorded.errors,
        client: Client {
            cpu_s: cpu.as_secs_f64(),
            cpu_us_per_request: if answered > 0 { cpu.as_secs_f64() * 1e6 / answered as f64 } else { 0.0 },
            busiest_thread_share: busiest,
        },
        host,
        steady: rates.steady().filter(|_| plan.arrivals.is_level()),
        timeline: timeline.finish(),
        statuses: recorded.statuses.into(),
        unexpected_statuses: recorded.unexpected.into(),
        ..Outcome::empty(plan)
    };
    outcome.verdict = judge(&outcome);
    outcome
}

/// What an open loop has offered.
fn offered(plan: &Plan, recorded: &Recorded, duration_s: f64) -> Option<Offered> {
    let Recorded { histograms, unsent, .. } = recorded;
    plan.arrivals.is_open().then(|| {
        // Each that was sent has a lag.
        let due = histograms.lag.len() + unsent;
        Offered {
            due,
            unsent: *unsent,
            due_in_second_half: recorded.due_late,
            ended_in_second_half: recorded.ended_late,
            due_per_second: if duration_s > 0.0 { due as f64 / duration_s } else { 0.0 },
            service_time_us: histograms.service.distribution(),
            send_lag_us: histograms.lag.distribution(),
        }
    })
}
