//! A snapshot in the text form that Prometheus reads (exposition format 0.0.4).

use std::fmt::{Display, Write};

use super::snapshot::Snapshot;
use super::times::Times;

/// Writes a snapshot.
pub fn prometheus(snapshot: &Snapshot) -> String {
    let mut page = Page(String::with_capacity(16 * 1024));
    page.about("plimsoll_topology", "gauge", "The axes of the server's topology, as labels; always 1.");
    let axes: Vec<(&str, &str)> =
        snapshot.topology.iter().map(|(axis, value)| (*axis, value.as_str())).collect();
    page.sample("plimsoll_topology", &axes, 1);
    page.one("plimsoll_uptime_seconds", "gauge", "Time since the start.", snapshot.uptime_seconds);
    threads(&mut page, snapshot);
    handled(&mut page, snapshot);
    headroom(&mut page, snapshot);
    pools(&mut page, snapshot);
    decisions(&mut page, snapshot);
    let name = "plimsoll_rejected_total";
    page.about(name, "counter", "Connections and requests turned away, by reason.");
    for (reason, count) in &snapshot.rejected {
        page.sample(name, &[("reason", reason)], count);
    }
    let name = "plimsoll_accept_pauses_total";
    page.one(
        name,
        "counter",
        "Times accepting paused for want of descriptors or memory.",
        snapshot.accept_pauses,
    );
    let name = "plimsoll_answers_abandoned_total";
    let help = "Answers whose connection was gone when they came from a worker.";
    page.one(name, "counter", help, snapshot.answers_abandoned);
    let name = "plimsoll_log_lines_dropped_total";
    page.one(name, "counter", "Lines of the access log that were lost.", snapshot.log_lines_dropped);
    let name = "plimsoll_work_seconds";
    page.about(name, "histogram", "How long the business time of requests really took.");
    page.histogram(name, &[], &snapshot.work);
    process(&mut page, snapshot);
    page.0
}

fn threads(page: &mut Page, snapshot: &Snapshot) {
    let help = "Reactors that work; their number follows the processors that may be used.";
    page.one("plimsoll_reactors_working", "gauge", help, snapshot.reactors_working);
    let help =
        "How scarce the memory of the cgroup is: 0 not, 1 scarce, 2 for longer, 3 it has nearly run out.";
    page.one("plimsoll_memory_pressure", "gauge", help, snapshot.memory_pressure);
    type Get = fn(&super::Thread) -> f64;
    let columns: [(&str, &str, &str, Get); 8] = [
        ("plimsoll_connections_accepted_total", "counter", "New connections taken in.", |t| {
            t.connections_accepted as f64
        }),
        (
            "plimsoll_connections_moved_in_total",
            "counter",
            "Connections that came from other threads.",
            |t| t.connections_moved_in as f64,
        ),
        ("plimsoll_connections_moved_out_total", "counter", "Connections that went to other threads.", |t| {
            t.connections_moved_out as f64
        }),
        ("plimsoll_connections_open", "gauge", "Connections open now.", |t| t.connections_open as f64),
        (
            "plimsoll_connections_refused_total",
            "counter",
            "Connections turned away for want of a slot.",
            |t| t.connections_refused as f64,
        ),
        (
            "plimsoll_loop_busy_seconds_total",
            "counter",
            "Time in which the thread worked instead of waiting.",
            |t| t.busy_seconds,
        ),
        ("plimsoll_loop_wake_ups_total", "counter", "Times the thread came back from waiting.", |t| {
            t.wake_ups as f64
        }),
        ("plimsoll_requests_total", "counter", "Requests answered.", |t| t.http.requests as f64),
    ];
    for (name, kind, help, get) in columns {
        page.about(name, kind, help);
        for thread in &snapshot.threads {
            page.sample(name, &[("thread", &thread.name)], get(thread));
        }
    }
    let name = "plimsoll_http_total";
    page.about(
        name,
        "counter",
        "What the connections of a thread counted, by event; bytes are counted in bytes.",
    );
    for thread in &snapshot.threads {
        for (event, count) in thread.http.named() {
            page.sample(name, &[("thread", &thread.name), ("event", event)], count);
        }
    }
}

/// What the threads that own connections handle themselves.
fn handled(page: &mut Page, snapshot: &Snapshot) {
    let name = "plimsoll_handled_seconds";
    let help = "How long the handlers took that the thread ran itself; one request in 64 is timed.";
    page.about(name, "histogram", help);
    for thread in &snapshot.threads {
        page.histogram(name, &[("thread", &thread.name)], &thread.handled);
    }
}

fn headroom(page: &mut Page, snapshot: &Snapshot) {
    let headroom = &snapshot.headroom;
    page.about("plimsoll_in_use_ratio", "gauge", "How much of a thing that can run out is in use.");
    for (name, share) in &headroom.in_use {
        page.sample("plimsoll_in_use_ratio", &[("resource", name)], *share);
    }
    let help = "Requests per second at which the first thing runs out, if the load grows as it is; 0 while that is not known.";
    page.one("plimsoll_carries_requests_per_second", "gauge", help, headroom.carries_per_second);
}

fn pools(page: &mut Page, snapshot: &Snapshot) {
    page.about("plimsoll_workers", "gauge", "Workers that there are.");
    for pool in &snapshot.pools {
        page.sample("plimsoll_workers", &[("pool", &pool.name)], pool.workers);
    }
    page.about("plimsoll_workers_idle", "gauge", "Workers that wait for work.");
    for pool in &snapshot.pools {
        page.sample("plimsoll_workers_idle", &[("pool", &pool.name)], pool.idle);
    }
    let help = "Handlers that held up their reactor for a millisecond or more.";
    page.one("plimsoll_reactor_stalls_total", "counter", help, snapshot.reactor_stalls);
    page.about("plimsoll_queue_length", "gauge", "Requests that wait for a worker.");
    for pool in &snapshot.pools {
        page.sample("plimsoll_queue_length", &[("pool", &pool.name)], pool.queue_length);
    }
    page.about("plimsoll_queue_wait_seconds", "histogram", "From submission to the start of the work.");
    for pool in &snapshot.pools {
        page.histogram("plimsoll_queue_wait_seconds", &[("pool", &pool.name)], &pool.wait);
    }
    page.about("plimsoll_service_seconds", "histogram", "From the start of the work to its end.");
    for pool in &snapshot.pools {
        page.histogram("plimsoll_service_seconds", &[("pool", &pool.name)], &pool.service);
    }
}

/// What the server has decided by itself.
fn decisions(page: &mut Page, snapshot: &Snapshot) {
    let name = "plimsoll_worker_decisions_total";
    page.about(name, "counter", "Changes of the number of workers, by reason.");
    for (reason, count) in &snapshot.decision_counts {
        page.sample(name, &[("reason", reason)], count);
    }
    let name = "plimsoll_route_moves_total";
    page.about(name, "counter", "Routes that a reactor has taken to itself, or given to the workers.");
    page.sample(name, &[("to", "reactor")], snapshot.route_moves.to_reactor);
    page.sample(name, &[("to", "workers")], snapshot.route_moves.to_workers);
    page.about(
        "plimsoll_in_flight_limit",
        "gauge",
        "The bound on requests under way of a route (--in-flight).",
    );
    for gate in &snapshot.gates {
        page.sample("plimsoll_in_flight_limit", &[("route", &escaped(&gate.route))], gate.limit);
    }
    page.about("plimsoll_in_flight", "gauge", "Requests under way of a route whose number is bounded.");
    for gate in &snapshot.gates {
        page.sample("plimsoll_in_flight", &[("route", &escaped(&gate.route))], gate.under_way);
    }
}

/// A value of a label that somebody else has written (exposition format: backslash, quote and line feed are escaped).
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn process(page: &mut Page, snapshot: &Snapshot) {
    let process = &snapshot.process;
    let name = "process_cpu_seconds_total";
    let cpu = process.cpu_user_seconds + process.cpu_system_seconds;
    page.one(name, "counter", "Processor time, of the program and of the kernel for it.", cpu);
    page.one(
        "process_resident_memory_bytes",
        "gauge",
        "Memory that is really there.",
        process.resident_bytes,
    );
    page.one("process_threads", "gauge", "Threads.", process.threads);
    page.one("process_open_fds", "gauge", "Open descriptors.", process.descriptors);
    let name = "process_context_switches_total";
    page.about(name, "counter", "Context switches of all threads.");
    page.sample(name, &[("kind", "voluntary")], process.voluntary_switches);
    page.sample(name, &[("kind", "involuntary")], process.involuntary_switches);
}

/// A page of samples. Writing to a string cannot fail.
struct Page(String);

impl Page {
    fn about(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.about(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The values of labels are names of ours, in which nothing needs to be escaped, or [`escaped`].
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"{text}\"", if at == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], times: &Times) {
        let bucket = format!("{name}_bucket");
        let with = |bound: &str, page: &mut Page, count: u64| {
            page.sample(&bucket, &[labels, &[("le", bound)]].concat(), count);
        };
        for (bound, count) in &times.at_most_seconds {
            with(&bound.to_string(), self, *count);
        }
        with("+Inf", self, times.count);
        self.sample(&format!("{name}_sum"), labels, times.sum_seconds);
        self.sample(&format!("{name}_count"), labels, times.count);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::histogram::{Distribution, Histogram};

    use super::*;

    #[test]
    fn a_label_that_somebody_else_has_written_stays_one_label() {
        assert_eq!(escaped("/a\"b\\c\nd"), r#"/a\"b\\c\nd"#);
    }

    #[test]
    fn a_histogram_is_cumulative_and_ends_with_all() {
        let histogram = Histogram::default();
        for us in [1, 2, 2, 3, 100_000_000] {
            histogram.record(Duration::from_micros(us));
        }
        let mut page = Page(String::new());
        page.histogram("t", &[("pool", "a")], &Distribution::of([&histogram]).into());
        let lines: Vec<&str> = page.0.lines().collect();
        let shown = [&lines[..3], &lines[25..]].concat().join("\n");
        let expected = "t_bucket{pool=\"a\",le=\"0.000001\"} 1\n\
                        t_bucket{pool=\"a\",le=\"0.000002\"} 3\n\
                        t_bucket{pool=\"a\",le=\"0.000004\"} 4\n\
                        t_bucket{pool=\"a\",le=\"33.554432\"} 4\n\
                        t_bucket{pool=\"a\",le=\"+Inf\"} 5\n\
                        t_sum{pool=\"a\"} 100.000008\n\
                        t_count{pool=\"a\"} 5";
        assert_eq!(shown, expected);
    }
}
