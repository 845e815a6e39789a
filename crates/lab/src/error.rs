//! Why an experiment could not be run at all; what goes wrong in one of its runs is part of its results.

use std::path::PathBuf;

/// Why an experiment could not be run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such experiment.
    #[error("{0}")]
    Unknown(String),
    /// The plan cannot be used.
    #[error("{file}: {problem}")]
    Plan {
        /// The file.
        file: String,
        /// What is wrong, where, and what would be right.
        problem: String,
    },
    /// A file or directory cannot be read or written.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The kernel's reason.
        cause: std::io::Error,
    },
    /// A file of the results cannot be written, such as where the disk is full.
    #[error("{}: {cause}; what was kept so far is whole: go on with --resume {}", path.display(), directory.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// The directory of the results.
        directory: PathBuf,
        /// The kernel's reason.
        cause: std::io::Error,
    },
    /// The database of the results cannot be written.
    #[error("{}: {cause}; what was kept so far is whole: go on with --resume {}", path.display(), directory.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// The directory of the results.
        directory: PathBuf,
        /// SQLite's reason.
        cause: rusqlite::Error,
    },
    /// The database of the results has the tables of another version of this program.
    #[error(
        "{}: has version {version} of the tables, and this program writes version {known}: \
         go on with the program that began it, or begin anew with another --out",
        path.display()
    )]
    OtherVersion {
        /// The database.
        path: PathBuf,
        /// Its version.
        version: i32,
        /// The only one that is written.
        known: i32,
    },
    /// The output directory holds something already.
    #[error("{}: exists already; give another directory with --out, or go on with it with --resume", .0.display())]
    Exists(PathBuf),
    /// A search for the best settings was cancelled; the report of what it has measured.
    #[error("interrupted: settings are chosen from a whole search only; what was measured so far: {}", .0.display())]
    Interrupted(PathBuf),
    /// The experiment that is to be gone on with was another.
    #[error("{}: differs from the plan that is to be run; go on with the same one, or give another directory", .0.display())]
    OtherPlan(PathBuf),
}

impl Error {
    /// For `map_err` where a file is concerned.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |cause| Error::File { path, cause }
    }
}
