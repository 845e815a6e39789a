//! What a directory of results has of an experiment that is gone on with: whatever can be read of it.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::mem;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::key::CellKey;
use crate::results::{Results, Run};

/// Runs that were made before.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Those that need not be made again, each with its number, in the order in which they were made.
    pub(crate) runs: Vec<(usize, Run)>,
    /// Those that failed, and are made again.
    pub(crate) failed: Vec<(usize, Run)>,
    /// The number of the next run: none that any file has.
    pub(crate) next: usize,
}

/// What an experiment that is gone on with has.
#[derive(Debug, Default)]
pub(crate) struct Before {
    /// Its runs.
    pub(crate) kept: Kept,
    /// Its results as they were written last; `None` if they never were, or cannot be read.
    pub(crate) results: Option<Results>,
    /// Files that cannot be read, each with why.
    pub(crate) unreadable: Vec<(PathBuf, String)>,
}

impl Kept {
    /// The runs of all files that there are, with their numbers.
    pub(crate) fn files(&self) -> impl Iterator<Item = (usize, &Run)> {
        self.runs.iter().chain(&self.failed).map(|(number, run)| (*number, run))
    }

    /// Takes out what failed and was made again since: the lab was killed before it put that aside.
    pub(super) fn take_replaced(&mut self) -> Vec<(usize, Run)> {
        let made: BTreeSet<(u32, &CellKey)> =
            self.runs.iter().map(|(_, run)| (run.round, &run.cell)).collect();
        let is_made = |(_, run): &(usize, Run)| made.contains(&(run.round, &run.cell));
        let (replaced, failed) = mem::take(&mut self.failed).into_iter().partition(is_made);
        self.failed = failed;
        replaced
    }

    /// Takes out the run that failed in a round of a cell, which is made again by now.
    pub(crate) fn take_failed(&mut self, round: u32, cell: &CellKey) -> Option<(usize, Run)> {
        let at = self.failed.iter().position(|(_, run)| run.round == round && run.cell == *cell)?;
        Some(self.failed.swap_remove(at))
    }
}

impl Before {
    /// Reads all that is there. What was being written when it ended has another name, and is made again.
    ///
    /// # Errors
    /// The kernel does not let a file be read. That one holds something else is none.
    pub(super) fn read(directory: &Path) -> Result<Before, Error> {
        let mut before = Before::default();
        let directory_of_runs = directory.join("runs");
        let mut files = BTreeSet::new();
        for entry in fs::read_dir(&directory_of_runs).map_err(Error::file(&directory_of_runs))? {
            let path = entry.map_err(Error::file(&directory_of_runs))?.path();
            files.extend(number_of(&path).map(|number| (number, path)));
        }
        before.kept.next = files.last().map_or(0, |(number, _)| number + 1);
        let mut runs: Vec<(usize, Run)> = Vec::new();
        for (number, path) in files.into_iter().filter(|(_, path)| is_json(path)) {
            match read(&path)? {
                Read::Whole(run) => runs.push((number, run)),
                Read::Unreadable(why) => before.unreadable.push((path, why)),
                Read::Missing => {}
            }
        }
        (before.kept.failed, before.kept.runs) = runs.into_iter().partition(|(_, run)| run.failure.is_some());
        before.results = match read(&directory.join("results.json"))? {
            Read::Whole(results) => Some(results),
            // It is written anew at once.
            Read::Missing | Read::Unreadable(_) => None,
        };
        Ok(before)
    }

    /// The files that could not be read, and what became of them, a sentence each.
    pub(crate) fn losses(&self) -> Vec<String> {
        let said = |(path, why): &(PathBuf, String)| {
            format!("{} could not be read ({why}): its run was made again", path.display())
        };
        self.unreadable.iter().map(said).collect()
    }
}

/// The number that the name of a run's file begins with, whatever has become of it.
fn number_of(path: &Path) -> Option<usize> {
    path.file_name()?.to_str()?.split_once('-')?.0.parse().ok()
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "json")
}

/// What a file holds.
enum Read<T> {
    Whole(T),
    /// Something else, such as a part of it, with what is wrong.
    Unreadable(String),
    Missing,
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Read<T>, Error> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Read::Missing),
        text => text.map_err(Error::file(path))?,
    };
    Ok(serde_json::from_slice(&text).map_or_else(|error| Read::Unreadable(error.to_string()), Read::Whole))
}
