//! The experiments that come with the program: each in a short form, and every server in them; and every setting of ours as a
//! factor of one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::common::{is_missing, plimsoll};

/// Everything that decides what a request meets in a server, as factors. What cannot be together, and what would only make the
/// grid larger, is left out.
const FACTORS: &str = r#"
title = "All settings"
paths = ["/"]
connections = [4]
duration_s = 0.15
warmup_s = 0.05
rounds = 1
threads = 1
conditions = ["mode"]
[factor]
model = ["multi-reactor-pool", "reuseport-pool"]
reactors = [1, 2]
workers = [1, 3]
balance = ["round-robin", "least-busy"]
queue = ["mutex", "lock-free"]
order = ["fifo", "lifo"]
mode = ["sleep", "spin"]
[[without]]
reason = "a lock-free queue is first in, first out"
at = { order = "lifo", queue = "lock-free" }
[[without]]
reason = "the kernel spreads connections"
at = { model = "reuseport-pool", balance = "least-busy" }
[[without]]
reason = "fewer cells"
at = { reactors = 1, workers = 3 }
[[without]]
reason = "fewer cells"
at = { reactors = 2, workers = 1 }
[[without]]
reason = "fewer cells"
at = { reactors = 1, mode = "spin" }
[[without]]
reason = "fewer cells"
at = { reactors = 2, mode = "sleep" }
[[file]]
path = "index.html"
bytes = 100
[[target]]
name = "ours"
model = "{model}"
args = [
    "--reactors", "{reactors}", "--workers", "{workers}", "--balance", "{balance}", "--queue", "{queue}",
    "--order", "{order}", "--work", "5ms", "--work-mode", "{mode}",
]
"#;

/// Runs an experiment into a directory, and gives what it said and its results.
fn run(experiment: &Path, arguments: &[&str], out: &Path) -> (Output, Value) {
    let mut run = plimsoll();
    let output = run.args(["lab", "run"]).arg(experiment).args(arguments).arg("--out").arg(out).output();
    let results = fs::read(out.join("results.json")).unwrap_or_default();
    (output.unwrap(), serde_json::from_slice(&results).unwrap_or_default())
}

#[test]
fn every_setting_can_be_a_factor_and_arrives_at_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("factors.toml"), dir.path().join("out"));
    fs::write(&file, FACTORS).unwrap();
    let (said, results) = run(&file, &[], &out);
    assert!(said.status.success(), "{said:?}");
    let runs = results["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 18);
    for (number, run) in runs.iter().enumerate() {
        assert!(run["failure"].is_null(), "{run}");
        let log = fs::read_to_string(out.join(format!("logs/{number:05}-ours/log"))).unwrap();
        let settings = run["cell"]["setting"].as_object().unwrap();
        assert_eq!(settings.len(), 6, "{settings:?}");
        // Where the kernel spreads connections, or one reactor has them all, the server says nothing of a balance.
        let is_balanced = settings["model"] == "multi-reactor-pool" && settings["reactors"] != "1";
        let says = |name: &str| name != "balance" || is_balanced;
        for (name, level) in settings.iter().filter(|(name, _)| says(name)) {
            let level = level.as_str().unwrap();
            let is_it = |line: &str| line.split_whitespace().take(2).eq([name.as_str(), level]);
            assert!(log.lines().any(is_it), "{name} is not {level}: {log}");
        }
    }
    // Work that computes takes the 5 ms of a processor, and work that sleeps next to nothing: as a rule, since a busy host may
    // let a short run end with more or less of it.
    let cost = |mode: &str| {
        let of_mode = runs.iter().filter(|run| run["cell"]["condition"]["mode"] == mode);
        let mut costs: Vec<f64> =
            of_mode.filter_map(|run| run["server"]["cpu_us_per_request"].as_f64()).collect();
        costs.sort_by(f64::total_cmp);
        assert!(costs.len() > 4, "{costs:?}");
        costs[costs.len() / 2]
    };
    assert!(cost("sleep") < 2500.0 && cost("spin") > 2500.0, "{} {}", cost("sleep"), cost("spin"));
    // Each of them is in the report, but for those that a busy host had no answer of in so short a run.
    let csv = fs::read_to_string(out.join("cells.csv")).unwrap();
    let of = |key: &str| results[key].as_array().map_or(&[][..], Vec::as_slice);
    assert_eq!(of("cells").len() + of("unmeasured").len(), 18, "{csv}");
    for cell in of("cells") {
        let levels = cell["key"]["setting"].as_object().unwrap().iter();
        let levels: Vec<_> =
            levels.map(|(name, level)| format!("{name} {}", level.as_str().unwrap())).collect();
        assert!(csv.contains(&levels.join(", ")), "{levels:?} is not in {csv}");
    }
}

/// The experiments of the repository, by name.
fn all() -> Vec<(String, PathBuf)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let named = files.map(|file| (file.file_stem().unwrap().to_str().unwrap().to_owned(), file));
    let mut all: Vec<_> =
        named.filter(|(_, file)| file.extension().is_some_and(|end| end == "toml")).collect();
    all.sort();
    assert!(all.len() >= 18, "{all:?}");
    all
}

/// An experiment whose quick form has every target once, at the first level of every factor, for so many seconds. A search is
/// made a load: it takes long, and is tried elsewhere.
fn once(mut plan: toml::Table, seconds: f64) -> String {
    if plan.remove("search").is_some() {
        plan.remove("claim");
        plan.insert("connections".into(), vec![8].into());
    }
    let table =
        |value: Option<&toml::Value>| value.and_then(toml::Value::as_table).cloned().unwrap_or_default();
    let quick = table(plan.get("quick"));
    let first = |levels: &toml::Value| toml::Value::Array(levels.as_array().unwrap()[..1].to_vec());
    let mut once = toml::Table::new();
    for (name, value) in [
        ("rounds", 1.into()),
        ("duration_s", seconds.into()),
        ("warmup_s", 0.05.into()),
        ("connections", vec![8].into()),
    ] {
        once.insert(name.into(), value);
    }
    for name in ["paths", "close"] {
        if let Some(levels) = quick.get(name).or(plan.get(name)) {
            once.insert(name.into(), first(levels));
        }
    }
    let mut factors = table(plan.get("factor"));
    factors.extend(table(quick.get("factor")));
    let factors: toml::Table = factors.iter().map(|(name, levels)| (name.clone(), first(levels))).collect();
    once.insert("factor".into(), factors.into());
    plan.insert("quick".into(), once.into());
    toml::to_string(&plan).unwrap()
}

/// What became of the targets of an experiment of which no run of so many seconds was good, by name. One that is not installed is
/// none of them, unless all must be.
fn without_a_good_run(plan: &toml::Table, seconds: f64) -> BTreeMap<String, Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("short.toml"), dir.path().join("out"));
    fs::write(&file, once(plan.clone(), seconds)).unwrap();
    let (said, results) = run(&file, &["--quick"], &out);
    let runs = results["runs"].as_array().unwrap_or_else(|| panic!("{said:?}"));
    // In so short a time a busy host may have an answer only when it is over: that is one too.
    let is_good = |run: &Value| {
        let statuses = run["outcome"]["statuses"].as_object();
        run["failure"].is_null() && statuses.is_some_and(|statuses| statuses.keys().eq(["200"]))
    };
    let mut bad = BTreeMap::new();
    for target in plan["target"].as_array().unwrap().iter().map(|target| target["name"].as_str().unwrap()) {
        let of_it: Vec<&Value> = runs.iter().filter(|run| run["cell"]["target"] == target).collect();
        let became: Vec<String> = of_it.iter().copied().map(brief).collect();
        let package =
            |what: &String| Some(what.split_once(" is not installed: apt-get install ")?.1.to_owned());
        let is_skipped = became.iter().find_map(package).is_some_and(|package| !is_missing(target, &package));
        if !is_skipped && !of_it.into_iter().any(is_good) {
            bad.insert(target.to_owned(), became);
        }
    }
    bad
}

/// What matters of a run.
fn brief(run: &Value) -> String {
    let Value::Object(outcome) = &run["outcome"] else { return run["failure"].to_string() };
    format!("{} {} {}", run["verdict"], outcome["statuses"], outcome["errors"])
}

#[test]
fn every_server_of_every_experiment_answers_from_its_configuration() {
    for (name, file) in all() {
        let mut plan: toml::Table = fs::read_to_string(&file).unwrap().parse().unwrap();
        let mut bad = without_a_good_run(&plan, 0.2);
        // Where the host was too busy for that there is more time.
        for seconds in [2.0, 20.0] {
            let Some(toml::Value::Array(targets)) = plan.get_mut("target") else { panic!("{name}") };
            targets.retain(|target| bad.contains_key(target["name"].as_str().unwrap()));
            if targets.is_empty() {
                break;
            }
            // Of the others nothing can be claimed any more.
            for about_others in ["claim", "budget"] {
                plan.remove(about_others);
            }
            bad = without_a_good_run(&plan, seconds);
        }
        assert!(bad.is_empty(), "{name}: {bad:?}");
    }
}

/// Looks at an experiment for so long, and whether there was time for a figure.
fn has_a_figure(name: &str, seconds: u32) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let (said, results) = run(Path::new(name), &["--quick", "--budget", &format!("{seconds}s")], &out);
    let of = |key: &str| results[key].as_array().unwrap_or_else(|| panic!("{name}: {said:?}"));
    if of("cells").is_empty() {
        return false;
    }
    // A goal that is missed in so short a time says nothing.
    assert!(
        said.status.success() || !of("budgets").is_empty() && said.status.code() == Some(1),
        "{name}: {said:?}"
    );
    assert!(of("runs").iter().any(|run| run["failure"].is_null()), "{name}: {said:?}");
    assert!(!results["question"].as_str().unwrap().is_empty() && out.join("results.sqlite").exists());
    true
}

#[test]
fn the_sources_experiments_run_for_a_few_seconds_each() {
    let three = [
        "reactor-study",
        "reactor-clients",
        "thread-pool-scaling",
        "fast-slow",
        "ten-thousand",
        "server-comparison",
        "noise",
    ];
    let six =
        ["reactor-open", "auto", "overload", "fast-slow-soak", "highest-concurrency", "server-long-run"];
    // A profile, and a server that settles, take longer.
    let longer = [("recovery", 14), ("oscillation", 19)];
    let shorter = three.map(|name| (name, 3)).into_iter().chain(six.map(|name| (name, 6)));
    for (name, seconds) in shorter.chain(longer) {
        // Where the host was too busy for that there is more time.
        let enough = [1, 4, 12].into_iter().any(|times| has_a_figure(name, times * seconds));
        assert!(enough, "{name} has no figure");
    }
}
