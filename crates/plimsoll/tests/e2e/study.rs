//! Whole studies: factors and claims, an experiment that is killed and gone on with, two results compared, settings tuned.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::browser::draws_every_chart;
use crate::common::{Client, Server, failed, has, output_of, plimsoll, until};
use crate::family::{mark, members, serves};

/// A grid over two factors and a condition, of a server whose rate is a formula: workers / work time. The claims leave room for
/// a run that a busy host has slowed down.
const STUDY: &str = r#"
title = "Workers that sleep"
paths = ["/work?sleep={time}"]
connections = [8]
duration_s = 0.3
rounds = 3
threads = 1
[factor]
time = ["2ms", "10ms"]
workers = [1, 2, 4]
reactors = [1, 2]
[[file]]
path = "index.html"
bytes = 100
[[target]]
name = "pool"
model = "multi-reactor-pool"
args = ["--workloads", "--pool", "shared", "--workers", "{workers}", "--reactors", "{reactors}"]
[[claim]]
text = "four workers do more than one"
left = { target = "pool", at = { workers = 4, time = "10ms" } }
right = { target = "pool", at = { workers = 1, time = "10ms" } }
at_least = 1.5
[[claim]]
text = "two reactors do three times what one does"
left = { target = "pool", at = { reactors = 2, time = "10ms" } }
right = { target = "pool", at = { reactors = 1, time = "10ms" } }
at_least = 3
[quick]
duration_s = 0.2
"#;

/// The end of an experiment with a short path: a pool of four workers.
const FOUR_WORKERS: &str = r#"
[[file]]
path = "x"
bytes = 1
[[target]]
name = "pool"
model = "reactor-pool"
args = ["--workloads", "--workers", "4"]
"#;

/// Writes an experiment into a file of that name, and says where it is.
fn experiment(dir: &Path, name: &str, text: &str) -> PathBuf {
    let file = dir.join(name).with_extension("toml");
    fs::write(&file, text).unwrap();
    file
}

fn study(dir: &Path) -> PathBuf {
    experiment(dir, "study", STUDY)
}

/// Runs an experiment and gives its results, which are in this directory then.
fn run(file: &Path, out: &Path) -> Value {
    output_of(plimsoll().args(["lab", "run"]).arg(file).arg("--out").arg(out));
    results(out)
}

fn results(out: &Path) -> Value {
    serde_json::from_slice(&fs::read(out.join("results.json")).unwrap()).unwrap()
}

/// The runs of an experiment that begins like this, on a pool of four workers; each with how many requests for work its server
/// has written into its log.
fn runs_with_a_log(text: &str) -> Vec<(Value, u64)> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let pool = FOUR_WORKERS.replace("\"4\"", "\"4\", \"--access-log\", \"{dir}/access\"");
    let results = run(&experiment(dir.path(), "logged", &[text, &pool].concat()), &out);
    let runs = results["runs"].as_array().unwrap().iter().enumerate();
    let with_its_log = |(number, run): (usize, &Value)| {
        assert!(run["failure"].is_null(), "{run}");
        let log = fs::read_to_string(out.join(format!("logs/{number:05}-pool/access"))).unwrap();
        let written = log.lines().filter(|line| line.contains("/work?sleep=10ms")).count();
        (run.clone(), written as u64)
    };
    runs.map(with_its_log).collect()
}

#[test]
fn a_known_surface_comes_out_with_its_best_cells_claims_and_charts() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let results = run(&study(dir.path()), &out);
    assert_eq!(results["cells"].as_array().unwrap().len(), 12);
    for cell in results["cells"].as_array().unwrap() {
        let workers: f64 = cell["key"]["setting"]["workers"].as_str().unwrap().parse().unwrap();
        let time = if cell["key"]["condition"]["time"] == "2ms" { 0.002 } else { 0.01 };
        let rate = cell["requests_per_second"]["median"].as_f64().unwrap();
        let ideal = workers / time;
        // Sleeping takes longer than was asked for, more so on a busy host, where two can look like four.
        assert!((0.3 * ideal..=1.1 * ideal).contains(&rate), "{cell}: {rate} of {ideal}");
        assert!(cell["tied_best"] == false || workers >= 2.0, "{cell}");
    }
    assert_eq!(results["claims"][0]["judgement"], "reproduced", "{}", results["claims"]);
    assert_eq!(results["claims"][1]["judgement"], "refuted", "{}", results["claims"]);
    let html = fs::read_to_string(out.join("report.html")).unwrap();
    assert_eq!(html.matches("id=\"heat-").count(), 2);
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    if has("chromium", "chromium") {
        draws_every_chart(&out.join("report.html"));
    }
    output_of(plimsoll().args(["lab", "report", "--surface"]).arg(&out));
    let html = fs::read_to_string(out.join("report.html")).unwrap();
    assert_eq!((html.matches("id=\"surface-").count(), html.matches("id=\"heat-").count()), (2, 2));
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    if has("chromium", "chromium") {
        draws_every_chart(&out.join("report.html"));
    }
    let csv = fs::read_to_string(out.join("cells.csv")).unwrap();
    assert!(csv.contains("\"pool\",\"reactors 1, workers 4\",\"time 10ms\",8,"), "{csv}");
}

#[test]
fn an_experiment_that_is_killed_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    // A round of twelve runs is enough to be killed in.
    let file = experiment(dir.path(), "study", &STUDY.replace("rounds = 3", "rounds = 1"));
    let out = dir.path().join("out");
    let mut first = plimsoll();
    first.args(["lab", "run"]).arg(&file).arg("--out").arg(&out).stderr(Stdio::null());
    let mut first = mark(&mut first, dir.path()).spawn().unwrap();
    let runs = || fs::read_dir(out.join("runs")).map_or(0, |runs| runs.count());
    until("three runs are kept and a server runs", || runs() >= 3 && serves(dir.path()));
    first.kill().unwrap();
    first.wait().unwrap();
    // Not even by one that was killed.
    until("no server is left behind", || members(dir.path()).is_empty());
    let before = runs();
    assert!((3..12).contains(&before), "{before}");
    // The quick form is another experiment.
    let (_, said) =
        failed(plimsoll().args(["lab", "run"]).arg(&file).args(["--quick", "--resume"]).arg(&out));
    assert!(said.contains("differs"), "{said}");
    let mut again = plimsoll();
    again.args(["lab", "run"]).arg(&file).arg("--resume").arg(&out);
    output_of(mark(&mut again, dir.path()));
    assert_eq!(results(&out)["runs"].as_array().unwrap().len(), 12);
    assert_eq!(members(dir.path()), Vec::<String>::new());
}

#[test]
fn a_time_budget_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    output_of(
        plimsoll().args(["lab", "run"]).arg(study(dir.path())).args(["--budget", "4s", "--out"]).arg(&out),
    );
    let made = results(&out)["runs"].as_array().unwrap().len();
    assert!((1..36).contains(&made), "{made}");
    // However long the program and a run take on a busy host: none is begun when time is up. All of them would take 25 s.
    let begun = |entry: fs::DirEntry| entry.metadata().unwrap().created().ok();
    let begun: Vec<_> =
        fs::read_dir(out.join("logs")).unwrap().filter_map(|entry| begun(entry.unwrap())).collect();
    let (first, last) = (begun.iter().min(), begun.iter().max());
    let took = first.zip(last).map(|(first, last)| last.duration_since(*first).unwrap());
    assert!(took.is_none_or(|took| took < Duration::from_secs(8)), "{took:?}");
}

#[test]
fn a_regression_between_two_results_is_an_exit_status() {
    let dir = tempfile::tempdir().unwrap();
    let with_workers = |workers: &str| {
        let text =
            "title = \"t\"\npaths = [\"/work?sleep=5ms\"]\nconnections = [8]\nduration_s = 0.4\nrounds = 5\n";
        let text = text.to_owned() + &FOUR_WORKERS.replace("\"4\"", &format!("\"{workers}\""));
        let out = dir.path().join(workers);
        run(&experiment(dir.path(), "pool", &text), &out);
        out
    };
    // Far enough apart that a busy host does not hide it.
    let (eight, one) = (with_workers("8"), with_workers("1"));
    let compare = |first: &Path, second: &Path| {
        let output = plimsoll().args(["lab", "compare"]).args([first, second]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (status, said) = compare(&eight, &one);
    assert!(status == Some(1) && said.contains("WORSE   pool at 8 connections"), "{said}");
    let (status, said) = compare(&one, &eight);
    assert!(status == Some(0) && said.contains("better  pool at 8 connections"), "{said}");
    assert_eq!(compare(&eight, &eight).0, Some(0));
}

#[test]
fn tuned_settings_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("plimsoll.toml"), dir.path().join("out"));
    let mut tune = plimsoll();
    tune.args(["tune", "--work", "5ms", "-c", "16", "--budget", "15s", "--write"]).arg(&file);
    let said = output_of(tune.arg("--out").arg(&out));
    assert!(said.contains("was chosen because") && out.join("report.html").exists(), "{said}");
    // The best of the search are looked at side by side: two of them, in so little time.
    let validation = results(&out.join("validation"));
    assert_eq!(validation["runs"].as_array().unwrap().len(), 6);
    assert!(said.contains(" rounds side by side with ") && said.contains("validation/report.html"), "{said}");
    let text = fs::read_to_string(&file).unwrap();
    // Work that sleeps takes threads: whatever is chosen has some.
    let has_threads = text.contains("workers = ") || text.contains("thread-per-connection");
    assert!(text.contains("model = ") && has_threads, "{text}");
    fs::write(dir.path().join("index.html"), "hello").unwrap();
    let server = Server::start(dir.path(), &["--config", file.to_str().unwrap()]);
    assert!(server.said.contains("settings from"), "{}", server.said);
    let mut client: Client = server.connect();
    assert_eq!(client.get("/").body, b"hello");
    server.stop();
    // A flag that is given wins over a file.
    fs::write(&file, "model = \"reactor-pool\"\nworkers = 2\n").unwrap();
    let server = Server::start(dir.path(), &["--config", file.to_str().unwrap(), "--workers", "3"]);
    assert!(
        server.said.lines().any(|line| line.contains("workers") && line.contains(" 3 ")),
        "{}",
        server.said
    );
    server.stop();
    fs::write(&file, "worker = 3\n").unwrap();
    let (status, said) = failed(plimsoll().args(["serve", "--config"]).arg(&file));
    assert!(status == 2 && said.contains("did you mean \"workers\""), "{status}: {said}");
}

#[test]
fn settings_stay_as_they_are_where_tuning_is_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("plimsoll.toml"), dir.path().join("out"));
    fs::write(&file, "workers = 7\n").unwrap();
    let mut tune = plimsoll();
    tune.args(["tune", "--budget", "10min", "--write"]).arg(&file).arg("--out").arg(&out);
    let tune = mark(&mut tune, dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("a run is kept", || fs::read_dir(out.join("runs")).is_ok_and(|mut runs| runs.next().is_some()));
    kill_process(Pid::from_child(&tune), Signal::INT).unwrap();
    let ended = tune.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!((ended.status.code(), ended.stdout.len()), (Some(1), 0), "{said}");
    assert!(said.contains("interrupted: settings are chosen from a whole search only"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "workers = 7\n");
    assert!(out.join("report.html").exists());
    until("no server is left behind", || members(dir.path()).is_empty());
}

#[test]
fn other_load_generators_find_what_ours_finds() {
    if !has("ab", "apache2-utils") || !has("wrk", "wrk") || !has("h2load", "nghttp2-client") {
        return;
    }
    let text = "title = \"t\"\npaths = [\"/work?sleep=10ms\"]\nconnections = [8]\nduration_s = 1\nrounds = 1\n[load]\n\
                engine = \"{engine}\"\n[factor]\nengine = [\"plimsoll\", \"ab\", \"wrk\", \"h2load\"]\n";
    let runs = runs_with_a_log(text);
    assert_eq!(runs.len(), 4);
    for (run, written) in runs {
        let (engine, outcome) = (&run["cell"]["condition"]["engine"], &run["outcome"]);
        // Whoever asks counts what the server has done, and takes no less for it than four workers that sleep half of
        // their 10 ms at least.
        let requests = outcome["requests"].as_u64().unwrap();
        assert!(requests > 0 && requests <= written, "{engine}: {requests} of {written}");
        let rate = outcome["requests_per_second"].as_f64().unwrap();
        assert!(rate > 0.0 && rate <= 800.0, "{engine}: {rate}");
        let mean = outcome["response_time_us"]["mean"].as_f64().unwrap();
        assert!(mean >= 5_000.0, "{engine}: {mean}");
    }
}

#[test]
fn what_source_d_measured_with_finds_what_ours_finds() {
    if !has("tsung", "tsung") {
        return;
    }
    let text = "title = \"t\"\npaths = [\"/work?sleep=10ms&bytes=100\"]\nconnections = [8]\nclose = [false, true]\n\
                duration_s = 2\nrounds = 1\n[load]\nengine = \"tsung\"\n";
    let runs = runs_with_a_log(text);
    assert_eq!(runs.len(), 2);
    for (run, written) in runs {
        let outcome = &run["outcome"];
        let (requests, seconds) =
            (outcome["requests"].as_u64().unwrap(), outcome["duration_s"].as_f64().unwrap());
        // Two of its seconds, which a busy host makes longer.
        assert!(seconds > 1.5, "{}: {seconds}", run["cell"]);
        let rate = outcome["requests_per_second"].as_f64().unwrap();
        assert!((rate * seconds - requests as f64).abs() < 1e-6 * requests as f64, "{}: {rate}", run["cell"]);
        // The server has done what it counts, and that of the first second beside it.
        assert!(requests > 0 && requests < written, "{}: {requests} of {written}", run["cell"]);
        let mean = outcome["response_time_us"]["mean"].as_f64().unwrap();
        assert!(mean >= 5_000.0, "{}: {mean}", run["cell"]);
        assert_eq!(outcome["statuses"]["200"], requests);
        assert!(outcome["client"]["cpu_s"].as_f64().unwrap() > 0.0, "{}", outcome["client"]);
    }
}

#[test]
fn clients_like_source_as_find_what_ours_finds() {
    let text = "title = \"t\"\npaths = [\"/work?sleep=10ms\"]\nconnections = [8]\nclose = [true]\nduration_s = 1\n\
                rounds = 1\n[load]\nengine = \"{engine}\"\n[factor]\nengine = [\"plimsoll\", \"webbench\"]\n";
    let runs = runs_with_a_log(text);
    assert_eq!(runs.len(), 2);
    for (run, written) in runs {
        let (engine, outcome) = (&run["cell"]["condition"]["engine"], &run["outcome"]);
        assert_eq!(outcome["driver"] == "blocking", engine == "webbench", "{}", outcome["driver"]);
        let errors = outcome["errors"].as_object().unwrap();
        assert!(errors.values().all(|count| *count == 0), "{engine}: {errors:?}");
        // Four workers that take 10 ms each: a busy host only makes them slower.
        let rate = outcome["requests_per_second"].as_f64().unwrap();
        assert!(rate > 0.0 && rate <= 410.0, "{engine}: {rate}");
        // A worker that has overslept makes up for it, and sleeps half of the time at least.
        assert!(outcome["response_time_us"]["mean"].as_f64().unwrap() >= 5_000.0, "{engine}: {outcome}");
        // However busy it is, the load counts what the server wrote down: the lab asks once whether it answers, and each client
        // may leave one request behind at the end.
        let counted = outcome["requests"].as_u64().unwrap() + outcome["drained"].as_u64().unwrap();
        assert!((counted..=counted + 1 + 8).contains(&written), "{engine}: {counted} of {written}");
    }
}

#[test]
fn more_clients_than_a_process_can_have_are_spread_over_several_and_wait_their_turn() {
    let dir = tempfile::tempdir().unwrap();
    let text = "title = \"t\"\npaths = [\"/work?sleep=10ms\"]\nconnections = [120]\nclose = [true]\nduration_s = 1\n\
                rounds = 1\n[load]\nengine = \"{engine}\"\nprocesses = 3\nsources = 2\n\
                [factor]\nengine = [\"plimsoll\", \"webbench\"]\n";
    let file = experiment(dir.path(), "processes", &[text, FOUR_WORKERS].concat());
    let results = run(&file, &dir.path().join("out"));
    let runs = results["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        let (engine, outcome) = (&run["cell"]["condition"]["engine"], &run["outcome"]);
        assert_eq!(outcome["plan"]["processes"], 3, "{engine}");
        // Four workers with 10 ms for each: all clients but four wait at any time, and none of them is left out.
        assert!(outcome["requests_per_second"].as_f64().unwrap() <= 410.0, "{engine}: {outcome}");
        let answered = outcome["requests"].as_u64().unwrap() + outcome["drained"].as_u64().unwrap();
        assert!(answered >= 120, "{engine}: {answered}");
        assert_eq!(outcome["statuses"], serde_json::json!({ "200": answered }), "{engine}");
        let errors = outcome["errors"].as_object().unwrap();
        assert!(errors.values().all(|count| *count == 0), "{engine}: {errors:?}");
        assert!(outcome["client"]["cpu_s"].as_f64().unwrap() > 0.0, "{engine}: of the processes");
    }
}
