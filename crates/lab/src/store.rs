//! Where an experiment's results are kept: one directory, written so that a crash loses one run at most.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::database::Database;
use crate::error::Error;
use crate::key::levels;
use crate::report;
use crate::results::{Estimate, Results, Run};

/// The name of the database.
const DATABASE: &str = "results.sqlite";

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
        let store = Store::at(directory)?;
        store.write("plan.toml", plan)?;
        Ok(store)
    }

    /// The store in a directory that is there.
    fn at(directory: PathBuf) -> Result<Self, Error> {
        let path = directory.join(DATABASE);
        let database = Database::open(&path).map_err(|cause| Error::Database { path, cause })?;
        Ok(Store { directory, database: RefCell::new(database) })
    }

    /// Goes on in the directory of an experiment that was interrupted; gives the runs that it has.
    ///
    /// # Errors
    /// It is no such directory, or was made with another plan.
    pub(crate) fn resume(directory: &Path, plan: &str) -> Result<(Self, Vec<Run>), Error> {
        let directory = fs::canonicalize(directory).map_err(Error::file(directory))?;
        let file = directory.join("plan.toml");
        let before = fs::read_to_string(&file).map_err(Error::file(&file))?;
        if before != plan {
            return Err(Error::OtherPlan(file));
        }
        let runs = directory.join("runs");
        let mut kept = Vec::new();
        for entry in fs::read_dir(&runs).map_err(Error::file(&runs))? {
            let path = entry.map_err(Error::file(&runs))?.path();
            // What was being written when it ended has another name, and is made again.
            if path.extension().is_some_and(|ending| ending == "json") {
                let text = fs::read(&path).map_err(Error::file(&path))?;
                let run = serde_json::from_slice(&text)
                    .map_err(|error| Error::file(&path)(std::io::Error::other(error)))?;
                kept.push((path, run));
            }
        }
        // By their numbers, so that they come in the order in which they were made.
        kept.sort_by(|a, b| a.0.cmp(&b.0));
        Ok((Store::at(directory)?, kept.into_iter().map(|(_, run)| run).collect()))
    }

    /// A directory for the files of one run's server: its configuration and its log.
    pub(crate) fn own_files(&self, number: usize, target: &str) -> PathBuf {
        self.directory.join("logs").join(format!("{number:05}-{target}"))
    }

    /// Keeps one run as it was measured.
    pub(crate) fn keep_run(&self, number: usize, run: &Run) -> Result<(), Error> {
        self.write(&format!("runs/{number:05}-{}.json", run.cell.target), &json(run))?;
        self.in_database(|database| database.keep_run(number, run))
    }

    fn in_database(&self, put: impl FnOnce(&mut Database) -> rusqlite::Result<()>) -> Result<(), Error> {
        let path = self.directory.join(DATABASE);
        put(&mut self.database.borrow_mut()).map_err(|cause| Error::Database { path, cause })
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

    /// Writes a file so that whoever looks, and whenever the lab is killed, finds the old one or the new one.
    fn write(&self, name: &str, content: &str) -> Result<(), Error> {
        let path = self.directory.join(name);
        let part = path.with_extension("part");
        fs::write(&part, content).map_err(Error::file(&part))?;
        fs::rename(&part, &path).map_err(Error::file(&path))
    }
}

fn json(value: &impl serde::Serialize) -> String {
    // Plain structs with string keys always serialise.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// The cells as a table for other programs.
pub(crate) fn csv(results: &Results) -> String {
    let mut text = String::from("target,setting,condition,connections,path,close,rounds,errors,tied_best");
    text += ",at_least,search_ended";
    for name in [
        "clients",
        "requests_per_second",
        "p50_us",
        "p99_us",
        "server_cpu_us_per_request",
        "bytes_per_second",
        "peak_rss_bytes",
    ] {
        let _ = write!(text, ",{name},{name}_low,{name}_high");
    }
    text.push('\n');
    for cell in &results.cells {
        let key = &cell.key;
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let _ = write!(
            text,
            "{},{},{},{},{},{},{},{},{},{},{}",
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
        );
        let clients = cell.held.as_ref().map(|held| held.clients);
        for estimate in [
            clients,
            Some(cell.requests_per_second),
            cell.p50_us,
            cell.p99_us,
            cell.server_cpu_us_per_request,
            cell.bytes_per_second,
            cell.peak_rss_bytes,
        ] {
            match estimate {
                Some(Estimate { median, low: Some(low), high: Some(high) }) => {
                    let _ = write!(text, ",{median:.3},{low:.3},{high:.3}");
                }
                Some(Estimate { median, .. }) => {
                    let _ = write!(text, ",{median:.3},,");
                }
                None => text.push_str(",,,"),
            }
        }
        text.push('\n');
    }
    text
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
    fn older_results_without_the_newer_fields_can_still_be_read() {
        let mut value = serde_json::to_value(fake::results(&["a"], 1, |_, _| (1_000.0, 10.0))).unwrap();
        let fields = value.as_object_mut().unwrap();
        assert!(fields.remove("question").is_some() && fields.remove("planned_runs").is_some());
        value["runs"][0]["server"].as_object_mut().unwrap().remove("window_s").unwrap();
        serde_json::from_value::<Results>(value).unwrap();
    }
}
