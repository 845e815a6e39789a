//! The process of a load generator: what it prints while it runs, what it used, and its end.

use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use engine::ticks::TICK_S;
use load::sample::tree;
use load::{Plan, Switch};

use crate::process::kill_and_wait;

/// How often it is looked whether one has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Longer than any generator needs beside its load and the time an answer may take: to start, to connect, and to add up.
const BESIDE: Duration = Duration::from_secs(60);

/// The longest that a generator may take for a load of so many seconds.
pub(super) fn limit(seconds: f64, plan: &Plan) -> Duration {
    BESIDE + Duration::from_secs_f64(seconds + plan.timeout_s)
}

/// What a command prints. `go_on` sees its number and all that it has printed so far, every now and then, and ends it by
/// saying no.
///
/// # Errors
/// It cannot be started, it ended with another status than 0, it took longer than `limit`, or it was stopped. Nothing of it is
/// left running.
pub(super) fn output(
    mut command: Command,
    limit: Duration,
    stop: &Switch,
    go_on: &mut dyn FnMut(u32, &str) -> bool,
) -> io::Result<String> {
    let file = tempfile::NamedTempFile::new()?;
    let out = file.reopen()?;
    let errors = out.try_clone()?;
    let mut child = command.stdin(Stdio::null()).stdout(out).stderr(errors).spawn()?;
    let start = Instant::now();
    let printed = || fs::read(file.path()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let is_late = start.elapsed() > limit;
        if stop.is_set() || is_late || !go_on(child.id(), &printed()?) {
            let members = tree(child.id());
            let _ = child.kill();
            kill_and_wait(&members);
            child.wait()?;
            return match (stop.is_set(), is_late) {
                (true, _) => Err(io::Error::other("it was stopped")),
                (_, true) => {
                    Err(io::Error::other(format!("it had not ended after {limit:?}, and was stopped")))
                }
                _ => printed(),
            };
        }
        thread::sleep(LOOK);
    };
    let text = printed()?;
    if status.success() {
        return Ok(text);
    }
    let last = text.trim().lines().last().unwrap_or_default();
    Err(io::Error::other(format!("it ended with {status}: {last}")))
}

/// Processor time of all processes that this one has started and that have ended, in seconds.
pub(super) fn used_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in parentheses, may hold anything; cutime and cstime are the 14th and 15th field behind it (proc(5)).
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: u64 = fields.skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 * TICK_S
}

#[cfg(test)]
mod tests {
    use super::*;

    const AN_HOUR: Duration = Duration::from_secs(3600);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_it_has_said_ends_it_with_all_it_started() {
        let mut number = 0;
        let mut until_ready = |id: u32, text: &str| {
            number = id;
            !text.contains("ready")
        };
        let script = "sleep 60 & echo ready; wait";
        let text = output(shell(script), AN_HOUR, &Switch::default(), &mut until_ready).unwrap();
        assert_eq!((text.as_str(), tree(number).len()), ("ready\n", 0));
    }

    #[test]
    fn one_that_fails_is_stopped_or_does_not_end_is_an_error() {
        let mut go_on = |_: u32, _: &str| true;
        let why =
            output(shell("echo no such host; exit 3"), AN_HOUR, &Switch::default(), &mut go_on).unwrap_err();
        assert_eq!(why.to_string(), "it ended with exit status: 3: no such host");
        let stop = Switch::default();
        stop.set();
        let why =
            |limit, stop: &Switch| output(shell("sleep 60"), limit, stop, &mut |_, _| true).unwrap_err();
        assert_eq!(why(AN_HOUR, &stop).to_string(), "it was stopped");
        let late = why(Duration::from_millis(50), &Switch::default());
        assert_eq!(late.to_string(), "it had not ended after 50ms, and was stopped");
    }

    #[test]
    fn what_children_used_is_counted_once_they_have_ended() {
        let before = used_s();
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        output(shell(script), AN_HOUR, &Switch::default(), &mut |_, _| true).unwrap();
        assert!(used_s() > before);
    }
}
