//! Tsung: users of Erlang that each ask for a page again and again. Its plan, and what it prints every second.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use load::host::Sample;
use load::sample::Sampler;
use load::{Outcome, Phase, Plan, Switch};

use super::{child, nothing_in};

/// What stands before the figures of each second.
const MARK: &str = "# stats: dump at ";

/// Users that come per second at most: more than that, and Erlang has no time for those that are there.
const ARRIVALS: u32 = 20_000;

/// Its runtime needs neither a daemon nor a listening port for one machine alone, and tells its figures every second. With a
/// daemon, something would be left running.
const RUNTIME: &str = "-start_epmd false -dist_listen false -tsung_controller dumpstats_interval 1000";

/// Runs it: the first second, in which its users come, is part of the warm-up. The load goes on until the last second that
/// counts is told of, and is cut off then.
pub(super) fn run(
    program: &Path,
    plan: &Plan,
    seconds: f64,
    stop: &Switch,
    watch: &mut dyn FnMut(Phase),
) -> Result<Outcome, String> {
    let words = |error: std::io::Error| error.to_string();
    let home = tempfile::tempdir().map_err(words)?;
    let file = home.path().join("plan.xml");
    let (skipped, counted) = (plan.warmup_s.ceil().max(1.0) as usize, seconds.round().max(1.0) as usize);
    std::fs::write(&file, xml(plan, skipped + counted)?).map_err(words)?;
    let mut command = Command::new(program);
    command.args(["-n", "-w", "0", "-m", "-", "-l"]).arg(home.path().join("log")).arg("-f").arg(&file);
    command.arg("start").env("HOME", home.path()).env("ERL_FLAGS", RUNTIME);
    let (mut begin, mut end, mut own) = (None, None, None::<Sampler>);
    let mut go_on = |id: u32, text: &str| {
        let told = text.matches(MARK).count();
        let phase = match told {
            told if told < skipped => Phase::Warmup,
            told if told < skipped + counted => Phase::Measuring,
            _ => Phase::Draining,
        };
        match phase {
            Phase::Warmup => {}
            Phase::Measuring => _ = begin.get_or_insert_with(|| (Instant::now(), Sample::now())),
            Phase::Draining => _ = end.get_or_insert_with(|| (Instant::now(), Sample::now())),
        }
        own.get_or_insert_with(|| Sampler::new(id)).look(phase);
        watch(phase);
        // The figures of a second are whole once the next ones are there.
        told <= skipped + counted
    };
    let limit = child::limit(2.0 * (skipped + counted) as f64, plan);
    let text = child::output(command, limit, stop, &mut go_on).map_err(words)?;
    let mut outcome = Outcome { threads: 1, ..Outcome::empty(plan) };
    outcome.client.cpu_s = own.and_then(|own| own.finish(1)).map_or(0.0, |used| used.cpu_s);
    let (Some((begin, before)), Some((end, after))) = (begin, end) else { return Err(nothing_in(&text)) };
    outcome.host = after.since(&before);
    // What it calls a second is longer when it, or the host, is busy.
    outcome.duration_s = (end - begin).as_secs_f64();
    read(&text, skipped, counted, &mut outcome).ok_or_else(|| nothing_in(&text))?;
    Ok(outcome)
}

/// Its plan: every user comes at the start, and asks for the page until the load is over.
fn xml(plan: &Plan, seconds: usize) -> Result<String, String> {
    let rest = plan.url.strip_prefix("http://").ok_or("the URL must begin with http://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
    let (users, timeout) = (plan.connections, (plan.timeout_s * 1e3) as u64);
    let arrivals = users.saturating_mul(10).min(ARRIVALS);
    let path = if path.is_empty() { "/" } else { path };
    let path = path.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let close = if plan.close { "<http_header name=\"Connection\" value=\"close\"/>" } else { "" };
    // Cut off before this is over, so there is time to spare.
    let duration = seconds + 10;
    Ok(format!(
        r#"<?xml version="1.0"?>
<!DOCTYPE tsung SYSTEM "/usr/share/tsung/tsung-1.0.dtd">
<tsung loglevel="error" version="1.0">
  <clients><client host="localhost" use_controller_vm="true" maxusers="{users}"/></clients>
  <servers><server host="{host}" port="{port}" type="tcp"/></servers>
  <load duration="{duration}" unit="second">
    <arrivalphase phase="1" duration="{duration}" unit="second">
      <users arrivalrate="{arrivals}" maxnumber="{users}" unit="second"/>
    </arrivalphase>
  </load>
  <options><option name="global_ack_timeout" value="{timeout}"/></options>
  <sessions><session name="page" probability="100" type="ts_http">
    <for var="turn" from="1" to="1000000000">
      <request><http url="{path}" method="GET" version="1.1">{close}</http></request>
    </for>
  </session></sessions>
</tsung>
"#
    ))
}

/// Adds up the seconds that count, which took as long as the outcome says.
fn read(text: &str, skipped: usize, counted: usize, outcome: &mut Outcome) -> Option<()> {
    let seconds: Vec<&str> = text.split(MARK).skip(1 + skipped).take(counted).collect();
    if seconds.len() < counted {
        return None;
    }
    let (mut took_ms, mut users) = (0.0, 0);
    for second in seconds {
        for line in second.lines().filter_map(|line| line.strip_prefix("stats: ")) {
            let mut words = line.split_whitespace();
            let (Some(name), Some(count)) = (words.next(), words.next()) else { continue };
            // Some figures may be negative, such as by how many connections there are more; none of those that are read.
            let count: u64 = count.parse().unwrap_or(0);
            match name {
                // Count, mean, deviation, longest, shortest; the mean in milliseconds.
                "request" => {
                    outcome.requests += count;
                    took_ms += count as f64 * words.next()?.parse::<f64>().ok()?;
                }
                "users" => users = count,
                "size_rcv" => outcome.bytes_received += count,
                name if name.starts_with("error_connect") => outcome.errors.connect_failed += count,
                name if name.starts_with("error") && name.contains("timeout") => {
                    outcome.errors.first_byte_timeout += count;
                }
                name if name.starts_with("error") => outcome.errors.other += count,
                name => {
                    if let Ok(code @ 100..=599) = name.parse::<u16>() {
                        *outcome.statuses.entry(code).or_default() += count;
                    }
                }
            }
        }
    }
    outcome.requests_per_second = outcome.requests as f64 / outcome.duration_s;
    outcome.bytes_per_second = outcome.bytes_received as f64 / outcome.duration_s;
    outcome.response_time_us.mean = took_ms * 1e3 / outcome.requests.max(1) as f64;
    let wanted = outcome.plan.connections;
    if users < u64::from(wanted) {
        // A user that met with errors leaves, and no other comes in its place.
        outcome.verdict.suspect(format!("{users} of {wanted} users were there at the end"));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::empty;
    use super::*;

    /// As version 1.7.0 prints it, of the last three of four seconds.
    const PRINTED: &str = "Starting Tsung\nLog directory is: /tmp/x\n\
        # stats: dump at 1795272402\nstats: users 8 8\nstats: 200 2781 2781\n\
        stats: request 2781 1.2786094929881278 0.4742265316023339 4.536 0.272 0 0\n\
        # stats: dump at 1795272403\nstats: users 8 8\n\
        stats: {cpu,\"tsung_controller@vm\"} 1 33.7 0 33.7 33.7 0 0\n\
        stats: connect 5492 0.4061636926438457 0.27334539172187433 3.425 0.075 0.37002262118491924 2785\n\
        stats: request 5000 1.5 0.5703122535538147 5.369 0.26 1.2786094929881278 2781\n\
        stats: 200 4990 8277\nstats: 404 10 10\nstats: size_rcv 340000 513174\nstats: connected -5 0\n\
        # stats: dump at 1795272404\nstats: users 7 8\nstats: request 3000 0.5 0.1 6.0 0.26 1.3 8277\n\
        stats: 200 3000 14018\nstats: error_connect_econnrefused 2 2\nstats: error_timeout 3 3\n\
        stats: error_abort 1 1\nstats: size_rcv 60000 869116\n# stats: dump at 1795272405\n";

    #[test]
    fn what_it_prints_is_read_but_for_the_warm_up() {
        let mut outcome =
            Outcome { plan: Plan { connections: 8, ..Plan::new("http://x/") }, duration_s: 2.5, ..empty() };
        read(PRINTED, 1, 2, &mut outcome).unwrap();
        assert_eq!((outcome.requests, outcome.requests_per_second), (8000, 3200.0));
        assert_eq!(
            (outcome.statuses[&200], outcome.statuses[&404], outcome.bytes_received),
            (7990, 10, 400_000)
        );
        let errors = outcome.errors;
        assert_eq!((errors.connect_failed, errors.first_byte_timeout, errors.other), (2, 3, 1));
        // (5000 x 1.5 + 3000 x 0.5) / 8000 ms.
        assert!((outcome.response_time_us.mean - 1125.0).abs() < 1e-6);
        assert_eq!(outcome.verdict.reasons(), ["7 of 8 users were there at the end"]);
        assert!(read(PRINTED, 1, 4, &mut empty()).is_none());
    }

    #[test]
    fn its_plan_has_every_user_ask_for_the_page_until_the_end() {
        let plan = Plan { connections: 5000, ..Plan::new("http://127.0.0.1:20001/a?b=1&c=\"<") };
        let text = xml(&plan, 5).unwrap();
        assert!(text.contains(r#"<server host="127.0.0.1" port="20001" type="tcp"/>"#), "{text}");
        assert!(
            text.contains(r#"url="/a?b=1&amp;c=&quot;&lt;" method="GET" version="1.1"></http>"#),
            "{text}"
        );
        assert!(text.contains(r#"arrivalrate="20000" maxnumber="5000""#), "{text}");
        assert!(
            xml(&Plan { close: true, ..plan }, 5).unwrap().contains(r#"name="Connection" value="close""#)
        );
    }
}
