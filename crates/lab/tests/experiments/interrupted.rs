//! Experiments that do not come to their end: interrupted, killed, on a full disk, and gone on with.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lab::{Options, Run};

use crate::common::helper;
use crate::{Lab, plan, processes_with, soon, stored};

#[test]
fn an_interrupt_ends_the_run_under_way_and_keeps_the_others() {
    let lab = Lab::of(plan(&["ok"], "connections = [1, 2, 3, 4, 5, 6, 7, 8]\nduration_s = 1\nrounds = 3"));
    let start = Instant::now();
    let cancel = lab.options.cancel.clone();
    let observer = &mut |progress: &lab::Progress| {
        if progress.done == 2 {
            let cancel = cancel.clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(300));
                cancel.set();
            });
        }
    };
    let summary = lab::run(&lab.options, observer).unwrap();
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!((summary.results.runs.len(), lab.stored().runs.len()), (2, 2));
    assert_eq!(
        summary.results.verdict.reasons()[0],
        "it was interrupted after 2 of 24 runs: some cells were not measured in every round"
    );
}

#[test]
fn an_experiment_that_is_gone_on_with_keeps_its_command_and_marks_another_program() {
    let lab = Lab::of(plan(&["ok"], "connections = [1, 2]\nduration_s = 0.2\nrounds = 2"));
    let cancel = lab.options.cancel.clone();
    let mut stop = |progress: &lab::Progress| {
        if progress.done == 1 {
            cancel.set();
        }
    };
    let first = lab::run(&lab.options, &mut stop).unwrap().results;
    // Another build of the same: what is behind the end of a program is never looked at.
    let program = lab.out.path().join("lab-test-helper");
    fs::copy(helper(), &program).unwrap();
    let mut bytes = fs::read(&program).unwrap();
    bytes.push(0);
    fs::write(&program, bytes).unwrap();
    let again = Options {
        resume: true,
        cancel: load::Switch::default(),
        command: "plimsoll lab run test --resume".into(),
        program,
        ..lab.options.clone()
    };
    let whole = lab::run(&again, &mut |_| {}).unwrap().results;
    assert_eq!((whole.runs.len(), &whole.command, &whole.started), (4, &first.command, &first.started));
    let now = whole.environment.iter().find(|(name, _)| name == "plimsoll since run 1");
    assert!(now.is_some_and(|(_, hash)| hash.contains("sha256 ")), "{:?}", whole.environment);
    let why = "another plimsoll since run 1";
    assert!(whole.verdict.reasons().iter().any(|reason| reason.contains(why)), "{:?}", whole.verdict);
}

#[test]
fn a_disk_that_is_full_ends_it_with_the_way_on_and_loses_nothing_that_was_kept() {
    let directory = tempfile::tempdir().unwrap();
    let (file, out) = (directory.path().join("killed.toml"), directory.path().join("out"));
    let text = plan(&["ok"], "connections = [1, 2, 3, 4, 5, 6, 7, 8]\nduration_s = 0.2\nrounds = 2");
    fs::write(&file, &text).unwrap();
    // No file may have more than 64 KiB, in blocks of 512 bytes: to write more is an error, as on a full disk.
    let limited = "trap '' XFSZ; ulimit -f 128; exec \"$0\" lab \"$1\" \"$2\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited]).arg(helper()).args([&file, &out]);
    let ended = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    let way_on = format!("what was kept so far is whole: go on with --resume {}", out.display());
    assert!(ended.status.code() == Some(1) && said.contains(&way_on), "{:?}: {said}", ended.status);
    let kept = fs::read_dir(out.join("runs")).unwrap().count();
    assert!((1..16).contains(&kept), "{kept}");
    let options = Options { resume: true, ..Options::new("killed", text, &out, helper()) };
    let results = lab::run(&options, &mut |_| {}).unwrap().results;
    assert_eq!((results.runs.len(), stored(&out).runs.len(), results.cells.len()), (16, 16, 8));
    let database = rusqlite::Connection::open(out.join("results.sqlite")).unwrap();
    let rows: i64 = database.query_row("SELECT count(*) FROM run", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 16);
}

/// Kills what it holds, so that a failed test leaves nothing behind either.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_lab_that_is_killed_loses_one_run_and_leaves_no_server() {
    let directory = tempfile::tempdir().unwrap();
    let (file, out) = (directory.path().join("killed.toml"), directory.path().join("out"));
    let mark = directory.path().display().to_string();
    // Its child has left the group, and knows nobody.
    let script = format!(
        "setsid sh -c 'while :; do sleep 1; done # {mark}' & {} serve $0; : {mark}",
        helper().display()
    );
    let target = format!("[[target]]\nname = \"x\"\ncommand = [\"sh\", \"-c\", {script:?}, \"{{port}}\"]\n");
    fs::write(&file, plan(&[], "connections = [1, 2, 3, 4]\nduration_s = 0.5\nrounds = 3") + &target)
        .unwrap();
    let mut command = Command::new(helper());
    command.arg("lab").args([&file, &out]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut lab = Reaped(command.spawn().unwrap());
    let is_json = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
    let runs_kept = || -> Vec<PathBuf> {
        let files = fs::read_dir(out.join("runs")).into_iter().flatten().flatten().map(|entry| entry.path());
        files.filter(is_json).collect()
    };
    // The lab, the server, and its child.
    soon("two runs are kept and another runs", || runs_kept().len() >= 2 && processes_with(&mark).len() >= 3);
    lab.0.kill().unwrap();
    lab.0.wait().unwrap();
    let kept = runs_kept();
    for file in &kept {
        let run: Run = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert!(run.failure.is_none() && run.outcome.is_some(), "{run:?}");
    }
    let database = rusqlite::Connection::open(out.join("results.sqlite")).unwrap();
    let rows: usize = database
        .query_row("SELECT count(*) FROM run WHERE requests > 0", [], |row| row.get::<_, i64>(0))
        .unwrap() as usize;
    // The kill may fall between the file of a run and its row.
    assert!((kept.len() - 1..=kept.len()).contains(&rows) && rows >= 1, "{rows} of {}", kept.len());
    soon("the server and its child are gone", || processes_with(&mark).is_empty());
}
