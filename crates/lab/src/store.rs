//! Where an experiment's results are kept: one directory, written so that a crash loses one run at most.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::report;
use crate::results::{Estimate, Results, Run};

/// The directory of one experiment.
pub(crate) struct Store {
    directory: PathBuf,
}

impl Store {
    /// Makes the directory; it must not be there yet.
    pub(crate) fn create(directory: &Path, plan: &str) -> Result<Self, Error> {
        if directory.exists() {
            return Err(Error::Exists(directory.into()));
        }
        let runs = directory.join("runs");
        fs::create_dir_all(&runs).map_err(Error::file(&runs))?;
        // Servers are told of files in it, and may not start where this program did.
        let directory = directory.canonicalize().map_err(Error::file(directory))?;
        let store = Store { directory };
        store.write("plan.toml", plan)?;
        Ok(store)
    }

    /// A directory for the files of one run's server: its configuration and its log.
    pub(crate) fn scratch(&self, number: usize, target: &str) -> PathBuf {
        self.directory.join("logs").join(format!("{number:03}-{target}"))
    }

    /// Keeps one run as it was measured.
    pub(crate) fn keep_run(&self, number: usize, run: &Run) -> Result<(), Error> {
        self.write(&format!("runs/{number:03}-{}.json", run.cell.target), &json(run))
    }

    /// Writes everything that is made from the runs, and says where the report is.
    pub(crate) fn keep(&self, results: &Results) -> Result<PathBuf, Error> {
        self.write("results.json", &json(results))?;
        self.write("cells.csv", &csv(results))?;
        self.write("summary.md", &report::markdown(results))?;
        self.write("report.html", &report::html(results))?;
        Ok(self.directory.join("report.html"))
    }

    /// Writes a file so that it is there either whole or not at all.
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
fn csv(results: &Results) -> String {
    let mut text = String::from("target,connections,path,close,rounds,errors,tied_best");
    for name in ["requests_per_second", "p50_us", "p99_us", "server_cpu_us_per_request"] {
        let _ = write!(text, ",{name},{name}_low,{name}_high");
    }
    text.push('\n');
    for cell in &results.cells {
        let key = &cell.key;
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let _ = write!(
            text,
            "{},{},{},{},{},{},{}",
            quoted(&key.target),
            key.connections,
            quoted(&key.path),
            key.close,
            cell.rounds,
            cell.errors,
            cell.tied_best
        );
        for estimate in
            [Some(cell.requests_per_second), cell.p50_us, cell.p99_us, cell.server_cpu_us_per_request]
        {
            match estimate {
                Some(Estimate { median, low, high }) => {
                    let _ = write!(text, ",{median:.3},{low:.3},{high:.3}");
                }
                None => text.push_str(",,,"),
            }
        }
        text.push('\n');
    }
    text
}
