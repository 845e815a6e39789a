//! Whole experiments over real processes: what they find, how they end, and that nothing is left behind.

#[path = "../common/mod.rs"]
mod common;
mod interrupted;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use lab::{Options, Results, Run, Summary, Verdict};
use tempfile::TempDir;

use common::{helper, served};

/// A plan of the helper's server in some modes, called by them.
fn plan(modes: &[&str], rest: &str) -> String {
    format!("title = \"t\"\npaths = [\"/x\"]\nwarmup_s = 0.05\n{rest}\n{}", served(modes))
}

const SHORT: &str = "connections = [2]\nduration_s = 0.2\nrounds = 1";

struct Lab {
    out: TempDir,
    options: Options,
}

impl Lab {
    fn of(plan: String) -> Self {
        let out = tempfile::tempdir().unwrap();
        let options = Options::new("test", plan, out.path().join("out"), helper());
        Lab { out, options }
    }

    fn run(&self) -> Summary {
        lab::run(&self.options, &mut |_| {}).unwrap()
    }

    fn stored(&self) -> Results {
        stored(&self.out.path().join("out"))
    }

    /// Why the only run failed.
    fn failure(&self) -> String {
        self.run().results.runs[0].failure.clone().unwrap()
    }
}

fn stored(directory: &Path) -> Results {
    serde_json::from_slice(&fs::read(directory.join("results.json")).unwrap()).unwrap()
}

/// Processes with this text in their command line: servers are told apart by the directory they serve for.
fn processes_with(text: &str) -> Vec<String> {
    let found = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(text).then_some(line)
    });
    found.collect()
}

fn soon(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(10), "not so: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn real_servers_are_measured_round_by_round() {
    let lab = Lab::of(plan(&["ok", "late"], "connections = [1, 4]\nduration_s = 0.3\nrounds = 3\nseed = 3"));
    let Summary { results, report, budgets_met, .. } = lab.run();
    assert_eq!((results.runs.len(), results.cells.len(), budgets_met), (12, 4, true));
    for run in &results.runs {
        assert_eq!(run.failure, None);
        let (outcome, server) = (run.outcome.as_ref().unwrap(), run.server.as_ref().unwrap());
        assert!(outcome.requests > 50 && outcome.errors.total() == 0, "{outcome:?}");
        assert!(server.peak_rss_bytes > 100_000, "{server:?}");
        // On a host that is busy with other things the server may be looked at for another while, which a gate says.
        let is_said = format!("{:?}", run.verdict).contains("the server was observed for");
        let of_the_load = server.window_s / outcome.duration_s;
        assert!(is_said || ((0.8..1.25).contains(&of_the_load) && server.cpu_s > 0.0), "{run:?}");
    }
    assert!(report.exists());
    assert_eq!(lab.stored().runs.len(), 12);
}

#[test]
fn a_load_beside_is_measured_for_as_long_and_kept_with_the_run() {
    let beside = "[beside]\npath = \"/y\"\nconnections = 1\nrate = \"closed\"";
    let lab = Lab::of(plan(&["ok"], &format!("{SHORT}\n{beside}")));
    lab.run();
    let stored = lab.stored();
    let run = &stored.runs[0];
    let (main, beside) = (run.outcome.as_ref().unwrap(), run.beside.as_ref().unwrap());
    assert!(main.plan.url.ends_with("/x") && beside.plan.url.ends_with("/y"));
    assert!(main.requests > 0 && beside.requests > 0 && beside.duration_s >= 0.2, "{beside:?}");
    // The processor time is that of both.
    let server = run.server.as_ref().unwrap();
    let answered = (main.answered() + beside.answered()) as f64;
    assert!((server.cpu_us_per_request * answered / 1e6 - server.cpu_s).abs() < 1e-9, "{server:?}");
}

#[test]
fn a_server_that_dies_under_load_ends_its_run_at_once_with_its_last_words() {
    let lab = Lab::of(plan(&["mortal"], "connections = [2]\nduration_s = 30\nrounds = 1"));
    let start = Instant::now();
    assert_eq!(
        lab.failure(),
        "the server ended (exit status: 7); it said: serving in mode mortal\nthis was my last request"
    );
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(matches!(lab.stored().verdict, Verdict::Invalid(_)));
}

#[test]
fn a_server_that_never_serves_is_given_up() {
    let words =
        "the server does not serve after 10 s: it answers with status 500; it said: serving in mode error";
    assert_eq!(Lab::of(plan(&["error"], SHORT)).failure(), words);
    let deaf = Lab::of(plan(&["deaf"], SHORT)).failure();
    assert!(deaf.starts_with("the server does not serve after 10 s: "), "{deaf}");
}

/// Runs a server that misbehaves, and then one that does not; gives the run of the first, of which the report must say this.
fn before_one_that_works(mode: &str, said: &str) -> Run {
    // This seed has the first of the two run first.
    let rest =
        "seed = 3\nconnections = [2]\nduration_s = 1\nrounds = 1\nwarmup_s = 0\n[load]\ntimeout_s = 0.4";
    let lab = Lab::of(format!("title = \"t\"\npaths = [\"/x\"]\n{rest}\n{}", served(&[mode, "ok"])));
    let Summary { results, report, .. } = lab.run();
    let reasons = results.verdict.reasons().join("; ");
    assert!(reasons.contains(said) && fs::read_to_string(report).unwrap().contains(said), "{reasons}");
    let [bad, fine] = <[Run; 2]>::try_from(results.runs).unwrap();
    assert_eq!((bad.cell.target.as_str(), fine.cell.target.as_str()), (mode, "ok"));
    let outcome = fine.outcome.unwrap();
    assert!(outcome.requests > 0 && outcome.errors.total() == 0, "{outcome:?}");
    bad
}

#[test]
fn a_server_that_hangs_under_load_is_told_of_and_the_next_one_runs() {
    let run = before_one_that_works("hangs-100", "more than 0.1 % of the requests failed");
    let outcome = run.outcome.as_ref().unwrap();
    // One answer was to see whether it serves.
    assert!((1..=99).contains(&outcome.requests), "{outcome:?}");
    assert!(outcome.errors.first_byte_timeout >= 2, "{:?}", outcome.errors);
    assert!(run.verdict.reasons()[0].ends_with("requests failed"), "{:?}", run.verdict);
    let run = before_one_that_works("hangs-1", "1 of 2 runs got no proper answers");
    assert!(matches!(run.verdict, Verdict::Invalid(_)), "{:?}", run.verdict);
}

#[test]
fn a_server_that_answers_nonsense_is_told_of_and_the_next_one_runs() {
    let run = before_one_that_works("talks-100", "more than 0.1 % of the requests failed");
    let outcome = run.outcome.unwrap();
    assert!((1..=99).contains(&outcome.requests) && outcome.errors.malformed > 0, "{outcome:?}");
    let said = "it answers with something else than HTTP/1";
    let run = before_one_that_works("talks-0", said);
    assert!(run.failure.unwrap().contains("HTTP/1: \"all work and\""));
}

#[test]
fn a_server_that_cannot_start_does_not_stop_the_others() {
    let broken =
        "[[target]]\nname = \"broken\"\ncommand = [\"sh\", \"-c\", \"echo no such option; exit 3\"]\n";
    let missing =
        "[[target]]\nname = \"y\"\ncommand = [\"no-such-server\"]\ninstall = \"apt-get install y\"\n";
    let lab = Lab::of(plan(&["ok"], SHORT) + broken + missing);
    let results = lab.run().results;
    let mut failures: Vec<_> = results.runs.iter().filter_map(|run| run.failure.as_deref()).collect();
    failures.sort();
    let died = "the server ended (exit status: 3); it said: no such option";
    assert_eq!(failures, ["no-such-server is not installed: apt-get install y", died]);
    assert_eq!(results.cells.len(), 1);
    assert!(matches!(results.verdict, Verdict::Suspect(_)));
}

#[test]
fn what_this_host_cannot_do_is_told_before_anything_runs() {
    let refused = |plan: String| {
        let lab = Lab::of(plan);
        let error = lab::run(&lab.options, &mut |_| panic!("it ran")).unwrap_err().to_string();
        assert!(!lab.options.out.exists());
        error
    };
    let far = refused(plan(&["ok"], &format!("{SHORT}\nserver_cpus = [1023]")));
    assert!(far.starts_with("test: server_cpus: core 1023 cannot be used here; there are 0"), "{far}");
    let rootless = plan(&["ok"], SHORT).replace("[[file]]\npath = \"x\"\nbytes = 2\n", "");
    assert_eq!(
        refused(rootless),
        "test: this experiment serves a directory of yours: give it with --root DIR"
    );
}

#[test]
fn a_budget_and_further_rounds_are_not_asked_for_together() {
    let lab = Lab::of(plan(&["ok"], &format!("{SHORT}\n[stop]\nwithin = \"3%\"\nmost_rounds = 9")));
    let options = Options { budget: Some(Duration::from_secs(60)), ..lab.options.clone() };
    let error = lab::run(&options, &mut |_| panic!("it ran")).unwrap_err().to_string();
    assert!(error.contains("leave --budget out, or within and most_rounds of [stop]"), "{error}");
    assert!(!lab.options.out.exists());
}

#[test]
fn all_processes_of_a_server_are_gone_after_its_run_however_they_resist() {
    let lab = Lab::of(String::new());
    let mark = lab.out.path().display().to_string();
    // A shell that ignores SIGTERM, a child that left the group, and the server itself.
    let script = format!(
        "trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done # {mark}' & {} serve $0",
        helper().display()
    );
    let target = format!("[[target]]\nname = \"x\"\ncommand = [\"sh\", \"-c\", {script:?}, \"{{port}}\"]\n");
    let lab = Lab { options: Options { plan: plan(&[], SHORT) + &target, ..lab.options }, ..lab };
    let seen = thread::scope(|scope| {
        let run = scope.spawn(|| lab.run());
        soon("the server runs", || processes_with(&mark).len() == 2);
        run.join().unwrap()
    });
    assert_eq!(seen.results.runs[0].failure, None);
    assert_eq!(processes_with(&mark), Vec::<String>::new());
}

#[test]
fn what_a_server_leaves_behind_that_ends_by_itself_is_gone_too() {
    let lab = Lab::of(String::new());
    let mark = lab.out.path().display().to_string();
    // Its child is nobody's by then, and in no group that is known.
    let script = format!("setsid sh -c 'while :; do sleep 1; done # {mark}' & sleep 0.2; exit 3");
    let target = format!("[[target]]\nname = \"x\"\ncommand = [\"sh\", \"-c\", {script:?}]\n");
    let lab = Lab { options: Options { plan: plan(&[], SHORT) + &target, ..lab.options }, ..lab };
    assert_eq!(lab.failure(), "the server ended (exit status: 3)");
    assert_eq!(processes_with(&mark), Vec::<String>::new());
}

#[test]
fn the_cores_of_the_plan_are_those_of_the_server() {
    let script = "grep Cpus_allowed_list /proc/self/status; exec $0 serve $1";
    let target = format!(
        "[[target]]\nname = \"x\"\ncommand = [\"sh\", \"-c\", \"{script}\", \"{{bin_dir}}/lab-test-helper\", \"{{port}}\"]\n"
    );
    let lab = Lab::of(plan(&[], &format!("{SHORT}\nserver_cpus = [0]\nload_cpus = [0]")) + &target);
    let own = || fs::read_to_string("/proc/thread-self/status").unwrap();
    let cores =
        |status: String| status.lines().find(|line| line.starts_with("Cpus_allowed_list")).map(String::from);
    let before = cores(own());
    lab.run();
    let log = fs::read_to_string(lab.options.out.join("logs/00000-x/log")).unwrap();
    assert!(log.starts_with("Cpus_allowed_list:\t0\n"), "{log}");
    assert_eq!(cores(own()), before);
}

#[test]
fn a_run_ends_with_its_requests_or_with_its_time_whichever_is_first() {
    let with = |duration: &str, requests: u64, rest: &str| {
        let rest = format!(
            "connections = [2]\nrounds = 1\nduration_s = {duration}\n[stop]\nrequests = {requests}\n{rest}"
        );
        let run = Lab::of(plan(&["ok"], &rest)).run().results.runs.remove(0);
        assert_eq!(run.failure, None);
        run.outcome.unwrap()
    };
    // What is under way when measuring begins may still come when all others have been sent.
    assert!((500..=502).contains(&with("600", 500, "").requests));
    let timed = with("0.3", 1_000_000_000, "");
    assert!(timed.requests > 0 && timed.requests < 1_000_000_000 && timed.duration_s >= 0.3, "{timed:?}");
    if Command::new("ab").arg("-V").output().is_ok() {
        let ab = with("600", 500, "[load]\nengine = \"ab\"");
        assert!(ab.requests == 500 && ab.requests_per_second > 0.0, "{ab:?}");
    }
}
