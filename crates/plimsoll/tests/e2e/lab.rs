//! `plimsoll lab`: an experiment from its plan to its report, in a real browser.

use std::fs;
use std::path::Path;
use std::thread;

use crate::browser::draws_every_chart;
use crate::common::{failed, has, output_of, plimsoll, until};
use crate::family::{mark, members, serves};

const PLAN: &str = r#"
title = "A test of <the> lab"
paths = ["/index.html"]
connections = [1, 4]
rounds = 3
duration_s = 0.3
warmup_s = 0.05
[[file]]
path = "index.html"
bytes = 512
[[target]]
name = "reactor"
model = "reactor"
[[target]]
name = "two"
model = "multi-reactor"
args = ["--reactors", "2"]
# Reads its own configuration by an absolute path, from another directory.
[[target]]
name = "configured"
command = ["sh", "-c", "cd / && exec sh {dir}/start.sh", "sh"]
[target.config]
"start.sh" = "exec {bin_dir}/plimsoll serve {root} --listen 127.0.0.1:{port}"
[[target]]
name = "not there"
command = ["no-such-server", "{port}"]
install = "apt-get install no-such-server"
[[budget]]
target = "two"
against = "reactor"
metric = "requests_per_second"
at_least = 0.0
"#;

fn run(dir: &Path) -> (String, std::path::PathBuf) {
    let plan = dir.join("plan.toml");
    fs::write(&plan, PLAN).unwrap();
    let out = dir.join("out");
    // Where to write is given from where it runs, as people do.
    let mut run = plimsoll();
    run.current_dir(dir).args(["lab", "run"]).arg(&plan).args(["--out", "out"]);
    (output_of(mark(&mut run, dir)), out)
}

#[test]
fn an_experiment_leaves_its_results_and_no_server() {
    let dir = tempfile::tempdir().unwrap();
    let (text, out) = thread::scope(|scope| {
        let run = scope.spawn(|| run(dir.path()));
        // It would be found if it were left.
        until("a server runs", || serves(dir.path()));
        run.join().unwrap()
    });
    for part in ["reactor", "two", "budget met: two / reactor", "SUSPECT", "6 of 24 runs failed", "report: "]
    {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    let results: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("results.json")).unwrap()).unwrap();
    let runs = results["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 24);
    for run in runs {
        if run["cell"]["target"] == "not there" {
            let why = "no-such-server is not installed: apt-get install no-such-server";
            assert_eq!(run["failure"], why);
        } else {
            assert!(run["failure"].is_null(), "{run}");
        }
    }
    // On a busy host a run as short as these can be over before its first answer; not in every round.
    for cell in results["cells"].as_array().unwrap() {
        assert!(cell["requests_per_second"]["median"].as_f64().unwrap() > 0.0, "{cell}");
        assert!(cell["server_cpu_us_per_request"]["median"].as_f64().unwrap() > 0.0, "{cell}");
    }
    assert_eq!(results["cells"].as_array().unwrap().len(), 6);
    // Each round has every cell once, and not always in the same order.
    let order = |round: u64| -> Vec<String> {
        runs.iter().filter(|run| run["round"] == round).map(|run| run["cell"].to_string()).collect()
    };
    let sorted = |mut cells: Vec<String>| {
        cells.sort();
        cells
    };
    assert_eq!(sorted(order(0)), sorted(order(1)));
    assert!(order(0) != order(1) || order(1) != order(2));
    assert_eq!(fs::read_dir(out.join("runs")).unwrap().count(), 24);
    assert_eq!(fs::read_to_string(out.join("cells.csv")).unwrap().lines().count(), 7);
    for name in ["plan.toml", "summary.md", "report.html"] {
        assert!(fs::metadata(out.join(name)).unwrap().len() > 100, "{name}");
    }
    assert_eq!(members(dir.path()), Vec::<String>::new(), "left behind");
    // A second run into the same directory would mix two experiments.
    let (status, said) = failed(plimsoll().args(["lab", "run", "models", "--out"]).arg(&out));
    assert!(status == 1 && said.contains("exists already"), "{status}: {said}");
}

#[test]
fn a_server_can_be_asked_to_end() {
    let dir = tempfile::tempdir().unwrap();
    let (plan, out) = (dir.path().join("plan.toml"), dir.path().join("out"));
    // It is no server, and says which signals are kept from it: SIGTERM would never arrive at one that does not look.
    let text = "title = \"t\"\npaths = [\"/x\"]\nconnections = [1]\nrounds = 1\nduration_s = 0.2\n\
                [[file]]\npath = \"x\"\nbytes = 1\n\
                [[target]]\nname = \"x\"\ncommand = [\"grep\", \"SigBlk\", \"/proc/self/status\"]\n";
    fs::write(&plan, text).unwrap();
    plimsoll().args(["lab", "run"]).arg(&plan).arg("--out").arg(&out).output().unwrap();
    let log = fs::read_to_string(out.join("logs/00000-x/log")).unwrap();
    assert_eq!(log, "SigBlk:\t0000000000000000\n");
}

#[test]
fn the_report_is_whole_and_draws_its_charts_in_a_browser() {
    let dir = tempfile::tempdir().unwrap();
    let (_, out) = run(dir.path());
    let report = out.join("report.html");
    let html = fs::read_to_string(&report).unwrap();
    assert!(html.len() < 1_200_000, "{} bytes", html.len());
    assert!(html.contains("A test of &lt;the&gt; lab") && !html.contains("<the>"));
    if has("chromium", "chromium") {
        draws_every_chart(&report);
    }
    // Results read back make the same report.
    fs::remove_file(&report).unwrap();
    output_of(plimsoll().args(["lab", "report"]).arg(&out));
    assert_eq!(fs::read_to_string(&report).unwrap(), html);
}

#[test]
fn the_experiments_that_come_with_it_are_listed() {
    let text = output_of(plimsoll().args(["lab", "list"]));
    assert!(
        text.lines().any(|line| line.starts_with("models "))
            && text.lines().any(|line| line.starts_with("floor "))
    );
}

#[test]
fn a_search_for_the_most_clients_is_marked_as_a_lower_bound_and_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let (plan, out) = (dir.path().join("plan.toml"), dir.path().join("out"));
    let search = "title = \"t\"\npaths = [\"/index.html\"]\nrounds = 1\nduration_s = 0.3\n\
                  [search]\nstart = 4\nmost = 8\n[[file]]\npath = \"index.html\"\nbytes = 512\n\
                  [[target]]\nname = \"one\"\nmodel = \"reactor\"\n[[target]]\nname = \"two\"\nmodel = \"multi-reactor\"\n";
    fs::write(&plan, search).unwrap();
    let text = output_of(plimsoll().args(["lab", "run"]).arg(&plan).arg("--out").arg(&out));
    assert_eq!(text.matches("at least 8.00 [n/a]").count(), 2, "{text}");
    if has("chromium", "chromium") {
        draws_every_chart(&out.join("report.html"));
    }
}
