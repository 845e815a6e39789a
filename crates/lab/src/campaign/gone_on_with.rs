//! Going on with an experiment of which files are missing, cut short, or of runs that failed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::tests::{PLAN, campaign, surface};
use super::*;
use crate::fake;

/// Two targets in three rounds, in a directory.
struct Experiment {
    plan: Plan,
    out: tempfile::TempDir,
}

impl Experiment {
    fn new() -> Self {
        Experiment { plan: fake::plan(&["a", "b"], ""), out: tempfile::tempdir().unwrap() }
    }

    fn directory(&self) -> PathBuf {
        self.out.path().join("x")
    }

    /// Makes what is left of it, where one target may be missing; gives the results, and the numbers of the runs that were made.
    fn run(&self, store: &Store, before: Kept, missing: Option<&str>) -> (Results, Vec<usize>) {
        let mut made = Vec::new();
        let mut measure = |number: usize, _: u32, key: &CellKey| {
            made.push(number);
            match missing == Some(key.target.as_str()) {
                true => Err(format!("{} is not installed", key.target)),
                false => Ok(fake::measured(key, 1_000.0, 10.0).into()),
            }
        };
        let results = Results { rounds: 3, planned_runs: 6, ..fake::results(&[], 0, |_, _| (0.0, 0.0)) };
        let cancel = Switch::default();
        let campaign = Campaign { plan: &self.plan, store, cancel: &cancel, budget: None };
        let results = campaign.run(results, before, &mut |_| {}, &mut measure).unwrap();
        (results, made)
    }

    fn begin(&self, missing: Option<&str>) {
        let store = Store::create(&self.directory(), "").unwrap();
        assert_eq!(self.run(&store, Kept::default(), missing).1, [0, 1, 2, 3, 4, 5]);
    }

    /// Goes on with it; gives the results, the numbers of the runs that were made, and what could not be read.
    fn resume(&self, missing: Option<&str>) -> (Results, Vec<usize>, Vec<String>) {
        let (store, before) = Store::resume(&self.directory(), "").unwrap();
        let losses = before.losses();
        let (results, made) = self.run(&store, before.kept, missing);
        (results, made, losses)
    }

    /// The files of its runs with what they hold, but those of some numbers.
    fn files(&self, but: &[usize]) -> BTreeMap<String, String> {
        let files = fs::read_dir(self.directory().join("runs")).unwrap().map(|entry| entry.unwrap().path());
        let named = files.map(|file| (file.file_name().unwrap().to_str().unwrap().to_owned(), file));
        let others =
            named.filter(|(name, _)| !but.iter().any(|number| name.starts_with(&format!("{number:05}-"))));
        others.map(|(name, file)| (name, fs::read_to_string(file).unwrap())).collect()
    }

    fn file(&self, number: usize) -> PathBuf {
        let begins = format!("{number:05}-");
        let name = self.files(&[]).into_keys().find(|name| name.starts_with(&begins)).unwrap();
        self.directory().join("runs").join(name)
    }

    /// The numbers and targets of the runs that the database has.
    fn rows(&self) -> Vec<(usize, String)> {
        let database = rusqlite::Connection::open(self.directory().join("results.sqlite")).unwrap();
        let mut asked = database.prepare("SELECT id, target FROM run ORDER BY id").unwrap();
        let rows = asked.query_map([], |row| Ok((row.get::<_, i64>(0)? as usize, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// Whether the database has the same runs as there are files of them.
    fn rows_are_those_of_the_files(&self) -> bool {
        let files = self.files(&[]).into_keys().filter(|name| name.ends_with(".json"));
        let files: Vec<(usize, String)> = files
            .map(|name| {
                let (number, target) = name.trim_end_matches(".json").split_once('-').unwrap();
                (number.parse().unwrap(), target.to_owned())
            })
            .collect();
        self.rows() == files
    }
}

fn write(path: &Path, content: &str) {
    fs::write(path, content).unwrap();
}

#[test]
fn a_run_whose_file_was_removed_is_made_again_and_no_other_file_changes() {
    let experiment = Experiment::new();
    experiment.begin(None);
    fs::remove_file(experiment.file(2)).unwrap();
    let before = experiment.files(&[]);
    let (results, made, losses) = experiment.resume(None);
    assert_eq!((results.runs.len(), made, losses.len()), (6, vec![6], 0));
    assert_eq!(experiment.files(&[6]), before);
    assert!(experiment.rows_are_those_of_the_files(), "{:?}", experiment.rows());
    // The round that it was made in is that which was missing.
    assert!(results.cells.iter().all(|cell| cell.rounds == 3), "{:?}", results.cells);
}

#[test]
fn a_file_that_is_cut_short_is_told_of_and_its_run_made_again() {
    for content in ["", "{ \"cell\": {"] {
        let experiment = Experiment::new();
        experiment.begin(None);
        let file = experiment.file(3);
        write(&file, content);
        write(&experiment.directory().join("results.json"), content);
        let (results, made, losses) = experiment.resume(None);
        assert_eq!((results.runs.len(), results.cells.len(), made), (6, 2, vec![6]));
        let begins = format!(
            "{} could not be read (EOF while parsing ",
            fs::canonicalize(&experiment.out)
                .unwrap()
                .join("x/runs")
                .join(file.file_name().unwrap())
                .display()
        );
        assert!(losses.len() == 1 && losses[0].starts_with(&begins), "{losses:?}");
        assert!(losses[0].ends_with("): its run was made again"), "{losses:?}");
        assert!(experiment.rows_are_those_of_the_files(), "{:?}", experiment.rows());
        // It is told once, and its number is not given to another run.
        assert!(!file.exists() && file.with_extension("unreadable").exists());
        let (_, made, losses) = experiment.resume(None);
        assert_eq!((made.len(), losses.len()), (0, 0));
    }
}

#[test]
fn what_failed_is_made_again_until_it_succeeds() {
    let experiment = Experiment::new();
    experiment.begin(Some("b"));
    // It is still missing.
    let (results, made, _) = experiment.resume(Some("b"));
    assert_eq!((results.runs.len(), results.cells.len(), made), (6, 1, vec![6, 7, 8]));
    assert!(experiment.rows_are_those_of_the_files(), "{:?}", experiment.rows());
    let (results, made, _) = experiment.resume(None);
    assert_eq!((results.runs.len(), results.cells.len(), made), (6, 2, vec![9, 10, 11]));
    assert_eq!((results.cells[1].rounds, results.verdict), (3, Verdict::Valid));
    assert!(experiment.rows_are_those_of_the_files(), "{:?}", experiment.rows());
    // What they had failed by is still there to be read.
    let files = experiment.files(&[]);
    let failed: Vec<_> = files.iter().filter(|(name, _)| name.ends_with("-b.failed")).collect();
    assert!(failed.len() == 6 && failed.iter().all(|(_, text)| text.contains("b is not installed")));
    assert!(experiment.resume(None).1.is_empty());
}

#[test]
fn a_failure_that_was_made_again_before_a_kill_is_not_made_once_more() {
    let experiment = Experiment::new();
    experiment.begin(Some("b"));
    let old = experiment.file(if experiment.file(0).ends_with("00000-b.json") { 0 } else { 1 });
    let text = fs::read_to_string(&old).unwrap();
    experiment.resume(None);
    // As if it had been killed between the new file and what becomes of the old one.
    write(&old, &text);
    assert!(experiment.resume(None).1.is_empty());
    assert!(!old.exists() && experiment.rows_are_those_of_the_files());
}

#[test]
fn the_tables_of_another_version_are_told_of_before_anything_runs() {
    let experiment = Experiment::new();
    experiment.begin(None);
    let file = experiment.directory().join("results.sqlite");
    rusqlite::Connection::open(&file).unwrap().execute_batch("PRAGMA user_version = 2").unwrap();
    let error = Store::resume(&experiment.directory(), "").err().unwrap().to_string();
    let said = "results.sqlite: has version 2 of the tables, and this program writes version 3: go on with the program \
                that began it, or begin anew with another --out";
    assert!(error.ends_with(said), "{error}");
}

#[test]
fn an_experiment_that_was_killed_goes_on_where_it_was() {
    let out = tempfile::tempdir().unwrap();
    let plan = Plan::parse(PLAN, "x.toml").unwrap();
    let directory = out.path().join("x");
    let cancel = Switch::default();
    let empty = || Results { planned_runs: 18, rounds: 3, ..fake::results(&[], 0, |_, _| (0.0, 0.0)) };
    let mut first = |number, _, key: &CellKey| {
        if number == 7 {
            cancel.set();
        }
        Ok(surface(key).into())
    };
    let store = Store::create(&directory, PLAN).unwrap();
    campaign(&plan, &store, &cancel).run(empty(), Kept::default(), &mut |_| {}, &mut first).unwrap();
    // Half of a run was on the disk when it was killed, and the summary was not.
    fs::write(directory.join("runs/00007-a.part"), "{").unwrap();
    fs::remove_file(directory.join("results.json")).unwrap();
    let (store, before) = Store::resume(&directory, PLAN).unwrap();
    assert_eq!((before.kept.runs.len(), before.results.is_none()), (7, true));
    let mut made = 0;
    let mut second = |_: usize, _: u32, key: &CellKey| {
        made += 1;
        Ok(surface(key).into())
    };
    let cancel = Switch::default();
    let results =
        campaign(&plan, &store, &cancel).run(empty(), before.kept, &mut |_| {}, &mut second).unwrap();
    assert_eq!((made, results.runs.len(), results.cells.len()), (11, 18, 6));
    assert_eq!(results.verdict, Verdict::Valid);
    assert!(Store::resume(&directory, "title = 2").is_err());
}
