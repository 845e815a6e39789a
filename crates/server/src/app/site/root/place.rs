//! The place where the root is: a path, and the directory that stands there, opened anew when it is another one.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf, absolute};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{self, CWD, Mode, OFlags, fstat, stat};
use rustix::io::Errno;

/// How often it is looked whether another directory stands there, if anything is opened. With what the cache believes, a new
/// one is served within a second.
const LOOK: Duration = Duration::from_millis(250);

/// A path, and the directory that stands there.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    directory: Arc<Directory>,
    /// When it was looked at last.
    looked: Instant,
    /// The directory that could not be opened, which was said.
    refused: Option<Inode>,
}

type Inode = (u64, u64);

/// An open directory, and the absolute paths that lead to it.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) fd: OwnedFd,
    /// As it was given, and without links.
    pub(super) paths: [PathBuf; 2],
    inode: Inode,
}

impl Place {
    /// Opens the directory at a path.
    ///
    /// # Errors
    /// It is not there, not a directory, or not readable.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = absolute(path)?;
        let directory = Arc::new(Directory::open(&path)?);
        Ok(Place { path, now: Mutex::new(Now { directory, looked: Instant::now(), refused: None }) })
    }

    /// The directory that stands there: a build may have made it anew, or a link may lead to another one by now. While none
    /// stands there, it is the last one.
    pub(super) fn directory(&self) -> Arc<Directory> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if now.looked.elapsed() >= LOOK {
            now.looked = Instant::now();
            now.look(&self.path);
        }
        now.directory.clone()
    }
}

impl Now {
    fn look(&mut self, path: &Path) {
        // The number of a directory that is open is not given to another one.
        let Ok(inode) = stat(path).map(|stat| (stat.st_dev, stat.st_ino)) else { return };
        if inode == self.directory.inode {
            return;
        }
        match Directory::open(path) {
            Ok(directory) => {
                tracing::info!(?path, "another directory stands there now, and is served");
                (self.directory, self.refused) = (Arc::new(directory), None);
            }
            Err(error) if self.refused != Some(inode) => {
                tracing::warn!(
                    ?path,
                    %error,
                    "another directory stands there now, and cannot be opened: the one before is served on. A sandbox keeps \
                     to the directory of the start: start the server again, or serve with --sandbox off"
                );
                self.refused = Some(inode);
            }
            Err(_) => {}
        }
    }
}

impl Directory {
    fn open(path: &Path) -> Result<Self, Errno> {
        let fd = fs::openat(CWD, path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fstat(&fd)?;
        let without_links = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
        Ok(Directory { fd, paths: [path.into(), without_links], inode: (stat.st_dev, stat.st_ino) })
    }
}
