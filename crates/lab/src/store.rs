//! Where an experiment's results are kept: one directory, written so that a crash loses one run at most.

mod kept;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::database::{Database, VERSION};
use crate::error::Error;
use crate::key::levels;
use crate::replace::replace;
use crate::report;
use crate::results::{Cell, Estimate, Results, Run};

pub(crate) use self::kept::{Before, Kept};

/// The name of the database.
const DATABASE: &str = "results.sqlite";

/// The ending of the file of a run that failed, and was made again since.
const FAILED: &str = "failed";

/// The ending of a file that could not be read, and is made again.
const UNREADABLE: &str = "unreadable";

/// The directory of one experiment.
pub(crate) struct Store {
    directory: PathBuf,
    database: RefCell<Database>,
}

impl Store {
    /// Makes the directory; it must not be there yet.
    pub(crate) fn create(directory: &Path, plan: &str) -> Result<Self, Error> {
        if let Some(parent) = directory.parent() {
            fs::create_dir_all(parent).map_err(Error::file(parent))?;
        }
        fs::create_dir(directory).map_err(|cause| match cause.kind() {
            ErrorKind::AlreadyExists => Error::Exists(directory.into()),
            _ => Error::File { path: directory.into(), cause },
        })?;
        // Servers are given paths below it, and need not have our working directory.
        let directory = fs::canonicalize(directory).map_err(Error::file(directory))?;
        let runs = directory.join("runs");
        fs::create_dir(&runs).map_err(Error::file(&runs))?;
        // Without it there is nothing to go on with, whatever fails later.
        let file = directory.join("plan.toml");
        replace(&file, plan).map_err(Error::file(&file))?;
        Store::at(directory)
    }

    /// The store in a directory that is there.
    fn at(directory: PathBuf) -> Result<Self, Error> {
        let path = directory.join(DATABASE);
        let refuse = |cause| Error::Database { path: path.clone(), directory: directory.clone(), cause };
        let database = Database::open(&path).map_err(refuse)?;
        match database.version().map_err(refuse)? {
            VERSION => Ok(Store { directory, database: RefCell::new(database) }),
            version => Err(Error::OtherVersion { path, version, known: VERSION }),
        }
    }

    /// Goes on in the directory of an experiment that was interrupted.
    ///
    /// # Errors
    /// It is no such directory, or was made with another plan.
    pub(crate) fn resume(directory: &Path, plan: &str) -> Result<(Self, Before), Error> {
        let directory = fs::canonicalize(directory).map_err(Error::file(directory))?;
        let file = directory.join("plan.toml");
        let before = fs::read_to_string(&file).map_err(Error::file(&file))?;
        if before != plan {
            return Err(Error::OtherPlan(file));
        }
        let mut before = Before::read(&directory)?;
        let store = Store::at(directory)?;
        before.kept.take_replaced().iter().try_for_each(|(number, run)| store.replaced(*number, run))?;
        before.unreadable.iter().try_for_each(|(path, _)| store.put_aside(path, UNREADABLE))?;
        // What was killed between the file of a run and the database has the file only, and what has no file is made again.
        store.in_database(|database| {
            let known = database.runs()?;
            let files: BTreeMap<i64, &Run> = before.kept.files().map(|(id, run)| (id as i64, run)).collect();
            known.iter().filter(|id| !files.contains_key(id)).try_for_each(|id| database.forget_run(*id))?;
            let mut missing = files.iter().filter(|(id, _)| !known.contains(id));
            missing.try_for_each(|(id, run)| database.keep_run(*id as usize, run))
        })?;
        Ok((store, before))
    }

    /// A directory for the files of one run's server: its configuration and its log.
    pub(crate) fn own_files(&self, number: usize, target: &str) -> PathBuf {
        self.directory.join("logs").join(format!("{number:05}-{target}"))
    }

    /// Keeps one run as it was measured.
    pub(crate) fn keep_run(&self, number: usize, run: &Run) -> Result<(), Error> {
        self.write(&file_of(number, run), &json(run))?;
        self.in_database(|database| database.keep_run(number, run))
    }

    /// Puts a run that failed aside, since it was made again: its file has another ending then.
    pub(crate) fn replaced(&self, number: usize, run: &Run) -> Result<(), Error> {
        self.put_aside(&self.directory.join(file_of(number, run)), FAILED)?;
        self.in_database(|database| database.forget_run(number as i64))
    }

    fn put_aside(&self, path: &Path, ending: &str) -> Result<(), Error> {
        fs::rename(path, path.with_extension(ending)).map_err(Error::file(path))
    }

    fn in_database(&self, put: impl FnOnce(&mut Database) -> rusqlite::Result<()>) -> Result<(), Error> {
        let (path, directory) = (self.directory.join(DATABASE), self.directory.clone());
        put(&mut self.database.borrow_mut()).map_err(|cause| Error::Database { path, directory, cause })
    }

    /// Keeps all that is known so far; everything else can be made from it again.
    pub(crate) fn keep(&self, results: &Results) -> Result<(), Error> {
        self.write("results.json", &json(results))?;
        self.in_database(|database| database.keep(results))
    }

    /// Writes what people and other programs read.
    pub(crate) fn keep_reports(&self, results: &Results) -> Result<(), Error> {
        self.write("cells.csv", &csv(results))?;
        self.write("summary.md", &report::markdown(results))?;
        self.write("report.html", &report::html(results))
    }

    /// Where the report is.
    pub(crate) fn report(&self) -> PathBuf {
        self.directory.join("report.html")
    }

    /// Writes a file of the results.
    fn write(&self, name: &str, content: &str) -> Result<(), Error> {
        let path = self.directory.join(name);
        replace(&path, content).map_err(|cause| Error::Results {
            path,
            directory: self.directory.clone(),
            cause,
        })
    }
}

/// The name of the file of a run.
fn file_of(number: usize, run: &Run) -> String {
    format!("runs/{number:05}-{}.json", run.cell.target)
}

fn json(value: &impl serde::Serialize) -> String {
    // Plain structs with string keys always serialise.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// The cells as a table for other programs.
pub fn csv(results: &Results) -> String {
    let mut text = String::from("target,setting,condition,connections,path,close,rounds,errors,tied_best");
    text += ",at_least,search_ended,beside_errors";
    for (name, _) in FIGURES {
        let _ = write!(text, ",{name},{name}_low,{name}_high");
    }
    text.push('\n');
    results.cells.iter().for_each(|cell| put_row(&mut text, cell));
    text
}

/// A figure of a cell.
type Figure = fn(&Cell) -> Option<Estimate>;

/// The figures that have an interval, by name.
const FIGURES: [(&str, Figure); 9] = [
    ("clients", |cell| Some(cell.held.as_ref()?.clients)),
    ("requests_per_second", |cell| Some(cell.requests_per_second)),
    ("p50_us", |cell| cell.p50_us),
    ("p99_us", |cell| cell.p99_us),
    ("server_cpu_us_per_request", |cell| cell.server_cpu_us_per_request),
    ("bytes_per_second", |cell| cell.bytes_per_second),
    ("peak_rss_bytes", |cell| cell.peak_rss_bytes),
    ("beside_requests_per_second", |cell| Some(cell.beside.as_ref()?.requests_per_second)),
    ("beside_p99_us", |cell| cell.beside.as_ref()?.p99_us),
];

fn put_row(text: &mut String, cell: &Cell) {
    let key = &cell.key;
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let _ = write!(
        text,
        "{},{},{},{},{},{},{},{},{},{},{},{}",
        quoted(&key.target),
        quoted(&levels(&key.setting)),
        quoted(&levels(&key.condition)),
        key.connections,
        quoted(&key.path),
        key.close,
        cell.rounds,
        cell.errors,
        cell.tied_best,
        cell.held.as_ref().is_some_and(|held| held.at_least),
        cell.held.as_ref().map_or_else(String::new, |held| quoted(&held.why)),
        cell.beside.as_ref().map_or_else(String::new, |beside| beside.errors.to_string()),
    );
    for (_, figure) in FIGURES {
        let _ = match figure(cell) {
            Some(Estimate { median, low: Some(low), high: Some(high) }) => {
                write!(text, ",{median:.3},{low:.3},{high:.3}")
            }
            Some(Estimate { median, .. }) => write!(text, ",{median:.3},,"),
            None => write!(text, ",,,"),
        };
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn a_directory_that_is_there_is_refused() {
        let out = tempfile::tempdir().unwrap();
        let error = Store::create(out.path(), "").err().unwrap().to_string();
        assert_eq!(
            error,
            format!(
                "{}: exists already; give another directory with --out, or go on with it with --resume",
                out.path().display()
            )
        );
        assert!(Store::create(&out.path().join("deep/below"), "").is_ok());
        assert!(Store::create(&out.path().join("deep/below"), "").is_err());
    }

    #[test]
    fn results_read_back_as_they_were_written_and_nothing_half_written_is_left() {
        let out = tempfile::tempdir().unwrap();
        let store = Store::create(&out.path().join("x"), "title = 1").unwrap();
        let results = fake::results(&["a", "b"], 2, |_, round| (1_000.0 + f64::from(round), 10.0));
        store.keep(&results).unwrap();
        store.keep(&results).unwrap();
        store.keep_reports(&results).unwrap();
        let read: Results =
            serde_json::from_slice(&fs::read(out.path().join("x/results.json")).unwrap()).unwrap();
        assert_eq!(json(&read), json(&results));
        let mut names: Vec<_> =
            fs::read_dir(out.path().join("x")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(
            names,
            ["cells.csv", "plan.toml", "report.html", "results.json", "results.sqlite", "runs", "summary.md"]
        );
    }

    #[test]
    fn the_table_for_programs_has_every_figure_with_its_interval() {
        let mut results = fake::results(&["a"], 3, |_, round| (1_024.0 * f64::from(round + 1), 10.0));
        crate::summary::summarise(&mut results, &fake::plan(&["a"], ""));
        let csv = csv(&results);
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let (heading, row) = (lines.next().unwrap(), lines.next().unwrap());
        assert_eq!(heading.len(), row.len());
        let value = |name: &str| row[heading.iter().position(|other| *other == name).unwrap()];
        assert_eq!(value("bytes_per_second"), "2097152.000");
        assert_eq!(
            (value("bytes_per_second_low"), value("bytes_per_second_high")),
            ("1048576.000", "3145728.000")
        );
        assert_eq!(value("peak_rss_bytes"), "8388608.000");
        let text = report::markdown(&results);
        assert!(
            text.contains("| 2,048 [1,024, 3,072] | 2.00 | ") && text.contains(" | 8.00 | 0 |"),
            "{text}"
        );
    }

    #[test]
    fn a_run_that_only_its_file_has_is_in_the_database_once_it_is_gone_on_with() {
        let out = tempfile::tempdir().unwrap();
        let directory = out.path().join("x");
        let results = fake::results(&["a", "b"], 2, |_, _| (1_000.0, 10.0));
        let store = Store::create(&directory, "").unwrap();
        results.runs.iter().enumerate().for_each(|(number, run)| store.keep_run(number, run).unwrap());
        drop(store);
        let database = rusqlite::Connection::open(directory.join(DATABASE)).unwrap();
        let rows = || -> Vec<i64> {
            let mut asked = database.prepare("SELECT id FROM run ORDER BY id").unwrap();
            asked.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        database.execute("DELETE FROM run WHERE id IN (1, 3)", []).unwrap();
        assert_eq!(rows(), [0, 2]);
        let (_, before) = Store::resume(&directory, "").unwrap();
        assert_eq!((rows(), before.kept.runs.len(), before.results.is_none()), (vec![0, 1, 2, 3], 4, true));
    }

    #[test]
    fn what_cannot_be_written_says_how_to_go_on_and_leaves_no_part() {
        let out = tempfile::tempdir().unwrap();
        let store = Store::create(&out.path().join("x"), "").unwrap();
        let directory = fs::canonicalize(out.path()).unwrap().join("x");
        // A directory is in the way of the file.
        fs::create_dir(directory.join("cells.csv")).unwrap();
        let results = fake::results(&["a"], 1, |_, _| (1_000.0, 10.0));
        let error = store.keep_reports(&results).unwrap_err().to_string();
        let way_on = format!("; what was kept so far is whole: go on with --resume {}", directory.display());
        assert!(
            error.starts_with(&format!("{}/cells.csv: ", directory.display())) && error.ends_with(&way_on),
            "{error}"
        );
        assert!(!directory.join("cells.part").exists());
    }

    #[test]
    fn older_results_without_the_newer_fields_can_still_be_read() {
        let mut value = serde_json::to_value(fake::results(&["a"], 1, |_, _| (1_000.0, 10.0))).unwrap();
        let fields = value.as_object_mut().unwrap();
        assert!(fields.remove("question").is_some() && fields.remove("planned_runs").is_some());
        value["runs"][0]["server"].as_object_mut().unwrap().remove("window_s").unwrap();
        serde_json::from_value::<Results>(value).unwrap();
    }
}
